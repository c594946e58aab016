"""A bank of classes as one message: it comes back as it went, and banks join without moving ids."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet import wire
from protofleet.contract import Contract, Input
from protofleet.errors import SettingError, WireError
from protofleet.exchange import published
from protofleet.exchange.published import About, Bank
from protofleet.values.prototypes import Head, Mixtures, Prototypes, Tensors
from protofleet.wire import Envelope

ENVELOPE = Envelope("global", "orchard", round=3)
POINTS = Prototypes([0, 1], [[1.0, 0.0], [0.0, 1.0]])
BANK = Bank(About("run:x", ("owl", "jay"), "ab" * 32), POINTS)
KINDS = {
    "prototypes": POINTS,
    "mixtures": Mixtures([1], [1.0], [[1.0, 2.0]], [[1.0, 1.0]], [3]),
    "head": Head([0], [[1.0, 2.0]], [0.5]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_bank_of_any_kind_comes_back(kind):
    bank = Bank(About("run:x", ("Eule ü", "jay")), KINDS[kind])
    data = published.write(bank, ENVELOPE, "float32")
    again = published.read(data)
    assert (again.bank, again.envelope, again.bank.kind) == (bank, ENVELOPE, kind)
    assert again.digest == wire.decode(data).digest


def about(text: bytes) -> Tensors:
    return Tensors({"json": np.frombuffer(text, np.uint8).astype(np.int64)})


GOOD = b'{"lineage":"run:x","classes":["owl","jay"]}'


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"prototypes": POINTS}, "one of prototypes, mixtures, head is due"),
        ({"about": about(GOOD)}, "one of prototypes"),
        ({**KINDS, "about": about(GOOD)}, "one of prototypes"),
        ({"prototypes": KINDS["head"], "about": about(GOOD)}, "prototypes: not of its kind"),
        ({"prototypes": POINTS, "about": POINTS}, "bytes of a JSON document are due"),
        ({"prototypes": POINTS, "about": about(b"")}, "bytes of a JSON document are due"),
        ({"prototypes": POINTS, "about": about(b"\xff")}, "not a JSON document"),
        ({"prototypes": POINTS, "about": about(b"[" * 100_000)}, "not a JSON document"),
        ({"prototypes": POINTS, "about": about(b" " * (1 << 20) + GOOD)}, "at most 1048576"),
        ({"prototypes": POINTS, "about": about(b"[]")}, "a map is due"),
        ({"prototypes": POINTS, "about": about(GOOD.replace(b"jay", b"owl"))}, "that differ"),
        ({"prototypes": POINTS, "about": about(GOOD.replace(b',"jay"', b""))}, "only 1 class name"),
        ({"prototypes": POINTS, "about": Tensors({"json": [300]})}, "bytes of a JSON document"),
    ],
)
def test_what_is_no_bank_is_refused_in_words(parts, words):
    with pytest.raises(WireError, match=words):
        published.read(wire.encode(ENVELOPE, parts))


def test_an_offer_is_no_published_bank():
    data = published.write(BANK, Envelope("enrol", "orchard"))
    assert published.read(data, "enrol").bank.about == BANK.about
    with pytest.raises(WireError, match="a message of type global is due"):
        published.read(data)


@given(
    st.lists(st.sampled_from("abcd"), unique=True), st.lists(st.sampled_from("cdef"), unique=True)
)
def test_joined_banks_keep_the_first_ones_ids_and_points(mine, theirs):
    def bank(names, x):
        vectors = [[x, float(ord(name))] for name in names] or np.zeros((0, 2))
        return Bank(About("run:x", tuple(names)), Prototypes(range(len(names)), vectors))

    both = published.joined(bank(mine, 0.0), bank(theirs, 1.0))
    assert both.about.classes[: len(mine)] == tuple(mine)
    found = {
        both.about.classes[c]: row.tolist()
        for c, row in zip(both.points.classes, both.points.vectors, strict=True)
    }
    assert found == {
        name: [0.0 if name in mine else 1.0, float(ord(name))] for name in {*mine, *theirs}
    }


def test_banks_of_two_extractors_or_widths_do_not_join():
    other = Bank(About("run:y", ("new",)), Prototypes([0], [[1.0, 1.0]]))
    wide = Bank(About("run:x", ("new",)), Prototypes([0], [[1.0, 1.0, 1.0]]))
    assert published.joined(BANK, other) is BANK
    assert published.joined(BANK, wide) is BANK


def test_a_class_that_is_taken_out_keeps_its_name_and_may_come_again():
    without = published.without(BANK, ["owl", "nobody"])
    assert without.about == BANK.about
    assert without.points.classes.tolist() == [1]
    anew = Bank(About("run:x", ("owl",)), Prototypes([0], [[5.0, 5.0]]))
    again = published.joined(without, anew)
    assert again.about.classes == ("owl", "jay")
    assert again.points == Prototypes([0, 1], [[5.0, 5.0], [0.0, 1.0]])


def test_nearness_is_a_share_of_what_is_usual_between_classes():
    points = Prototypes([0, 1, 2], [[0.0], [4.0], [8.0]])
    assert published.nearest(points, np.array([[5.0]])) == (1, pytest.approx(0.25))
    assert published.nearest(Prototypes([3], [[0.0]]), np.array([[2.0]])) == (3, pytest.approx(2))


def test_lineages_tell_apart_what_cannot_be_compared():
    contract = Contract("f", "r", 0, ("a",), Input("vector", (2,)), 4)
    runs = {
        published.run_lineage(contract, "fedproto", {"lam": 1.0}),
        published.run_lineage(contract, "fedproto", {"lam": 2.0}),
        published.run_lineage(contract, "fedmps", {"lam": 1.0}),
    }
    assert len(runs) == 3
    assert all(lineage.startswith("run:f/r/") for lineage in runs)
    weights = Tensors({"w": np.ones(2)})
    first = published.extractor_lineage(weights, "cnn", contract)
    assert first == published.extractor_lineage(Tensors({"w": [1.0, 1.0]}), "cnn", contract)
    assert first != published.extractor_lineage(weights, "resnet", contract)
    assert first.startswith("extractor:")
    scaled = replace(contract, unit_embedding=True)  # the same weights give other embeddings
    pooled = replace(contract, resize="pool")
    of_options = {published.extractor_lineage(weights, "cnn", c) for c in (scaled, pooled)}
    assert len(of_options | {first}) == 3
    assert published.run_lineage(scaled, "fedproto", {"lam": 1.0}) not in runs


def test_a_bank_names_every_class_of_its_points():
    with pytest.raises(SettingError, match="points of class 1, but only 1 class names"):
        Bank(About("run:x", ("owl",)), POINTS)
    with pytest.raises(SettingError, match="a lineage is due"):
        About("", ("owl",))


def test_where_there_is_no_class_nothing_is_near():
    nothing = Prototypes([], np.zeros((0, 2)))
    assert published.nearest(nothing, np.ones((1, 2))) == (-1, float("inf"))


def test_a_graphs_lineage_is_over_its_bytes_and_how_it_is_fed():
    kind = Input("image", (8, 8, 3), (0.5,) * 3, (0.5,) * 3)
    lineage = published.graph_lineage(b"graph", 4, kind, "antialiased-bilinear")
    assert lineage.startswith("extractor:")
    assert len(lineage) == len("extractor:") + 64
    darker = replace(kind, mean=(0.4,) * 3)
    others = {
        published.graph_lineage(b"other", 4, kind, "antialiased-bilinear"),
        published.graph_lineage(b"graph", 5, kind, "antialiased-bilinear"),
        published.graph_lineage(b"graph", 4, darker, "antialiased-bilinear"),
        published.graph_lineage(b"graph", 4, kind, ""),
    }
    assert len(others | {lineage}) == 5
