"""`coordinator freeze`: what may be given, and the file that the service is handed."""

import pytest

from coordinator.cli import freeze_cmd
from protofleet.errors import DataError, FleetError, UsageError
from tests.coordinator.made import ANTS, packed_bundle


@pytest.fixture
def asked(monkeypatch):
    """The commands that a service was asked."""
    commands = []

    def ask(directory, command, **arguments):
        commands.append((command, arguments))
        return {"fleet": "orchard"}

    monkeypatch.setattr(freeze_cmd, "ask", ask)
    return commands


@pytest.mark.parametrize("name", ["weights.pt", "weights.pth", "net.onnx"])
def test_a_network_that_is_no_bundle_yet_is_sent_to_the_command_that_makes_one(tmp_path, name):
    with pytest.raises(UsageError, match=f"{name} is no bundle; `protofleet extractor` makes one"):
        freeze_cmd.freeze.callback(
            source=tmp_path / name,
            wait=0.0,
            if_better=False,
            config=None,
            data_dir=tmp_path,
            as_json=False,
        )


def test_a_bundle_lies_in_the_coordinators_own_folder_while_it_is_read(tmp_path, asked):
    source = packed_bundle(tmp_path / "b.pfb", ANTS)
    (tmp_path / "data").mkdir()
    with freeze_cmd.bundle_file(source, tmp_path / "data") as file:
        assert file.parent == tmp_path / "data"
        assert file.read_bytes() == source.read_bytes()
    assert list((tmp_path / "data").iterdir()) == []
    assert asked == [("status", {})]


def test_a_folder_that_cannot_be_written_is_named(tmp_path, asked):
    source = packed_bundle(tmp_path / "b.pfb", ANTS)
    with (
        pytest.raises(DataError, match="cannot be written"),
        freeze_cmd.bundle_file(source, tmp_path / "nowhere"),
    ):
        pass


def test_devices_that_do_not_contribute_in_time_are_named_with_why(tmp_path, monkeypatch):
    source = packed_bundle(tmp_path / "b.pfb", ANTS)
    rows = [
        {"agent": "a", "refused": "features of another extractor"},
        {"agent": "b", "notice": "its self-test fails"},
        {"agent": "c", "gone": True},
        {"agent": "d"},
    ]
    listing = {"awaited": [row["agent"] for row in rows]}
    rollout = {"rollout": 1, "phase": "open", "devices": []}
    answers = {"classes": listing, "agents": {"agents": rows}, "rollout": rollout}
    monkeypatch.setattr(freeze_cmd, "ask", lambda folder, command, **words: answers.get(command))
    monkeypatch.setattr(freeze_cmd, "echo_classes", lambda *_: None)
    call = {"if_better": False, "config": None, "data_dir": tmp_path, "as_json": False}
    freeze_cmd.freeze.callback(source=source, wait=0.0, **call)
    with pytest.raises(FleetError) as refused:
        freeze_cmd.freeze.callback(source=source, wait=0.001, **call)
    assert refused.value.words == (
        "4 devices did not contribute in time: a: features of another extractor; "
        "b: its self-test fails; c: silent; d: nothing yet"
    )


def test_who_refuses_is_not_waited_for(tmp_path, monkeypatch):
    source = packed_bundle(tmp_path / "b.pfb", ANTS)
    devices = [{"agent": "a", "is": "failed", "words": "the self-test fails"}]
    rollout = {"rollout": 1, "phase": "open", "devices": devices}
    answers = {"classes": {"awaited": ["a"]}, "rollout": rollout}
    monkeypatch.setattr(freeze_cmd, "ask", lambda folder, command, **words: answers.get(command))
    monkeypatch.setattr(freeze_cmd, "echo_classes", lambda *_: None)
    call = {"if_better": False, "config": None, "data_dir": tmp_path, "as_json": False}
    with pytest.raises(FleetError, match="1 devices do not take it: a: the self-test fails"):
        freeze_cmd.freeze.callback(source=source, wait=600.0, **call)
