"""A coordinator's measurements for Prometheus: a pure function of what it answers to `status` and
`agents`.
"""

# Theory of operation
#
# Nothing is counted here. The service counts anyway, and says so in its status; whoever is scraped
# (the page's process) asks it once a scrape and hands both documents to `measures`. So a scrape
# costs the service what a look at the page does, and can change nothing.
#
# Counters begin at 0 with the service's process, as Prometheus expects; what outlives it (rounds,
# versions) is told as gauges beside them.
#
# Series. All labels are sets of ours (reasons of refusals, phases, queues), but for two:
#
#   label     bounded by
#   measure   a core keeps 16 measures of accuracy (`coordinator.core.MEASURES`)
#   device    MOST_DEVICES devices, in the order of their names; `protofleet_devices_unlisted` says
#             how many have no series of their own. Whatever is said of all devices counts them all
#
# A service that does not answer is one line, `protofleet_coordinator_answers 0`, and no error: a
# scrape that fails would say that the page is gone.

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from coordinator.alerts import KINDS
from protofleet.metrics.durations import of_document
from protofleet.metrics.families import Family, Point, by, capped, counter, gauge, histogram, info

MOST_DEVICES = 500  # with series of their own: four each
PRESENCES = ("online", "silent", "lost", "left")
Document = Mapping[str, Any]

# What is told of each device: a name, its sentence, and the number, where there is one.
ONLINE = "protofleet_device_online"
SILENCE = "protofleet_device_silence_seconds"
SAMPLES = "protofleet_device_samples"
ACCURACY = "protofleet_device_accuracy_ratio"


def measures(status: Document | None, agents: Sequence[Document] = ()) -> list[Family]:
    """All of it; of a service that does not answer, that it does not."""
    answers = gauge(
        "protofleet_coordinator_answers",
        "Whether the coordinator answers at its socket.",
        status is not None,
    )
    if status is None:
        return [answers]
    vitals = status.get("vitals", {})
    return [
        answers,
        *_whole(status),
        *_devices(status, agents),
        *_rounds(status, vitals),
        *_uploads(status),
        *_learning(status, vitals),
        *_upkeep(status, vitals),
    ]


def presence(device: Document) -> str:
    """Whether a device is there, in one word."""
    if device["online"]:
        return "silent" if device.get("gone") else "online"
    return "left" if device["left"] else "lost"


def _whole(status: Document) -> list[Family]:
    fleet, run, method = (str(status[name]) for name in ("fleet", "run", "method"))
    return [
        info("protofleet_run_info", "Which run is served.", fleet=fleet, run=run, method=method),
        gauge(
            "protofleet_broker_connected",
            "Whether the coordinator has a connection to the broker.",
            status["connected"],
        ),
        gauge(
            "protofleet_uptime_seconds",
            "Since the coordinator's process began.",
            status["uptime_seconds"],
        ),
        gauge(
            "protofleet_coordinator_epoch",
            "Of this life: every start has a higher one.",
            status["epoch"],
        ),
    ]


def _devices(status: Document, agents: Sequence[Document]) -> list[Family]:
    every = sorted(agents, key=lambda device: str(device["agent"]))
    present = Counter(presence(device) for device in every)
    listed, others = capped(every, MOST_DEVICES)
    return [
        by(
            "gauge",
            "protofleet_devices",
            "Devices by whether they are there: online; silent, which owe an answer for too long;"
            " lost, whose connection ended; left, which said goodbye.",
            "presence",
            {name: present[name] for name in PRESENCES},
        ),
        gauge(
            "protofleet_devices_astray",
            "Devices that follow a higher epoch than this coordinator's.",
            status["agents_astray"],
        ),
        gauge(
            "protofleet_devices_unlisted",
            f"Devices beyond the first {MOST_DEVICES} by name, which have no series of their own.",
            others,
        ),
        by(
            "gauge",
            ONLINE,
            "Whether a device is there.",
            "device",
            {d["agent"]: presence(d) == "online" for d in listed},
        ),
        by(
            "gauge",
            SILENCE,
            "Since a device was last heard.",
            "device",
            {d["agent"]: None if d["left"] else d["seen_seconds_ago"] for d in listed},
        ),
        by(
            "gauge",
            SAMPLES,
            "Samples that a device says it has.",
            "device",
            {d["agent"]: d.get("samples") for d in listed},
        ),
        Family(
            ACCURACY,
            "gauge",
            "What a device measured on samples that it keeps for that, by its own report.",
            tuple(
                Point(float(share), (("device", str(d["agent"])), ("measure", str(name))))
                for d in listed
                for name, share in sorted(d["accuracy"].items())
            ),
        ),
    ]


