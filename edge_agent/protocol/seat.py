"""A device's seat in a group for a masked sum: a word of the coordinator's in, the answer out, and
what has to be on disk before that is sent.
"""

# Theory of operation
#
# One round has one seat, and a seat is of one session. Whatever the coordinator says, a device
#
#   - draws its secrets once a session, writes them down, and only then publishes keys;
#   - masks once: the masked numbers are written down in the commit in which the session goes on,
#     and what is sent again after a crash are those bytes and no others;
#   - joins no second session of the same round, whatever became of the first: two totals over the
#     same numbers with other devices beside them would differ by what is to be hidden.
#
#   seat           word                      becomes       answer
#   none           Agreement, of this round  invited       PublicKeys
#   invited        Roster                    shared        Boxes
#   shared         Parcel                    masked        MaskedSum
#   masked         Survivors                 revealed      Reveal; all secrets are gone
#   any            the word before again     the same      none that is new: the last is sent again
#   any            any other                 the same      none; a word that is wrong is an error
#
# So `answered` is called once a word, its outcome is stored, and then the newest answer is sent
# until it has a receipt. A crash between any two of these costs a repetition: before the commit
# nothing was said, and nothing but the session's secrets could have been known; after it the bytes
# are there.
#
# A word that is refused ends the seat: `left` keeps the session's name, so that nothing else is
# said in this round, and forgets the secrets.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256

from protofleet.masking.group import (
    Agreement,
    Boxes,
    Check,
    GroupFailed,
    MaskedSum,
    Member,
    Parcel,
    PublicKeys,
    Reveal,
    Roster,
    Survivors,
    Vouch,
    by_anybody,
    by_nobody,
)
from protofleet.masking.layout import Layout
from protofleet.masking.letters import Letter, encode_letter
from protofleet.masking.shares import Draw
from protofleet.values.sums import Partial, merge

_DUE: dict[str, type[Letter]] = {"invited": Roster, "shared": Parcel, "masked": Survivors}


def no_noise(fewest: int) -> Partial:
    """Where there is no budget."""
    return {}


@dataclass(frozen=True)
class OwnSums:
    """What a device adds to a group's total: its layout depends on how many they are, the noise
    under a budget on how few of them may be left; it is drawn for the one masked sum that is said.
    """

    agent: str
    purpose: str
    partial: Partial
    layout: Callable[[int], Layout]
    noise: Callable[[int], Partial] = no_noise

    def said(self, fewest: int) -> Partial:
        """As it is masked."""
        return merge(self.partial, self.noise(fewest))


@dataclass(frozen=True)
class Vouching:
    """How keys are vouched for, and how others' vouchers are checked."""

    vouch: Vouch = by_nobody
    check: Check = by_anybody


@dataclass(frozen=True)
class Seat:
    """`letter` is the newest answer, as it is sent; without a member the seat was left."""

    session: bytes
    member: Member | None
    letter: bytes = b""

    @property
    def digest(self) -> str:
        """What a receipt calls the newest answer."""
        return sha256(self.letter).hexdigest() if self.letter else ""

    @property
    def left(self) -> Seat:
        """Nothing more is said in this round."""
        return Seat(self.session, None)


def answered(
    seat: Seat | None, word: Letter, own: OwnSums, who: Vouching, draw: Draw
) -> Seat | None:
    """The seat with its next answer; None if this word asks for none. `GroupFailed`, or whatever is
    wrong with the word, if it is one that must not be answered.
    """
    if isinstance(word, Agreement):
        return _joined(seat, word, own, who, draw)
    member = None if seat is None else seat.member
    if seat is None or member is None:
        return None
    due = _DUE.get(member.step)
    if due is None or not isinstance(word, due) or _session(word) != seat.session:
        return None
    answer: Boxes | MaskedSum | Reveal
    match word:
        case Roster():
            member, answer = member.share(word, draw, who.check)
        case Parcel():
            # As few as this device lets a total be of, whatever the contract says of losses.
            devices, fewest = len(member.agreement.devices), member.agreement.fewest
            member, answer = member.mask(word, own.layout(devices), own.said(fewest))
        case Survivors():
            member, answer = member.reveal(word)
        case _:
            return None
    return replace(seat, member=member, letter=encode_letter(answer))


def _joined(
    seat: Seat | None, word: Agreement, own: OwnSums, who: Vouching, draw: Draw
) -> Seat | None:
    if own.agent not in word.devices:
        return None
    if seat is not None:
        if seat.session != word.session:
            raise GroupFailed(f"a second group for {own.purpose}: only one is told its sums")
        return None
    if word.purpose != own.purpose:
        raise GroupFailed(f"a group for {word.purpose[:80]!r}, where {own.purpose} is due")
    digest = own.layout(len(word.devices)).digest()
    member = Member.joining(own.agent, word, digest, draw, who.vouch)
    keys: PublicKeys = member.keys()
    return Seat(word.session, member, encode_letter(keys))


def _session(word: Letter) -> bytes:
    return word.session if isinstance(word, Roster | Parcel | Survivors) else b""
