"""Commands on a journal that nobody holds, and on one that is no journal."""

import json
import tomllib

import pytest
from click.testing import CliRunner

from coordinator.cli import coordinator
from coordinator.journal.journal import Journal
from protofleet.errors import FleetError
from tests.coordinator.made import AGENTS, agreed, announced, core, joined, upload


@pytest.fixture
def folder(tmp_path):
    """The journal of two rounds."""
    made = core(tmp_path / "data", rounds=2)
    _, _, base = joined(made)
    for number in (1, 2):
        base = announced(made.take([upload(a, number, base) for a in AGENTS], 1.0))[2]
    agreed(made).journal.close()
    return tmp_path / "data"


def call(*words):
    return CliRunner().invoke(coordinator, [str(word) for word in words])


def test_a_replay_says_of_every_state_whether_it_came_out_again(folder):
    outcome = call("replay", folder)
    assert outcome.output.splitlines()[-1] == "3 of 3 states computed again to the same hash"
    rows = json.loads(call("replay", folder, "--json").output)
    assert [(row["round"], row["verdict"]) for row in rows] == [(r, "same") for r in range(3)]


def test_a_state_that_differs_fails_the_command(folder):
    journal = Journal(folder, lambda: 0.0)
    with journal.commit():
        journal._db.execute("UPDATE states SET sha256=? WHERE round=1", ("0" * 64,))
    journal.close()
    outcome = call("replay", folder)
    assert isinstance(outcome.exception, FleetError)
    assert "2 of 3 states" in outcome.output


def test_a_compacted_journal_keeps_the_last_rounds_and_every_hash(folder):
    assert "the last 1 rounds kept in full" in call("compact", folder, "--keep", 1).output
    journal = Journal.read(folder)
    assert len(journal.state_hashes()) == 3
    assert journal.state(1) is None
    assert journal.state(2) is not None
    journal.close()


def test_a_backup_is_taken_also_where_nobody_serves(folder, tmp_path):
    (tmp_path / "copy").mkdir()
    target = tmp_path / "copy" / "journal.db"
    assert call("backup", folder, target).output == f"written: {target}\n"
    copy, original = Journal.read(tmp_path / "copy"), Journal.read(folder)
    assert copy.state_hashes() == original.state_hashes()


def test_a_journal_moves_to_a_server_and_is_computed_again_there(folder, tmp_path, postgres):
    address = postgres.database()
    assert call("backup", folder, address).output == f"written: {address}\n"
    there = tmp_path / "there"
    journal = Journal(there, lambda: 0.0, address=address)
    journal.close()
    document = json.loads(call("replay", there, "--json").output)
    assert {state["verdict"] for state in document} == {"same"}
    assert "given back" in call("compact", there, "--keep", "0").output
    assert "compacted" in call("replay", there).output


@pytest.mark.parametrize("words", [("replay",), ("compact",), ("backup", "target")])
def test_a_folder_without_a_journal_is_refused_and_gets_none(tmp_path, words):
    command, *more = words
    outcome = call(command, tmp_path, *more)
    assert "holds no journal" in str(outcome.exception)
    assert list(tmp_path.iterdir()) == []


def test_settings_are_written_with_the_limits_of_the_journal_that_is_there(folder):
    plan = folder.parent / "fleet.toml"
    plan.write_text('[serve]\ndata_dir = "data"\n')
    measured = json.loads(call("limits", folder, "--json").output)["admission"]
    assert f"uploads of {len(AGENTS)} devices" in call("init", plan, "--force").output
    written = tomllib.loads(plan.read_text())["admission"]
    assert measured["norm"] < 1e5
    assert {name: written[name] for name in measured} == measured
    assert call("init", folder.parent / "plain.toml").output.count("\n") == 1
