"""States come out of the journal's uploads again, and one that does not is named."""

import pytest

from coordinator.service.replay import refolded, replayed
from tests.contributing import LINEAGE, arrived, message
from tests.coordinator.made import AGENTS, agreed, announced, core, joined, ledger, upload


@pytest.fixture
def journal(tmp_path):
    """Three rounds of three devices."""
    made = core(tmp_path)
    _, _, base = joined(made)
    for number in (1, 2, 3):
        base = announced(made.take([upload(a, number, base) for a in AGENTS], 1.0))[2]
    return agreed(made).journal


def verdicts(journal):
    return [state.verdict for state in replayed(journal)]


def test_replay_computes_the_same_states(journal):
    assert verdicts(journal) == ["same"] * 4


def test_of_what_was_compacted_only_the_hash_is_left(journal):
    journal.compact(1)
    assert verdicts(journal) == ["same", "compacted", "compacted", "compacted"]
    assert [state.recorded for state in replayed(journal)] == [*journal.state_hashes().values()]


def test_a_state_that_was_recorded_differently_is_named_and_those_after_it_are_not(journal):
    with journal.commit():
        journal._db.execute("UPDATE states SET sha256=? WHERE round=2", ("0" * 64,))
    assert verdicts(journal) == ["same", "same", "differs", "same"]


def test_an_upload_that_is_lost_costs_its_state_alone(journal):
    with journal.commit():
        journal._db.execute("UPDATE uploads SET blob=999 WHERE round=2 AND agent='b'")
    assert verdicts(journal) == ["same", "same", "compacted", "same"]


def test_a_ledgers_newest_version_comes_out_of_its_contributions_again(tmp_path):
    made = agreed(ledger(tmp_path))
    made.take([arrived(a, message(a, ["plum", "owl"], n)) for n, a in enumerate("ab")], 1.0)
    recorded = made.state.sha256
    assert [(s.round, s.verdict) for s in replayed(made.journal)] == [(0, "same"), (1, "same")]
    assert refolded(made.journal).state.sha256 == replayed(made.journal)[-1].recorded == recorded
    with made.journal.commit():
        made.journal._db.execute("UPDATE versions SET sha256=?", ("0" * 64,))
    assert replayed(made.journal)[-1].verdict == "differs"
    with made.journal.commit():
        made.journal.ledger.drop_contribution(LINEAGE, "a", "")
    assert replayed(made.journal)[-1].verdict == "compacted"
