"""Whose turn it is to be compared with the others, and what comes of it."""

from dataclasses import replace

from coordinator.ledger import comparison
from coordinator.ledger.comparison import Comparisons, SuspectClass, suspects_of
from coordinator.ledger.ledger import Ledger
from tests.contributing import LINEAGE, read

NAMES = ("apple", "pear", "plum")


def turns(comparisons, agents):
    order = []
    while True:
        agent, comparisons = comparisons.next(agents)
        if not agent:
            return order, comparisons
        order.append(agent)


def test_those_that_changed_last_come_first_and_everybody_once(monkeypatch):
    agents = ("a", "b", "c", "d")
    order, after = turns(Comparisons().upset(["c"]).upset(["b"]).upset(["gone"]), agents)
    assert order == ["b", "c", "a", "d"]
    assert after.next(agents)[0] == ""
    assert turns(after.upset(["d"]), agents)[0] == ["d", "a", "b", "c"]
    monkeypatch.setattr(comparison, "COMPARED", 2)
    assert turns(Comparisons().upset(["c"]), agents)[0] == ["c", "a"]


def test_what_was_said_of_a_device_goes_with_it():
    pair = SuspectClass("a", "apple", "pear")
    known = Comparisons().with_suspects("a", (pair,)).with_suspects("b", ())
    assert (known.all, known.without("a").all) == ([pair], [])
    assert pair.sentence == "a: its 'apple' looks like everybody else's 'pear'"


def test_swapped_labels_are_named_and_honest_ones_are_not():
    ledger, own = Ledger(LINEAGE), {}
    for n, agent in enumerate(("a", "b", "c", "x")):
        own[agent] = read(agent, NAMES, n)
    swapped = replace(own["x"].claim, classes=("pear", "apple", "plum"))
    own["x"] = replace(own["x"], claim=swapped)
    for agent, contributed in own.items():
        ledger = ledger.plus(agent, contributed)
    pairs = suspects_of(ledger, "x", [own["x"]], 0.1)
    assert {(p.label, p.looks_like) for p in pairs} == {("apple", "pear"), ("pear", "apple")}
    assert suspects_of(ledger, "a", [own["a"]], 0.1) == ()


def test_a_device_alone_or_with_an_enrolled_class_alone_cannot_be_compared():
    first, owl = read("a", NAMES), read("b", ["owl"], source="owl")
    ledger = Ledger(LINEAGE).plus("a", first)
    assert suspects_of(ledger, "a", [first], 0.1) == ()
    assert suspects_of(ledger.plus("b", owl), "b", [owl], 0.1) == ()
