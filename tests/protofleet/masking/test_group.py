"""The whole exchange in one process; `tests/masking.py` carries the messages."""

import itertools
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protofleet.masking.group import (
    Agreement,
    Convener,
    GroupFailed,
    Member,
    PublicKeys,
    Reveal,
    Survivors,
)
from protofleet.masking.layout import Layout
from protofleet.masking.rooms import Room
from protofleet.values.sums import Sum, digest, merge_all
from tests.masking import STEPS, layout_of, summed

ROOMS = {"s": Room(3, 24, 2.0**12, 99)}


def own(number, width=4):
    rng = np.random.default_rng(number)
    keys = np.flatnonzero(rng.random(3) < 0.7)
    values = rng.normal(size=(len(keys), width)).astype(np.float16).astype(np.float32)
    return {"s": Sum.of(keys, values, rng.integers(1, 99, len(keys)))}


def devices(count, width=4):
    return {f"d{n}": own(n, width) for n in range(count)}


def plain(partials, lost):
    return digest(merge_all(part for name, part in partials.items() if name not in lost))


@pytest.mark.parametrize("dropouts", [0, 1, 2])
@pytest.mark.parametrize("step", STEPS)
def test_the_total_is_the_plain_sum_of_the_survivors_whoever_is_lost_wherever(dropouts, step):
    partials = devices(6)
    for lost in itertools.islice(itertools.combinations(partials, dropouts), 4):
        total, _ = summed(partials, ROOMS, 2, {step: set(lost)})
        # Who is lost after its masked sum arrived is in the total.
        assert digest(total) == plain(partials, () if step == "reveal" else lost)


@settings(max_examples=20)
@given(st.lists(st.sampled_from(STEPS), max_size=3), st.integers(0, 2**32))
def test_losses_at_several_steps_at_once(steps, seed):
    partials = devices(8)
    lost = random.Random(seed).sample(sorted(partials), len(steps))
    losses = {s: {n for n, at in zip(lost, steps, strict=True) if at == s} for s in STEPS}
    total, _ = summed(partials, ROOMS, 3, losses, seed)
    assert digest(total) == plain(partials, set(lost) - losses["reveal"])


def test_with_neighbours_instead_of_all():
    """Thirty devices mask with twenty of the others each, and six are lost."""
    partials = devices(30)
    losses = {"boxes": {"d1", "d2"}, "masked": {"d3", "d4"}, "reveal": {"d5", "d6"}}
    total, _ = summed(partials, ROOMS, 6, losses)
    assert digest(total) == plain(partials, {"d1", "d2", "d3", "d4"})


@pytest.mark.parametrize("step", STEPS)
def test_one_too_many_fails_closed(step):
    with pytest.raises(GroupFailed, match="are due"):
        summed(devices(6), ROOMS, 2, {step: {"d0", "d1", "d2"}})


def test_a_masked_upload_is_uniform_and_says_nothing_of_what_is_in_it():
    """Chi-squared of its bytes (255 degrees of freedom: 99.9 % below 330), and of their
    differences from the plain ones.
    """
    partials = devices(3, width=20_000)
    layout = layout_of(ROOMS, partials)
    _, masked = summed(partials, ROOMS, 0, {}, seed=7)
    for name, part in partials.items():
        clear = np.frombuffer(layout.encode(layout.pack(part)), np.uint8)
        upload = np.frombuffer(masked[name], np.uint8)
        assert chi_squared(clear) > 10_000  # what is to be hidden is far from uniform
        assert chi_squared(upload) < 330
        assert chi_squared(upload - clear) < 330
        # One device with other masks: nothing is the same.
        _, again = summed(partials, ROOMS, 0, {}, seed=8)
        assert chi_squared(upload - np.frombuffer(again[name], np.uint8)) < 330


def chi_squared(octets):
    counts = np.bincount(octets, minlength=256)
    expected = len(octets) / 256
    return float(((counts - expected) ** 2 / expected).sum())


class Session:
    """Three devices, taken step by step."""

    def __init__(self):
        self.partials = devices(4)
        self.layout = Layout.of(ROOMS, own(0), 4)
        self.draw = random.Random(3).randbytes
        names, sums = tuple(sorted(self.partials)), self.layout.digest()
        self.agreement = Agreement(self.draw(16), names, 1, sums)
        self.members = {
            name: Member.joining(name, self.agreement, sums, self.draw) for name in names
        }
        self.convener = Convener(self.agreement)

    def answered(self, answers):
        for answer in answers:
            self.convener = self.convener.take(answer)

    def to_roster(self):
        self.answered(m.keys() for m in self.members.values())
        self.convener, roster = self.convener.call()
        return roster

    def to_parcels(self):
        roster = self.to_roster()
        for name, member in self.members.items():
            self.members[name], boxes = member.share(roster, self.draw)
            self.answered([boxes])
        self.convener, parcels = self.convener.deliver()
        return parcels

    def to_survivors(self):
        for name, parcel in self.to_parcels().items():
            self.members[name], masked = self.members[name].mask(
                parcel, self.layout, self.partials[name]
            )
            self.answered([masked])
        self.convener, survivors = self.convener.close()
        return survivors


