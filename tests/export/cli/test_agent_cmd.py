"""`edge-agent export`: where it reads, and one line where there is nothing yet."""

import pytest
from click.testing import CliRunner

from edge_agent.cli import agent as edge_agent
from edge_agent.store import Store
from protofleet.errors import CheckpointError, SettingError
from tests.bundles import device


def called(*words):
    runner = CliRunner(env={"PROTOFLEET_DATA": "/data/sets"})
    words = ["export", *(str(word) for word in words)]
    outcome = runner.invoke(edge_agent, words, standalone_mode=False)
    if outcome.exception is not None:
        raise outcome.exception
    return outcome.output


def test_a_device_that_never_trained_says_so(tmp_path):
    Store(tmp_path).close()
    with pytest.raises(CheckpointError, match="no round was trained yet"):
        called("--id", "a", "--data-dir", tmp_path, "--data", "digits")


def test_without_samples_to_check_with_it_does_not_begin(tmp_path):
    with pytest.raises(SettingError, match=r"data\.source"):
        called("--id", "a", "--data-dir", tmp_path)


def test_the_bundle_goes_where_it_is_said_else_where_the_settings_say(tmp_path, monkeypatch):
    from export import agent

    asked = []

    def from_store(config, data_dir, run):
        asked.append((config.id, str(data_dir), run))
        return device()

    monkeypatch.setattr(agent, "from_store", from_store)
    words = ("--id", "a", "--data", "digits", "--set", f"agent.export_to={tmp_path / 'usual'}")
    assert f"{tmp_path / 'usual'}: mlp" in called(*words)
    assert f"{tmp_path / 'there'}: mlp" in called(*words, "--out", tmp_path / "there", "--run", "r")
    assert (tmp_path / "usual" / "manifest.json").exists()
    assert (tmp_path / "there" / "manifest.json").exists()
    assert asked == [("a", "/data/sets", None), ("a", "/data/sets", "r")]
