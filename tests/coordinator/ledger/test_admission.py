"""What is let into a ledger, and what becomes of classes that the fleet did not agree on."""

from dataclasses import replace

import numpy as np
import pytest

from coordinator.config import UploadLimits
from coordinator.ledger import admission
from coordinator.ledger.admission import AdmissionLimits, Standing, admitted, is_shown, placed
from coordinator.ledger.books import Book
from coordinator.ledger.ledger import Ledger
from coordinator.uploads.validation import Refusal
from protofleet.exchange.contributed import Claim
from protofleet.values.prototypes import Prototypes
from tests.contributing import LINEAGE, WIDTH, read

LIMITS = AdmissionLimits(LINEAGE, WIDTH)
AGREED = frozenset({"apple", "pear"})


def test_what_an_honest_device_says_is_let_in():
    assert admitted(read("a", ["apple"]), LIMITS) is None
    assert admitted(read("a", ["apple"], source="apple"), LIMITS) is None


@pytest.mark.parametrize(
    ("changes", "limits", "code"),
    [
        ({"lineage": "extractor:other"}, {}, "other-lineage"),
        ({"width": 5}, {}, "dimension"),
        ({"names": ["a", "b", "c"]}, {"classes": 2}, "many"),
        ({"names": ["apple", "pear"], "source": "apple"}, {}, "class"),
        ({"source": "pear"}, {}, "class"),
        ({"names": ["a\x07"]}, {}, "bad-name"),
        ({"names": ["n" * 65]}, {}, "bad-name"),
        ({"number": 9}, {"figures": UploadLimits(count=8)}, "count"),
        ({}, {"figures": UploadLimits(norm=0.01)}, "norm"),
        ({}, {"figures": UploadLimits(trace=0.01)}, "trace"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(changes, limits, code):
    words = {"names": ["apple"], **changes}
    assert admitted(read("a", **words), replace(LIMITS, **limits)).code == code


def test_means_off_the_grid_are_refused():
    message = read("a", ["apple"])
    own = message.contribution
    off = Prototypes(own.means.classes, own.means.vectors + np.float32(2**-12), own.means.counts)
    message = replace(message, contribution=replace(own, means=off))
    assert admitted(message, LIMITS).code == "bad-value"


def standing(policy="auto", contributions=(), **book):
    ledger = Ledger(LINEAGE)
    for agent, names, source in contributions:
        ledger = ledger.plus(agent, read(agent, names, source=source))
    return Standing(Book(**book), ledger, AGREED, frozenset({"pear"}), policy)


def outcome(agent, names, there, source=""):
    return placed(agent, Claim(LINEAGE, tuple(names), source), there)


@pytest.mark.parametrize(
    ("policy", "brought", "pending", "hidden"),
    [
        ("auto", {"owl": "a"}, {}, ()),
        ("manual", {}, {"owl": "a"}, ("owl",)),
        ("off", {}, {}, ("owl",)),
    ],
)
def test_a_class_in_a_devices_own_samples_is_shown_waits_or_is_hidden(
    policy, brought, pending, hidden
):
    """And counts, whichever it is."""
    after = outcome("a", ["apple", "owl"], standing(policy))
    assert (after.book.brought, after.book.pending, after.hidden) == (brought, pending, hidden)
    assert outcome("a", ["apple", "pear"], standing(policy)).book == Book()


def test_own_samples_may_add_to_any_class_and_decide_nothing():
    there = standing(
        "auto", brought={"owl": "a", "elk": "a"}, removed=("elk",), pending={"fox": "b"}
    )
    after = outcome("b", ["owl", "elk", "fox", "pear"], there)
    assert (after.book, after.hidden) == (there.book, ("elk", "fox"))


@pytest.mark.parametrize(
    ("agent", "name", "there", "code"),
    [
        ("a", "owl", standing("off"), "enrol-off"),
        ("b", "owl", standing(brought={"owl": "a"}), "conflict"),
        ("b", "owl", standing("manual", pending={"owl": "a"}), "conflict"),
        ("b", "owl", standing(brought={"owl": ""}), "conflict"),
        ("b", "apple", standing(contributions=[("a", ["apple"], "")]), "conflict"),
        (
            "b",
            "great owl",
            standing(brought={"owl": "a"}, renamed={"owl": "great owl"}),
            "conflict",
        ),
        ("a", "pear", standing(), "conflict"),  # the bundle has it
        ("a", "owl", standing(brought={"owl": "a"}), ""),
        ("a", "apple", standing(), ""),
        (
            "a",
            "apple",
            standing(contributions=[("a", ["apple"], "apple"), ("b", ["apple"], "")]),
            "",
        ),
    ],
)
def test_an_enrolled_class_is_new_or_the_devices_own(agent, name, there, code):
    after = outcome(agent, [name], there, name)
    assert (after.code if isinstance(after, Refusal) else "") == code


def test_what_an_operator_removed_is_brought_anew_without_the_photos_that_were_removed():
    there = standing(
        brought={"owl": "a"},
        removed=("owl",),
        contributions=[("a", ["owl"], "owl"), ("c", ["owl", "apple"], "")],
    )
    after = outcome("b", ["owl"], there, "owl")
    assert after.superseded == (("a", "owl"),)
    assert (after.book.brought, after.book.removed, after.hidden) == ({"owl": "b"}, (), ())


def test_what_devices_bring_is_bounded_by_device_and_fleet(monkeypatch):
    monkeypatch.setattr(admission, "BROUGHT", 2)
    monkeypatch.setattr(admission, "ENROLLED", 3)
    monkeypatch.setattr(admission, "SOURCES", 1)
    full = standing(contributions=[("a", ["apple"], "")])
    assert outcome("a", ["owl"], full, "owl").code == "many"
    assert not isinstance(outcome("a", ["apple"], full), Refusal)
    assert outcome("b", ["apple"], replace(full, most_devices=1)).code == "many"
    own, others = {"c1": "a", "c2": "a"}, {"c1": "x", "c2": "y", "c3": "z"}
    assert outcome("a", ["c3"], standing(brought=own)).code == "many"
    assert outcome("a", ["c4"], standing(pending=others)).code == "many"
    assert not isinstance(outcome("a", ["c1", "apple"], standing(brought=own)), Refusal)


def test_a_device_that_is_forgotten_leaves_classes_to_others_or_to_nobody():
    book = Book(
        brought={"owl": "a", "elk": "a", "fox": "b"},
        pending={"yak": "a"},
        removed=("elk", "apple"),
        renamed={"elk": "moose", "owl": "great owl"},
    )
    after = admission.without_device(
        "a", book, standing(contributions=[("b", ["owl", "fox"], "")]).ledger
    )
    assert after == Book(
        brought={"owl": "", "fox": "b"}, removed=("apple",), renamed={"owl": "great owl"}
    )


def test_a_class_is_shown_that_is_agreed_on_or_let_in():
    book = Book(brought={"owl": "a"}, pending={"elk": "a", "pear": "a"}, removed=())
    assert [is_shown(n, book, AGREED) for n in ("apple", "pear", "owl", "elk", "fox")] == [
        True,
        False,
        True,
        False,
        False,
    ]


def test_a_fleet_that_shows_no_new_classes_adds_up_no_more_of_them_either(monkeypatch):
    monkeypatch.setattr(admission, "ENROLLED", 2)
    there = standing("off", contributions=[("a", ["owl", "apple"], ""), ("b", ["elk"], "")])
    assert outcome("c", ["fox"], there).code == "many"
    for names in (["owl", "apple"], ["elk", "pear"]):
        assert not isinstance(outcome("c", names, there), Refusal)


def test_sizes_are_judged_before_all_numbers_are_looked_at(monkeypatch):
    monkeypatch.setattr(admission.GRID.__class__, "holds", lambda *_: 1 / 0)
    assert admitted(read("a", ["apple"], width=5), LIMITS).code == "dimension"
