"""A device's measurements for Prometheus: a pure function of how it stands (`standing`)."""

# Theory of operation
#
# Nothing is counted here: the daemon and whoever looks (`edge-agent infer`, `edge-agent watch`)
# count anyway and leave it on disk, and a scrape reads what is there. So the daemon does not notice
# that it is scraped, and one that is gone is told as gone.
#
#   counters of                begin at 0 with
#   trainings, link bytes      the daemon's process
#   answers, frames            the program that looks
#   everything else is a gauge
#
# Names begin with protofleet_agent_, as protofleet_device_ is what a coordinator says of devices.
# No label grows with what is seen: a class is none, and neither is a file.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protofleet.metrics.durations import EDGES
from protofleet.metrics.families import Family, by, counter, gauge, histogram, info

Document = Mapping[str, Any]
SHORT = 12  # letters of a bundle's name that tell it from others


def measures(standing: Document | None) -> list[Family]:
    """All of it; of a device where no daemon ran yet, that none runs."""
    runs = gauge(
        "protofleet_agent_running",
        "Whether the daemon runs.",
        bool(standing and standing["running"]),
    )
    if standing is None:
        return [runs]
    return [runs, *_whole(standing), *_learning(standing), *_seeing(standing.get("seen"))]


def _whole(standing: Document) -> list[Family]:
    words = {name: str(standing.get(name, "")) for name in ("agent", "fleet", "method", "version")}
    bundles = {name: str(standing.get(name, ""))[:SHORT] for name in ("bundle", "newest")}
    ledger = standing.get("ledger") or {}
    waiting = standing.get("outbox") or {}
    return [
        info("protofleet_agent_info", "Which device this is.", **words),
        info("protofleet_agent_bundle_info", "What it classifies with, and could.", **bundles),
        gauge(
            "protofleet_agent_bundle_is_newest",
            "Whether the bundle in use is the one that the fleet's channel names.",
            bundles["bundle"] == bundles["newest"] if bundles["newest"] else None,
        ),
        gauge(
            "protofleet_agent_connected",
            "Whether the daemon has a connection to the broker.",
            bool(standing["running"] and standing["connected"]),
        ),
        gauge(
            "protofleet_agent_coordinator_present",
            "Whether a coordinator speaks to it.",
            bool(standing["running"] and standing["coordinator"]),
        ),
        counter(
            "protofleet_agent_link_bytes_total",
            "Payloads to and from the broker.",
            standing.get("bytes_total"),
        ),
        gauge(
            "protofleet_agent_day_bytes",
            "Payloads of this day, which its owner may have bounded.",
            standing.get("bytes_today"),
        ),
        by(
            "gauge",
            "protofleet_agent_outbox_messages",
            "What waits for a receipt: uploads of rounds, and what goes to the ledger.",
            "kind",
            {"upload": waiting.get("waiting", 0), "ledger": len(ledger.get("due") or ())},
        ),
        gauge(
            "protofleet_agent_disk_free_bytes",
            "Where the device keeps its files.",
            standing.get("disk_free_bytes"),
        ),
        gauge(
            "protofleet_agent_certificate_end_timestamp_seconds",
            "When its certificate ends.",
            standing.get("certificate_end"),
        ),
    ]


def _learning(standing: Document) -> list[Family]:
    trainings = standing.get("trainings")
    return [
        gauge(
            "protofleet_agent_refuses_training",
            "Whether hours, bytes or the disk forbid it to train just now.",
            bool(standing.get("refusal")),
        ),
        gauge("protofleet_agent_samples", "What it learns from.", standing.get("samples")),
        gauge(
            "protofleet_agent_classes", "Classes among them.", len(standing.get("classes") or ())
        ),
        gauge(
            "protofleet_agent_round_trained",
            "The last round that it trained.",
            standing.get("trained"),
        ),
        *(
            [histogram(TRAINING, "A round's training.", EDGES, *trainings.values())]
            if trainings
            else []
        ),
        by(
            "gauge",
            "protofleet_agent_accuracy_ratio",
            "Of samples that it keeps for that, share that is right, by what it is measured with.",
            "measure",
            dict(standing.get("accuracy") or ()),
        ),
    ]


TRAINING = "protofleet_agent_training_seconds"


def _seeing(seen: Document | None) -> list[Family]:
    """What whoever looks left behind; nothing where nobody does."""
    if seen is None:
        return []
    count, newest = seen["count"], seen["newest"]
    known = max(0, count["answers"] - count["unknown"])
    return [
        by(
            "counter",
            "protofleet_agent_answers_total",
            "Pictures answered: with a class, or as unlike all of them.",
            "outcome",
            {"known": known, "unknown": count["unknown"]},
        ),
        gauge(
            "protofleet_agent_answer_timestamp_seconds",
            "When the newest answer was given.",
            newest["at"] or None,
        ),
        gauge(
            "protofleet_agent_answer_probability_ratio",
            "How sure the newest answer is.",
            newest["probability"],
        ),
        counter("protofleet_agent_frames_total", "Frames that its cameras gave.", count["frames"]),
        counter(
            "protofleet_agent_frames_dropped_total",
            "Frames that nobody looked at, as newer ones were there.",
            count["dropped"],
        ),
    ]
