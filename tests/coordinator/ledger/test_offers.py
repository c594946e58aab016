"""What may be brought: figures at their bounds, names that are free, classes that fit."""

from base64 import b64encode

import numpy as np
import pytest

from coordinator.ledger import offers
from coordinator.ledger.books import Book
from coordinator.ledger.offers import BROUGHT, ENROLLED, OFFERED, ROWS
from protofleet import wire
from protofleet.exchange import published
from protofleet.exchange.published import About, Bank
from protofleet.values.prototypes import Prototypes


def bank(*names, rows=1, lineage="extractor:e"):
    ids = np.repeat(np.arange(len(names)), rows)
    return Bank(About(lineage, names), Prototypes(ids, np.ones((len(ids), 3), np.float32)))


def message(name, agent):
    envelope = wire.Envelope("enrol", "f", agent=agent)
    return b64encode(published.write(bank(name), envelope, "float32")).decode()


def brought(agent, count):
    return {f"{agent}-{n}": message(f"{agent}-{n}", agent) for n in range(count)}


@pytest.mark.parametrize(
    ("offer", "book", "words"),
    [
        (bank(*"abcdefghijklmnop"), Book(), None),
        (bank(*"abcdefghijklmnopq"), Book(), f"{OFFERED + 1} classes in one offer"),
        (bank("a", rows=ROWS), Book(), None),
        (bank("a", rows=ROWS + 1), Book(), f"{ROWS + 1} prototypes of one class"),
        (bank("a"), Book(admitted=brought("x", BROUGHT)), f"{BROUGHT + 1} classes of one device"),
        (bank("a"), Book(waiting=brought("x", BROUGHT)), f"{BROUGHT + 1} classes of one device"),
        (bank("x-0"), Book(admitted=brought("x", BROUGHT)), None),
        (bank("a"), Book(admitted=brought("y", ENROLLED)), f"{ENROLLED + 1} enrolled classes"),
    ],
)
def test_a_figure_at_its_bound_passes_and_one_above_does_not(offer, book, words):
    refusal = offers.too_many("x", offer, offer.points, book)
    assert (refusal is None) if words is None else refusal.words.startswith(words)


def test_a_class_is_remembered_with_who_brought_it():
    assert offers.sender(message("owl", "x")) == "x"
    assert offers.unpacked(message("owl", "x")) == bank("owl")


def test_classes_together_are_as_if_joined_one_by_one():
    run = bank("ant", "bee")
    classes = [bank("owl"), bank("ant"), bank("elk", rows=3), bank("fox", lineage="extractor:o")]
    one_by_one = run
    for single in classes:
        one_by_one = published.joined(one_by_one, single)
    assert published.joined(run, offers.together(classes, run)) == one_by_one
    assert offers.together([], run) is None


def test_a_class_is_close_to_others_and_not_to_itself():
    vectors = np.array([[0, 0, 0], [4, 0, 0], [4, 0.1, 0]], np.float32)
    run = Bank(About("extractor:e", ("ant", "bee", "owl")), Prototypes(np.arange(3), vectors))

    def single(name, row):
        return Bank(About("extractor:e", (name,)), Prototypes(np.array([0]), vectors[[row]]))

    assert offers.doubt(single("owl", 0), run)[0] == "near"
    assert "bee" in offers.doubt(single("owl", 2), run)[1]
    far = Bank(About("extractor:e", ("ant", "bee")), Prototypes(np.arange(2), vectors[:2]))
    assert offers.doubt(single("bee", 1), far) == ("", "")
    assert offers.doubt(single("ant", 0), single("ant", 0)) == ("", "")
