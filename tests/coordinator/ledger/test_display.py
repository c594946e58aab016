"""What devices may answer by: the head, or means beside those of the bundle that nobody contributed
to yet.
"""

import numpy as np

from coordinator.ledger import display
from coordinator.ledger.books import Book
from coordinator.ledger.display import Learnt
from protofleet.exchange.published import About, Bank
from protofleet.statistics.reliability import Calibration
from protofleet.values.prototypes import Head, Prototypes

NAMES = ("ant", "bee", "owl")
ABOUT = About("extractor:e", NAMES, calibration=Calibration(2.0), total="t", asked=0.5)
BUNDLE = Bank(
    About("extractor:e", ("ant", "bee")),
    Prototypes(np.array([0, 1, 1]), np.array([[1, 0, 0], [0, 1, 0], [0, 2, 0]], np.float32)),
)
NOTHING = Bank(About("extractor:e", ()), Prototypes([], np.zeros((0, 3))))


def learnt(classes):
    ids = np.array(classes)
    rows = np.full((len(ids), 3), 7.0, np.float32) + ids[:, None]
    return Learnt(ABOUT, Head(ids, rows, np.zeros(len(ids))), Prototypes(ids, rows))


def shown(classes, bundle=BUNDLE, **book):
    book = Book(bundle="b", brought={"owl": "x"}, **book)
    return display.bank(learnt(classes), bundle, book, ("ant", "bee"))


def test_a_class_that_nobody_contributed_to_stays_as_the_bundle_has_it():
    bank = shown([1, 2])
    assert bank.about == About("extractor:e", NAMES, "b")
    assert bank.points.classes.tolist() == [0, 1, 2]
    assert bank.points.vectors[:, 0].tolist() == [1, 8, 9]
    assert shown([2]).points.classes.tolist() == [0, 1, 1, 2]


def test_when_all_are_covered_it_is_the_head_with_all_that_is_known_of_it():
    bank = shown([0, 1, 2])
    assert (bank.kind, bank.about.classes, bank.about.asked) == ("head", NAMES, 0.5)
    assert bank.about.calibration == Calibration(2.0)
    assert shown([2], NOTHING).kind == "head"
    assert shown([1, 2], removed=("ant",)).kind == "head"


def test_what_is_not_shown_has_no_row_and_no_name():
    bank = shown([0, 1, 2], removed=("ant",), renamed={"bee": "wasp"})
    assert (bank.about.classes, bank.points.classes.tolist()) == (("wasp", "owl"), [0, 1])
    assert bank.points.weight[:, 0].tolist() == [8, 9]
    bank = shown([1, 2], pending={"owl": "x"})
    assert (bank.about.classes, bank.points.classes.tolist()) == (("ant", "bee"), [0, 1])


def test_nothing_is_shown_by_the_name_of_another():
    names = ("ant", "bee")
    assert display.names_shown(names, Book(renamed={"ant": "bee"})) == {"ant": "ant", "bee": "bee"}
    assert display.names_shown(names, Book(renamed={"ant": "moth"}))["ant"] == "moth"
