"""What operators are told of rollouts."""

from coordinator.rollouts import summary
from tests.coordinator.made import ledger
from tests.coordinator.rollouts.test_steering import AGENTS, group, say, start, through


def test_a_rollout_as_a_document(tmp_path):
    it = ledger(tmp_path / "data")
    it.rollouts.number = 0
    assert summary.status(it.rollouts, 0.0) == {"rollout": None, "devices": [], "groups": []}
    assert summary.glance(it.rollouts, 0.0) is None
    it.rollouts.recover(0.0)
    through(it)
    start(it, tmp_path, canaries=["camera-03"])
    say(it, group(it, 0), "running")
    document = summary.status(it.rollouts, 9.0)
    assert (document["kind"], document["phase"], document["by"]) == ("bundle", "open", "anna")
    first, second, _ = document["groups"]
    assert (first["share"], first["opened"], first["busy"], first["waiting"]) == (0.1, True, 2, 0)
    assert not second["opened"]
    assert sum(g["waiting"] + g["busy"] for g in document["groups"]) == len(AGENTS)
    assert document["on_it"] == 2
    assert [d["agent"] for d in document["devices"]] == group(it, 0)
    assert "error" not in document  # an answer of the socket with this key is one
    glance = summary.glance(it.rollouts, 9.0)
    assert "devices" not in glance
    newest, frozen = summary.every(it.journal.rollouts)["rollouts"]
    assert (newest["rollout"], newest["groups"], frozen["groups"]) == (2, [0.1, 0.5, 1.0], [1.0])
