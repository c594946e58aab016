"""What Prometheus is told of a device is how it stands; what nobody counted is not there."""

import json
import os
from dataclasses import asdict, replace

from edge_agent.daemon.deliver import LedgerStanding
from edge_agent.daemon.status import Status
from edge_agent.metrics.measures import measures
from edge_agent.updates.sight import LookerCount, Outlook, Sight
from protofleet.metrics.durations import Durations
from protofleet.metrics.exposition import exposition

STATUS = Status(
    "camera-07",
    "f",
    "mqtt://x",
    os.getpid(),
    connected=True,
    coordinator=True,
    samples=12,
    classes=("a", "b"),
    accuracy=(("head", 0.75),),
    ledger=LedgerStanding(("own",), ("counts",)),
    bytes_total=5000,
    bundle="ab" * 32,
    newest="cd" * 32,
    trainings=Durations().plus(0.2).plus(4.0),
)


def told(status=STATUS, **more):
    document = {**asdict(status), "running": True, "outbox": {"waiting": 2}, "seen": None, **more}
    return {
        (family.name, *(value for _, value in point.labels), point.suffix): point.value
        for family in measures(json.loads(json.dumps(document)))
        for point in family.points
    }


def test_a_device_that_trains_and_delivers():
    numbers = told(disk_free_bytes=7, certificate_end=None)
    assert numbers["protofleet_agent_running", ""] == 1
    assert numbers["protofleet_agent_training_seconds", "_count"] == 2
    assert numbers["protofleet_agent_training_seconds", "_sum"] == 4.2
    assert numbers["protofleet_agent_outbox_messages", "upload", ""] == 2
    assert numbers["protofleet_agent_outbox_messages", "ledger", ""] == 1
    assert numbers["protofleet_agent_accuracy_ratio", "head", ""] == 0.75
    assert numbers["protofleet_agent_bundle_info", "ab" * 6, "cd" * 6, ""] == 1
    assert numbers["protofleet_agent_bundle_is_newest", ""] == 0
    assert numbers["protofleet_agent_disk_free_bytes", ""] == 7
    assert ("protofleet_agent_certificate_end_timestamp_seconds", "") not in numbers
    assert ("protofleet_agent_frames_total", "") not in numbers


def test_what_was_seen_is_counted_by_outcome_and_by_no_class():
    outlook = Outlook(Sight("mug", 0.9, at=3.0), LookerCount(1.0, 10, 4, 50, 7))
    numbers = told(seen=asdict(outlook))
    assert numbers["protofleet_agent_answers_total", "known", ""] == 6
    assert numbers["protofleet_agent_answers_total", "unknown", ""] == 4
    assert numbers["protofleet_agent_frames_dropped_total", ""] == 7
    assert not [key for key in numbers if "mug" in key]
    nobody = told(seen=asdict(replace(outlook, newest=Sight())))
    assert ("protofleet_agent_answer_timestamp_seconds", "") not in nobody


def test_a_daemon_that_is_gone_is_connected_to_nothing():
    numbers = told(running=False)
    assert numbers["protofleet_agent_running", ""] == 0
    assert numbers["protofleet_agent_connected", ""] == 0


def test_where_none_ever_ran_there_is_one_line_and_it_reads():
    body = exposition(measures(None)).body.decode()
    assert body.splitlines()[-1] == "protofleet_agent_running 0.0"
    assert exposition(measures(json.loads(json.dumps({**asdict(STATUS), "running": True})))).body
