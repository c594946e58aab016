"""What operators are told is what is so."""

import pytest

from coordinator.cli.live_cmd import status_lines
from coordinator.service import status
from protofleet import wire
from protofleet.errors import UsageError
from tests.contributing import arrived, message
from tests.coordinator.made import AGENTS, announced, birth, core, joined, ledger, upload


@pytest.fixture
def made(tmp_path):
    """Two of three have answered the first round."""
    made = core(tmp_path)
    _, _, base = joined(made)
    made.take([upload(agent, 1, base) for agent in AGENTS[:2]], 1.0)
    return made


def glance(made, now=1.0):
    return status.status(made, made.messages, now, 12.0, True, made.allowance.dropped)


def test_a_round_at_a_glance(made):
    document = glance(made)
    assert (document["phase"], document["round"], document["rounds"]) == ("collecting", 1, 3)
    assert (document["asked"], document["answered"], document["missing"]) == (3, 2, ["c"])
    assert (document["uploads"], document["agents_online"]) == (2, 3)
    assert document["seconds_left"] == 59.0


def test_a_pause_shows_once_no_round_is_open(made):
    made.pause(True, 1.0)
    assert glance(made)["phase"] == "collecting"
    made.take([upload("c", 1, made.journal.round(1).base)], 2.0)
    document = glance(made)
    assert (document["phase"], document["seconds_left"]) == ("paused", None)


def test_means_are_over_the_devices_that_reported_on_the_newest_state(made):
    for agent, round, accuracy in (("a", 0, 0.5), ("b", 0, 1.0), ("c", 7, 0.0)):
        envelope = wire.Envelope("report", "orchard", agent=agent, round=round)
        message = wire.encode(envelope, {"accuracy": {"test": accuracy}})
        made.take([(made.topics.parse(made.topics.report(agent)), message)], 2.0)
    document = glance(made)
    assert (document["accuracy"], document["accuracy_std"]) == ({"test": 0.75}, {"test": 0.25})
    assert document["reported"] == 2


def test_every_device_is_listed_also_one_that_left(made):
    made.take([birth("b", online=False, reason="left")], 5.0)
    rows = {row["agent"]: row for row in status.agents(made, 6.0)["agents"]}
    assert list(rows) == list(AGENTS)
    assert rows["b"]["runs"] == ""
    assert (rows["b"]["online"], rows["b"]["left"], rows["b"]["seen_seconds_ago"]) == (
        False,
        True,
        1.0,
    )


def test_a_round_tells_where_it_was_cut_and_what_came_out(made):
    _, _, base = announced(made.take([upload("c", 1, made.journal.round(1).base)], 2.0))
    rounds = status.all_rounds(made.journal, 5)["rounds"]
    assert [(r["round"], r["reason"], r["uploads"]) for r in rounds] == [
        (1, "complete", 3),
        (2, None, 0),
    ]
    one = status.one_round(made.journal, 1)
    assert one["state_sha256"] == made.journal.state_hash(1)
    assert [(u["agent"], u["cut"]) for u in one["uploads"]] == [(a, 1) for a in AGENTS]
    assert rounds[1]["base"] == base


def test_a_round_that_never_was_is_said_to_be_none(made):
    with pytest.raises(UsageError, match="round 9 was not opened"):
        status.one_round(made.journal, 9)


def test_a_ledger_says_who_contributed_what_and_what_is_doubtful(tmp_path):
    made = ledger(tmp_path, enrol="manual")
    assert status.status(made, made.messages, 0.0, 1.0, True, {})["ledger"]["devices"] == 0
    made.take([birth("a", classes=["plum", "owl", "rare"])], 1.0)
    made.take([arrived("a", message("a", ["plum", "owl"]))], 1.0)
    made.take([arrived("a", message("a", ["plum"], lineage="extractor:x"))], 2.0)
    document = glance(made)
    found = document["ledger"]
    assert (document["phase"], document["state_round"]) == ("ledger", 1)
    assert (found["version"], found["devices"], found["samples"], found["classes"]) == (1, 1, 12, 2)
    assert (found["calibrated_by"], found["current"], found["waiting"]) == (0, False, ["owl"])
    assert found["state_sha256"] == document["state_sha256"] == made.state.sha256
    (row,) = status.agents(made, 3.0)["agents"]
    assert (row["contributed"], row["unsaid"]) == ({"owl": 6, "plum": 6}, ["rare"])
    assert row["refused"].startswith("features of another extractor")
    assert "\n".join(status_lines(document)).count("waiting    owl") == 1
    made.take([arrived("by-hand", message("by-hand", ["plum"]))], 4.0)
    rows = {row["agent"]: row for row in status.agents(made, 5.0)["agents"]}
    assert (rows["by-hand"]["left"], rows["by-hand"]["contributed"]) == (True, {"plum": 6})
