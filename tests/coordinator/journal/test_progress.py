"""What a journal remembers of rollouts."""

from coordinator.journal.progress import ROLLOUTS, RolloutRecord, StepRecord


def test_a_rollout_its_members_and_who_ran_what_when(journal, tmp_path):
    made = journal(tmp_path, lambda: 5.0)
    tables = made.rollouts
    assert (tables.newest(), tables.all(), tables.steps()) == (None, [], [])
    with made.commit():
        tables.put(RolloutRecord(1, {"bundle": "b"}, "open", 0, ""))
        tables.put_members(1, {"a": {"step": "trying"}, "b": {"step": "trying"}})
        tables.add_steps([StepRecord(1, "", "started", "x"), StepRecord(1, "a", "trying", "")])
    with made.commit():
        tables.put(RolloutRecord(1, {"bundle": "b"}, "open", 1, ""))
        tables.put_members(1, {"a": {"step": "proven"}})
        tables.add_steps([StepRecord(1, "a", "proven", "")])
        tables.drop_agent("b")
    made.close()
    again = journal(tmp_path, lambda: 6.0)
    assert again.rollouts.newest() == RolloutRecord(1, {"bundle": "b"}, "open", 1, "", 5.0)
    assert again.rollouts.members(1) == {"a": {"step": "proven"}}
    assert [s.step for s in again.rollouts.steps(1)] == ["started", "trying", "proven"]
    assert [s.step for s in again.rollouts.steps(1, last=1)] == ["proven"]
    assert again.rollouts.steps(2) == []
    again.close()


def test_old_ones_are_forgotten(journal, tmp_path):
    made = journal(tmp_path)
    with made.commit():
        for number in range(1, ROLLOUTS + 3):
            made.rollouts.put(RolloutRecord(number, {}, "done", 0, ""))
            made.rollouts.put_members(number, {"a": {}})
    assert [r.number for r in made.rollouts.all()] == list(range(3, ROLLOUTS + 3))
    assert made.rollouts.members(2) == {}
    made.close()
