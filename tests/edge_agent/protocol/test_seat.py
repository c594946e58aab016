"""What a device answers in a group: once a session, one session a round, and nothing twice."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from edge_agent.protocol.seat import OwnSums, Seat, Vouching, answered
from protofleet.errors import FusionError, TrustError
from protofleet.masking.group import (
    Agreement,
    Boxes,
    Convener,
    GroupFailed,
    MaskedSum,
    PublicKeys,
    Reveal,
    Survivors,
)
from protofleet.masking.layout import Layout
from protofleet.masking.letters import decode_letter, decode_member, encode_member
from protofleet.masking.rooms import Room
from protofleet.values.sums import Sum

ROOMS = {"s": Room(10, 24, 2.0**12, 99)}
NAMES = ("a", "b", "c", "d")


def own(name, purpose="round 1", width=300):
    rng = np.random.default_rng([*name.encode()])
    values = rng.normal(size=(10, width)).astype(np.float16).astype(np.float32)
    partial = {"s": Sum.of(np.arange(10), values, np.full(10, 3))}
    shapes = {"s": (width,)}
    return OwnSums(name, purpose, partial, lambda n: Layout.shaped(ROOMS, shapes, n))


class Table:
    """A convener and four seats."""

    def __init__(self, who=None, purpose="round 1"):
        self.draw, self.who = random.Random(1).randbytes, who or {}
        layout = own("a").layout(len(NAMES))
        self.agreement = Agreement(self.draw(16), NAMES, 1, layout.digest(), purpose)
        self.convener, self.seats = Convener(self.agreement), dict.fromkeys(NAMES)

    def hears(self, name, word):
        identity = self.who.get(name, Vouching())
        after = answered(self.seats[name], word, own(name), identity, self.draw)
        if after is not None:
            # As a device that was killed finds it again.
            member = decode_member(encode_member(after.member))
            self.seats[name] = Seat(after.session, member, after.letter)
        return after

    def all_hear(self, word_of):
        for name in NAMES:
            assert self.hears(name, word_of(name)) is not None
            self.convener = self.convener.take(decode_letter(self.seats[name].letter))

    def until_masked(self):
        self.all_hear(lambda name: self.agreement)
        self.convener, roster = self.convener.call()
        self.all_hear(lambda name: roster)
        self.convener, parcels = self.convener.deliver()
        return roster, parcels


def test_word_by_word_to_the_end_over_a_restart_at_every_step():
    table = Table()
    _, parcels = table.until_masked()
    table.all_hear(parcels.__getitem__)
    table.convener, survivors = table.convener.close()
    table.all_hear(lambda name: survivors)
    assert table.convener.total(own("a").layout(4))["s"].weights.tolist() == [12] * 10
    for seat in table.seats.values():
        assert seat.member.secrets.mask == seat.member.secrets.seed == b""
        assert not seat.member.shares


def test_a_word_that_comes_again_asks_for_nothing_new():
    table = Table()
    roster, parcels = table.until_masked()
    for word in (table.agreement, roster):
        assert table.hears("a", word) is None
    table.hears("a", parcels["a"])
    masked = table.seats["a"].letter
    assert isinstance(decode_letter(masked), MaskedSum)
    # Whatever else is said to be there: what was masked once is masked.
    fewer = replace(parcels["a"], present=("a", "b", "c"))
    for word in (table.agreement, roster, parcels["a"], fewer):
        assert table.hears("a", word) is None
    assert table.seats["a"].letter == masked


def test_only_one_session_a_round():
    table = Table()
    table.until_masked()
    again = replace(table.agreement, session=b"another session!")
    with pytest.raises(GroupFailed, match="a second group for round 1"):
        table.hears("a", again)
    left = table.seats["a"].left
    assert (left.session, left.member, left.digest) == (table.agreement.session, None, "")
    with pytest.raises(GroupFailed, match="a second group"):
        answered(left, again, own("a"), Vouching(), table.draw)
    assert answered(left, table.agreement, own("a"), Vouching(), table.draw) is None


def test_words_that_are_for_others_or_out_of_turn():
    table = Table()
    assert answered(None, table.agreement, own("stranger"), Vouching(), table.draw) is None
    survivors = Survivors(table.agreement.session, NAMES)
    assert table.hears("a", survivors) is None  # before any seat
    roster, parcels = table.until_masked()
    assert table.hears("a", survivors) is None  # before it has masked
    other = replace(parcels["a"], session=b"another session!")
    assert table.hears("a", other) is None
    assert (
        answered(
            table.seats["a"], replace(roster, session=b"x" * 16), own("a"), Vouching(), table.draw
        )
        is None
    )


def test_another_purpose_or_another_layout_is_refused():
    with pytest.raises(GroupFailed, match="a group for 'round 2', where round 1 is due"):
        Table(purpose="round 2").hears("a", Table(purpose="round 2").agreement)
    table = Table()
    with pytest.raises(GroupFailed, match="other sums"):
        table.hears("a", replace(table.agreement, layout="00"))


def test_too_few_who_survive_get_no_shares():
    table = Table()
    _, parcels = table.until_masked()
    table.all_hear(parcels.__getitem__)
    with pytest.raises(GroupFailed, match="2 devices are there, 3 are due"):
        table.hears("a", Survivors(table.agreement.session, ("a", "b")))


def test_keys_that_nobody_vouches_for_end_the_seat():
    def check(keys, session):
        if keys.voucher != b"by " + keys.device.encode():
            raise TrustError(f"{keys.device} does not vouch for its keys")

    def identity(name, says):
        return Vouching(lambda content: says, check)

    honest = {name: identity(name, b"by " + name.encode()) for name in NAMES}
    Table(honest).until_masked()
    table = Table({**honest, "d": identity("d", b"")})
    table.all_hear(lambda name: table.agreement)
    table.convener, roster = table.convener.call()
    with pytest.raises(TrustError, match="d does not vouch"):
        table.hears("a", roster)


def test_a_single_masked_upload_is_uniform():
    """Chi-squared of its bytes: of 255 degrees of freedom, 99.99 % are below 350 and above 180."""
    table = Table()
    _, parcels = table.until_masked()
    table.hears("a", parcels["a"])
    letter = decode_letter(table.seats["a"].letter)
    counts = np.array([Counter(letter.numbers)[byte] for byte in range(256)])
    expected = counts.sum() / 256
    assert counts.sum() > 10_000
    assert 180 < float(((counts - expected) ** 2 / expected).sum()) < 350
    # The same of an upload of nothing: what is in it cannot be told from the bytes' sum.
    assert abs(np.frombuffer(letter.numbers, np.uint8).mean() - 127.5) < 3.0


def test_letters_in_their_order():
    table = Table()
    kinds = []
    _, parcels = table.until_masked()
    kinds.append(type(decode_letter(table.seats["a"].letter)))
    table.all_hear(parcels.__getitem__)
    table.convener, survivors = table.convener.close()
    table.all_hear(lambda name: survivors)
    kinds.append(type(decode_letter(table.seats["a"].letter)))
    assert kinds == [Boxes, Reveal]
    first = answered(None, Table().agreement, own("a"), Vouching(), table.draw)
    assert isinstance(decode_letter(first.letter), PublicKeys)


def test_sums_that_have_no_room_are_never_masked():
    table = Table()
    table.all_hear(lambda name: table.agreement)
    table.convener, roster = table.convener.call()
    table.all_hear(lambda name: roster)
    _, parcels = table.convener.deliver()
    large = {"s": Sum.of(np.arange(10), np.full((10, 300), 5000, np.float32), np.full(10, 3))}
    huge = replace(own("a"), partial=large)
    with pytest.raises(FusionError, match="has room"):
        answered(table.seats["a"], parcels["a"], huge, Vouching(), table.draw)