def test_a_device_never_shows_both_secrets_of_anybody():
    session = Session()
    survivors = session.to_survivors()
    # The coordinator tells d0 that d1 is there, and then that it is lost.
    member, reveal = session.members["d0"].reveal(survivors)
    assert "d1" in reveal.seeds
    assert not reveal.secrets
    without = Survivors(survivors.session, ("d0", "d2", "d3"))
    with pytest.raises(GroupFailed, match="gone on"):
        member.reveal(without)
    assert not member.shares
    assert member.secrets.seed == b""
    # Told to half of them each way, neither secret has enough shares.
    halves = Counter()
    for name, told in (("d0", survivors), ("d2", without), ("d3", without)):
        _, answer = session.members[name].reveal(told)
        halves.update(seeds="d1" in answer.seeds, secrets="d1" in answer.secrets)
    assert min(halves["seeds"], halves["secrets"]) < session.agreement.threshold


def test_what_comes_after_the_survivors_stays_masked():
    session = Session()
    parcels = session.to_parcels()
    masked = {}
    for name, parcel in parcels.items():
        session.members[name], masked[name] = session.members[name].mask(
            parcel, session.layout, session.partials[name]
        )
    session.answered(masked[name] for name in ("d0", "d1", "d2"))
    session.convener, survivors = session.convener.close()
    with pytest.raises(GroupFailed, match="d3: MaskedSum is not due"):
        session.convener.take(masked["d3"])
    for name in ("d0", "d1", "d2"):
        session.answered([session.members[name].reveal(survivors)[1]])
    assert digest(session.convener.total(session.layout)) == plain(session.partials, {"d3"})
    assert all("d3" not in reveal.seeds for reveal in session.convener.reveals.values())


def roster_spoiled(session, how):
    roster = session.to_roster()
    keys = dict(roster.keys)
    if how == "without me":
        del keys["d0"]
    elif how == "my key":
        keys["d0"] = replace(keys["d0"], mask=bytes(31) + b"\1")
    elif how == "stranger":
        keys["eve"] = PublicKeys("eve", b"1" * 32, b"2" * 32, b"3" * 32)
    elif how == "one key twice":
        keys["d2"] = replace(keys["d1"], device="d2")
    elif how == "other name":
        keys["d2"] = keys["d1"]
    else:
        keys = {name: keys[name] for name in ("d0", "d1")}
    return replace(roster, keys=keys)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("without me", "own keys"),
        ("my key", "own keys"),
        ("stranger", "strangers"),
        ("one key twice", "one key twice"),
        ("other name", "another's name"),
        ("too few", "2 devices are there, 3 are due"),
    ],
)
def test_a_roster_that_is_not_right_is_refused(how, words):
    session = Session()
    with pytest.raises(GroupFailed, match=words):
        session.members["d0"].share(roster_spoiled(session, how), session.draw)


def test_a_parcel_that_is_not_right_is_refused():
    session = Session()
    parcel, member = session.to_parcels()["d0"], session.members["d0"]
    for wrong, words in (
        (replace(parcel, boxes={**parcel.boxes, "d1": parcel.boxes["d2"]}), "somebody else"),
        (replace(parcel, boxes={"d1": parcel.boxes["d1"]}), "there is no box of d2"),
        (replace(parcel, present=("d0", "d1")), "2 devices are there"),
        (replace(parcel, present=("d1", "d2", "d3")), "not this device"),
        (replace(parcel, session=bytes(16)), "another session"),
    ):
        with pytest.raises(Exception, match=words):
            member.mask(wrong, session.layout, session.partials["d0"])
    masked = member.mask(parcel, session.layout, session.partials["d0"])[0]
    with pytest.raises(GroupFailed, match="survivors of whom nobody had a box"):
        masked.reveal(Survivors(parcel.session, ("d0", "d1", "d9")))
    other = Layout.of({"s": Room(3, 24, 2.0**13, 99)}, own(0), 4)
    with pytest.raises(GroupFailed, match="other sums than the group was called for"):
        member.mask(parcel, other, session.partials["d0"])


def test_steps_out_of_turn_and_second_answers_are_refused():
    session = Session()
    with pytest.raises(GroupFailed, match="is invited, and not masked"):
        session.members["d0"].reveal(Survivors(session.agreement.session, ("d0", "d1", "d2")))
    keys = session.members["d0"].keys()
    session.convener = session.convener.take(keys)
    with pytest.raises(GroupFailed, match="has answered already"):
        session.convener.take(keys)
    with pytest.raises(GroupFailed, match="Reveal is not due"):
        session.convener.take(Reveal("d0", {}, {}))


@pytest.mark.parametrize("lie", ["seed", "secret"])
def test_shares_that_do_not_fit_what_was_published_end_in_no_total(lie):
    session = Session()
    session.to_survivors()
    there = ("d0", "d1", "d2") if lie == "secret" else tuple(sorted(session.members))
    survivors = Survivors(session.agreement.session, there)
    session.convener = replace(
        session.convener,
        survivors=survivors,
        masked={name: session.convener.masked[name] for name in there},
    )
    for name in there:
        _, reveal = session.members[name].reveal(survivors)
        wrong = {"d3": bytes(33)}
        if lie == "seed" and name != "d3":
            reveal = replace(reveal, seeds={**reveal.seeds, **wrong})
        if lie == "secret":
            reveal = replace(reveal, secrets=wrong)
        session.answered([reveal])
    with pytest.raises(GroupFailed, match="d3"):
        session.convener.total(session.layout)


@pytest.mark.parametrize("count", [1, 2])
def test_a_total_of_two_would_tell_each_the_other_s_part(count):
    names = tuple(f"d{n}" for n in range(count))
    with pytest.raises(GroupFailed, match="3 devices at least"):
        Agreement(bytes(16), names, 0, "")
