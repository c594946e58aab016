"""An alert is an event when it appears and when it is over, and not in between."""

import json

from coordinator.service.lookout import EVERY, Lookout, measurement
from protofleet import wire
from tests.contributing import arrived, message
from tests.coordinator.made import birth, core, joined, ledger, upload


def kinds(made, kind):
    return [event["about"] for event in made.journal.history(kind)]


def test_what_appears_and_what_is_over_is_written_down_once(tmp_path):
    made = core(tmp_path)
    joined(made)
    lookout = Lookout(made, None, lambda: 0.0)
    lookout.look(1.0, connected=True)
    assert lookout.alerts == ()
    for turn in range(3):
        lookout.look(10.0 + turn * EVERY, connected=False)
    assert kinds(made, "alert") == ["broker"]
    again = Lookout(made, None, lambda: 0.0)  # as after a restart
    again.look(100.0, connected=False)
    assert kinds(made, "alert") == ["broker"]
    again.look(101.0, connected=True)  # not yet
    assert kinds(made, "alert-over") == []
    again.look(100.0 + EVERY, connected=True)
    assert kinds(made, "alert-over") == ["broker"]
    json.dumps(again.documents)


def test_who_is_gone_is_silent_and_who_left_is_not(tmp_path):
    made = core(tmp_path)
    joined(made)
    made.take([birth("b", online=False), birth("c", online=False, reason="left")], 10.0)
    lookout = Lookout(made, None, lambda: 0.0)
    lookout.look(200.0, connected=True)
    assert [(alert.kind, alert.subject) for alert in lookout.alerts] == [("silent", "b")]
    # Who hears nobody cannot say who is silent.
    lookout.look(300.0, connected=False)
    assert [alert.kind for alert in lookout.alerts] == ["broker"]


def test_a_refusal_stands_until_something_is_taken(tmp_path):
    made = core(tmp_path)
    _, _, base = joined(made)
    lookout = Lookout(made, None, lambda: 0.0)
    made.take([upload("a", 1, "00" * 32)], 1.0)
    lookout.look(1.0, connected=True)
    assert [(alert.kind, alert.subject) for alert in lookout.alerts] == [("refused", "a")]
    made.take([upload("a", 1, base)], 2.0)
    lookout.look(1.0 + EVERY, connected=True)
    assert lookout.alerts == ()


def test_what_a_device_leaves_out_is_heard_of(tmp_path):
    made = core(tmp_path)
    joined(made)
    topic = made.topics.parse(made.topics.report("a"))
    envelope = wire.Envelope("report", "orchard", agent="a", round=0)
    made.take([(topic, wire.encode(envelope, {"notice": "no class 'elk'" + "!" * 240}))], 1.0)
    assert len(made.devices["a"].notice) == 250
    lookout = Lookout(made, None, lambda: 0.0)
    lookout.look(1.0, connected=True)
    assert "no class 'elk'" in lookout.alerts[0].sentence


def test_a_class_that_waits_and_accuracy_that_fell(tmp_path):
    made = ledger(tmp_path, enrol="manual")
    made.take([birth("a", classes=["plum", "owl"])], 1.0)
    made.take([arrived("a", message("a", ["plum", "owl"]))], 1.0)
    with made.journal.commit():
        for share in (0.9, 0.6):
            made.journal.add_event("measured", accuracy={"held out": share}, held_out=1000)
    lookout = Lookout(made, None, lambda: 0.0)
    lookout.look(1.0, connected=True)
    assert [alert.kind for alert in lookout.alerts] == ["accuracy", "waiting"]
    assert "from 90 % to 60 %" in lookout.alerts[0].sentence


def test_a_measure_is_the_runs_first():
    assert measurement({"accuracy": {"a": 0.1, "test": 0.5}}).share == 0.5
    assert measurement({"accuracy": {"a": 0.1}, "held_out": 7}).samples == 7
    assert measurement({"accuracy": {}}) is None
    assert measurement({}) is None