def _rounds(status: Document, vitals: Document) -> list[Family]:
    fusions, versions = (of_document(vitals.get(f"{what}_seconds")) for what in _TIMED)
    return [
        gauge("protofleet_round", "The newest round's number.", status["round"]),
        gauge("protofleet_round_asked", "Devices that it waits for.", status["asked"]),
        gauge("protofleet_round_answered", "Devices that answered.", status["answered"]),
        counter("protofleet_rounds_opened_total", "Rounds opened.", vitals.get("opened")),
        by(
            "counter",
            "protofleet_rounds_closed_total",
            "Rounds closed, by why.",
            "reason",
            vitals.get("closed", {}),
        ),
        counter(
            "protofleet_rounds_failed_total",
            "Rounds that could not be fused; the state before them stays.",
            vitals.get("failed"),
        ),
        counter(
            "protofleet_rounds_put_off_total",
            "Deadlines that passed below the quorum.",
            vitals.get("put_off"),
        ),
        *([] if fusions is None else [histogram(FUSION, "A round's fusion.", *fusions)]),
        *([] if versions is None else [histogram(VERSION, "A ledger's version.", *versions)]),
    ]


_TIMED = ("fusion", "version")
FUSION = "protofleet_fusion_seconds"
VERSION = "protofleet_ledger_version_seconds"


def _uploads(status: Document) -> list[Family]:
    return [
        counter("protofleet_uploads_admitted_total", "Uploads let in.", status["uploads"]),
        counter(
            "protofleet_upload_bytes_total", "Bytes of uploads let in.", status["upload_bytes"]
        ),
        counter(
            "protofleet_uploads_repeated_total",
            "Uploads that were there already.",
            status["duplicates"],
        ),
        counter(
            "protofleet_uploads_late_total",
            "Uploads for a round that was closed.",
            status["late"],
        ),
        by(
            "counter",
            "protofleet_uploads_refused_total",
            "Uploads and contributions refused, by reason (protofleet/wire/codes.py).",
            "reason",
            status["refused"],
        ),
        by(
            "counter",
            "protofleet_messages_dropped_total",
            "Messages dropped before they were read, by what there were too many of.",
            "kind",
            status["dropped"],
        ),
    ]


def _learning(status: Document, vitals: Document) -> list[Family]:
    held_out, ledger = vitals.get("held_out", {}), status.get("ledger") or {}
    drifting = [device for device in ledger.get("drift", ()) if device["changed"]]
    suspects, doubted = ledger.get("suspects"), ledger.get("doubted")
    return [
        by(
            "gauge",
            "protofleet_accuracy_ratio",
            "Mean over the devices that reported on the newest state, by what they measured with.",
            "measure",
            status["accuracy"],
        ),
        gauge(
            "protofleet_accuracy_reports",
            "Devices whose report is in that mean.",
            status["reported"],
        ),
        gauge(
            "protofleet_held_out_accuracy_ratio",
            "Of samples that devices held out and counted, share that the ledger gets right.",
            held_out.get("accuracy"),
        ),
        gauge(
            "protofleet_held_out_samples",
            "Samples that devices held out and counted.",
            held_out.get("samples"),
        ),
        gauge("protofleet_ledger_version", "Of the ledger.", ledger.get("version")),
        gauge(
            "protofleet_ledger_version_age_seconds",
            "Since that version was written.",
            vitals.get("version_age_seconds"),
        ),
        gauge("protofleet_ledger_samples", "Samples behind it.", ledger.get("samples")),
        gauge("protofleet_ledger_classes", "Classes that it tells apart.", ledger.get("classes")),
        gauge(
            "protofleet_ledger_devices", "Devices that contributed to it.", ledger.get("devices")
        ),
        gauge(
            "protofleet_ledger_settled",
            "Whether all that came is in what is published.",
            ledger.get("settled"),
        ),
        gauge(
            "protofleet_classes_waiting",
            "Classes that wait for an operator.",
            len(ledger["waiting"]) if ledger else None,
        ),
        gauge(
            "protofleet_classes_suspect",
            "Pairs of a device and a class that others contradict.",
            None if suspects is None else len(suspects),
        ),
        gauge(
            "protofleet_devices_doubted",
            "Devices that are not heard, as most others contradict them.",
            None if doubted is None else len(doubted),
        ),
        gauge(
            "protofleet_devices_drifting",
            "Devices whose newest samples are unlike those they labelled.",
            len(drifting) if ledger else None,
        ),
    ]


def _upkeep(status: Document, vitals: Document) -> list[Family]:
    disk = vitals.get("disk", {})
    alerts = status.get("alerts")
    counted = None if alerts is None else Counter(alert["kind"] for alert in alerts)
    return [
        by(
            "gauge",
            "protofleet_queue_messages",
            "What waits: outgoing, to be taken by the broker; requests, of operators.",
            "queue",
            vitals.get("queues", {}),
        ),
        gauge("protofleet_disk_free_bytes", "Where the journal is.", disk.get("free_bytes")),
        gauge("protofleet_journal_bytes", "The journal's file.", disk.get("journal_bytes")),
        by(
            "gauge",
            "protofleet_certificate_end_timestamp_seconds",
            "When a certificate ends.",
            "certificate",
            vitals.get("certificates", {}),
        ),
        *(
            []
            if counted is None
            else [
                by(
                    "gauge",
                    "protofleet_alerts",
                    "What a person should look at, by kind.",
                    "kind",
                    {kind: counted[kind] for kind in KINDS},
                )
            ]
        ),
    ]
