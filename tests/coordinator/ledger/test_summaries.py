"""Class means of devices that share an extractor: weighted by samples, one summary a device."""

import numpy as np
import pytest

from protofleet import wire
from protofleet.exchange import published
from protofleet.exchange.published import About, Bank
from protofleet.mqtt.topics import TopicParts
from protofleet.values.prototypes import Prototypes
from tests.coordinator.made import CONTRACT, LEARNT, banks, frozen, learnt, receipts


@pytest.fixture
def made(tmp_path):
    return learnt(tmp_path)


def summary(made, agent, vector, count, name="ant", **changes):
    bank = Bank(
        About(changes.get("lineage", "extractor:e"), (name,)),
        Prototypes(np.array([0]), np.array([vector], np.float32), np.array([count])),
    )
    envelope = wire.Envelope("enrol", CONTRACT.fleet, agent=agent, method="summarise")
    return TopicParts(agent, "upload", ("0",)), published.write(bank, envelope, "float32")


def test_summaries_of_a_frozen_extractor_become_the_prototypes(made):
    frozen(made)
    made.take([summary(made, "x", (4, 0, 0), 1)], 1.0)
    said = made.take([summary(made, "y", (0, 4, 0), 3)], 1.0)
    (bank,) = banks(said)
    assert bank.points.only([0]).vectors.tolist() == [[1, 3, 0]]
    assert bank.points.only([1]).vectors.tolist() == [[0, 1, 0]]
    made.take([summary(made, "y", (4, 0, 0), 3)], 1.0)  # a newer one replaces the device's own
    assert made.catalogue.bank(1, LEARNT).points.only([0]).vectors.tolist() == [[4, 0, 0]]
    assert made.catalogue.execute("list", {}, 1, LEARNT)[0]["summaries"] == ["x", "y"]
    frozen(made)
    made.catalogue.execute("back", {"version": 0}, 1, LEARNT)
    assert made.catalogue.execute("list", {}, 1, LEARNT)[0]["summaries"] == []


def test_summaries_that_do_not_fit_are_refused(made):
    of_the_run = made.catalogue.bank(1, LEARNT).about.lineage
    assert (
        receipts(made.take([summary(made, "x", (1, 0, 0), 1, lineage=of_the_run)], 1.0))[0][2]
        == "not-frozen"
    )
    frozen(made)
    assert (
        receipts(made.take([summary(made, "x", (1, 0, 0), 1, name="wasp")], 1.0))[0][2] == "class"
    )
    assert receipts(made.take([summary(made, "x", (1, 0, 0), 0)], 1.0))[0][2] == "counts"
    assert receipts(made.take([summary(made, "x", (1, 0), 1)], 1.0))[0][2] == "dimension"


def test_the_order_in_which_devices_send_changes_no_bit(tmp_path):
    rng = np.random.default_rng(0)
    means = {agent: (rng.normal(size=3), int(rng.integers(1, 99))) for agent in "uvwxyz"}
    outcomes = []
    for order in ("uvwxyz", "zyxwvu", "wzuyvx"):
        made = learnt(tmp_path / order)
        frozen(made)
        for agent in order:
            made.take([summary(made, agent, *means[agent])], 1.0)
        outcomes.append(made.catalogue.bank(1, LEARNT))
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_the_same_summary_again_is_answered_and_publishes_nothing(made):
    frozen(made)
    made.take([summary(made, "x", (4, 0, 0), 1)], 1.0)
    again = made.take([summary(made, "x", (4, 0, 0), 1)], 2.0)
    assert receipts(again) == [("x", "accepted", "")]
    assert not banks(again)


@pytest.mark.parametrize(
    ("vector", "count", "code"),
    [
        ((1, 0, 0), 2**62, "count"),
        ((1e30, 0, 0), 1, "norm"),
        ((0, -1e30, 0), 2**62, "count"),
        ((2e5, 0, 0), 1, "norm"),
    ],
)
def test_a_summary_passes_the_same_door_as_an_upload(made, vector, count, code):
    frozen(made)
    said = made.take([summary(made, "x", vector, count)], 1.0)
    assert receipts(said) == [("x", "refused", code)]
    assert not banks(said)
