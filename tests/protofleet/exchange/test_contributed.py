"""What goes between devices and a ledger comes out as it went in, or is refused in one line."""

import numpy as np
import pytest

from protofleet import wire
from protofleet.errors import SettingError, WireError
from protofleet.exchange import contributed, learned
from protofleet.exchange.contributed import Claim
from protofleet.exchange.published import document_part
from protofleet.statistics import counts
from protofleet.statistics.closed_form import moments
from protofleet.statistics.contribution import Grid, contribution, fold, parts_of
from protofleet.statistics.held_out import Samples
from protofleet.values.prototypes import Tensors
from protofleet.values.sums import digest
from protofleet.wire import Envelope
from tests.protofleet.statistics.test_contribution import samples

X, Y = samples(1)
OWN = contribution(X, Y, Grid())
CLAIM = Claim("extractor:x", ("a", "b", "c"))
HEAD = Envelope("enrol", "f", agent="one", method=contributed.CONTRIBUTE)


def test_a_contribution_adds_the_same_to_the_total_on_either_side():
    data = contributed.write_contribution(CLAIM, OWN, HEAD)
    assert data == contributed.write_contribution(CLAIM, contribution(X, Y, Grid()), HEAD)
    came = contributed.read(data)
    assert came.claim == CLAIM
    assert digest(fold(came.contribution, Grid())) == digest(fold(OWN, Grid()))


def test_counts_name_the_total_that_they_are_of():
    own = counts.count(moments(fold(OWN, Grid())), Samples.of(X, Y, OWN))
    claim = Claim("extractor:x", total="ab" * 32)
    head = Envelope("enrol", "f", agent="one", method=contributed.COUNT)
    came = contributed.read(contributed.write_counts(claim, own, head))
    assert came.claim.total == "ab" * 32
    assert np.array_equal(came.counts.losses, own.losses)


def test_a_total_is_counted_against_as_the_laboratory_does():
    state, _ = learned.state(fold(OWN, Grid()))
    claim = Claim("extractor:x", ("a", "b", "c"), total="ab")
    data = contributed.write_total(claim, state.shared, Envelope("global", "f"))
    came, of = contributed.read_total(data)
    assert came == claim
    theirs = learned.moments(state.shared)
    assert np.array_equal(of.within, theirs.within)
    assert np.array_equal(of.means, theirs.means)


@pytest.mark.parametrize(
    ("claim", "parts", "words"),
    [
        (Claim("x", ("a", "b")), parts_of(OWN), "a mean of every class that is named is due"),
        (CLAIM, {}, "prototypes and scatter are due"),
        (CLAIM, {"prototypes": OWN.means}, "prototypes and scatter are due"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(claim, parts, words):
    data = wire.encode(HEAD, {**parts, "about": document_part(claim)}, "float32")
    with pytest.raises(WireError, match=words):
        contributed.read(data)


def test_other_messages_are_neither():
    with pytest.raises(WireError, match="type enrol is due"):
        contributed.read(wire.encode(Envelope("global", "f"), {}))
    other = Envelope("enrol", "f", agent="one", method="summarise")
    with pytest.raises(WireError, match="contribute, count or withdraw"):
        contributed.read(contributed.write_contribution(CLAIM, OWN, other))
    with pytest.raises(WireError, match="JSON document"):
        contributed.read(wire.encode(HEAD, parts_of(OWN)))
    with pytest.raises(WireError, match="type global is due"):
        contributed.read_total(contributed.write_contribution(CLAIM, OWN, HEAD))


def test_a_total_of_another_width_is_refused_before_there_is_a_matrix_of_it(monkeypatch):
    """59 MB of one became 1.6 GB."""
    state = {learned.MEANS: OWN.means, learned.WITHIN: Tensors({"entries": [], "exponent": [64]})}
    data = contributed.write_total(CLAIM, state, Envelope("global", "f"))
    monkeypatch.setattr(contributed.learned, "square", lambda *_: 1 / 0)
    with pytest.raises(WireError, match="numbers a mean where 9 are due"):
        contributed.read_total(data, 9)


@pytest.mark.parametrize("wrong", [{"lineage": ""}, {"classes": ("a", "a")}, {"classes": ("",)}])
def test_a_claim_names_a_lineage_and_each_class_once(wrong):
    with pytest.raises(SettingError):
        Claim(**({"lineage": "x"} | wrong))


def test_a_withdrawal_names_its_extractor_and_nothing_else():
    envelope = wire.Envelope("enrol", "f", agent="a", method=contributed.WITHDRAW)
    message = contributed.read(contributed.write_withdrawal(Claim("extractor:e"), envelope))
    assert isinstance(message, contributed.Withdrawal)
    assert (message.claim, message.envelope.agent) == (Claim("extractor:e"), "a")
    for claim in (Claim("extractor:e", ("mug",)), Claim("extractor:e", source="mug")):
        with pytest.raises(WireError, match="nothing of classes"):
            contributed.read(contributed.write_withdrawal(claim, envelope))
