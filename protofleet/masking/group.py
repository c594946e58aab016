"""A group of devices and one coordinator that add up without anybody reading a summand: who says
what, and when either refuses to go on. Pure values; whoever holds them carries the messages.
"""

# Theory of operation
#
# Bonawitz et al. (CCS 2017), with the sparse neighbourhoods of Bell et al. (CCS 2020). A device u
# sends y_u = x_u + PRG(b_u) ± Σ over neighbours v of PRG(k_uv), all in the ring of the layout; of
# two neighbours the first by name adds and the other subtracts, so that in the sum over both the
# masks of pairs cancel.
#
#   coordinator announces     device answers                    what it decides
#                            Readiness    the shapes of its     who can be added up at all
#                             rows, where networks differ
#   Agreement                PublicKeys   two public keys, a    who, how many may be lost, which
#                             commitment to b_u, a voucher       layout, and for what
#   Roster                    Boxes        of b_u and of the     neighbours, by the hash of all keys
#                             mask's secret a share for every
#                             neighbour, sealed
#   Parcel (one for each)     MaskedSum    y_u                   whose boxes arrived: with these
#                                                                alone a device masks
#   Survivors                 Reveal       of every neighbour    whose y_u is in the total
#                             one share of one secret
#
# Of a neighbour in the total a device reveals its share of b, of one that was lost its share of the
# mask's secret. Never both: with both the coordinator could take x_u out of y_u. A device says so
# once a session, and a secret takes more than half of the neighbours, so telling half of them
# something else gains nothing.
#
# Losses. `dropouts` = t devices may be lost at any steps, together; a secret needs all neighbours
# but t. With more the group fails, and nothing is learned of anybody.
#
#   lost before Boxes         not in any mask: as if never invited
#   lost before MaskedSum     its mask's secret is put together, and its masks come off the others
#   lost before Reveal        it is in the total: the other neighbours' shares of b are enough
#   upload after Survivors    not in the total. Its b stays unknown, so what came late says nothing
#
# What each refuses (a device says it in one line and sends nothing more in this session):
#
#   a roster without itself or with other keys of itself; with a stranger, or fewer than n − t
#   a roster with one key twice, or another layout: its numbers would mean something else
#   a parcel or survivors who are not of the roster, or fewer than n − t
#   a box that does not open, a step out of turn, a second answer to a step
#   the coordinator: a message of another step, whoever is not of the roster; secrets that do not
#   fit what was published: then somebody's shares are wrong, and there is no total
#
# Who a device is. Nothing here knows: `PublicKeys` carries a voucher, which is whatever the
# device's identity signed over `content`, and `share` is given what checks it. Where nobody has an
# identity vouchers are empty, and a coordinator that invents devices, or a stranger who writes in a
# device's name, gets the others' shares: then it protects against reading alone. And nobody can
# check a summand that nobody reads: limits are held by each device against itself.
#
# Group members see no more than coordinator and reader do. A total of two tells each the other's
# part, so a group has three at least.

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TypeVar

from protofleet.errors import FusionError
from protofleet.masking import neighbours, streams
from protofleet.masking.layout import Lanes, Layout
from protofleet.masking.shares import SECRET, SHARE, Draw, joined, split
from protofleet.values.sums import Partial

M = TypeVar("M")
LEAST = 3  # devices of a group
SESSION = 16  # bytes of its name


class GroupFailed(FusionError):
    """There is no total, and nothing was learned of anybody."""

    code = "masked-group"


@dataclass(frozen=True)
class Readiness:
    """A device has sums to be added up; of rows whose shapes only its network knows, these. Where
    the same is added up again and again, for what, and a mark that is another once they changed.
    """

    device: str
    shapes: Mapping[str, tuple[int, ...]]
    purpose: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Agreement:
    """Who may take part, on what terms, and in the sum of what."""

    session: bytes
    devices: tuple[str, ...]
    dropouts: int
    layout: str
    purpose: str = ""

    def __post_init__(self) -> None:
        if len(self.devices) < LEAST or len(set(self.devices)) < len(self.devices):
            raise GroupFailed(f"a masked sum is of {LEAST} devices at least")
        if len(self.session) != SESSION:
            raise GroupFailed(f"a session's name has {SESSION} bytes")
        neighbours.degree(len(self.devices), self.dropouts)  # refuses what cannot be

    @property
    def fewest(self) -> int:
        """Devices that must be there at every step."""
        return len(self.devices) - self.dropouts

    @property
    def threshold(self) -> int:
        """Shares that give a secret back."""
        return neighbours.threshold(len(self.devices), self.dropouts)


@dataclass(frozen=True)
class PublicKeys:
    """A device's for this session: for boxes, for masks; the hash of its own mask's seed; and what
    proves that they are this device's, where anything does.
    """

    device: str
    box: bytes
    mask: bytes
    seed: bytes
    voucher: bytes = b""

    def content(self, session: bytes) -> bytes:
        """What a voucher is over."""
        return session + self.box + self.mask + self.seed


# Raises where a voucher does not hold for these keys in this session.
Check = Callable[[PublicKeys, bytes], None]
Vouch = Callable[[bytes], bytes]


def by_anybody(keys: PublicKeys, session: bytes) -> None:
    """Where nobody has an identity, everybody is believed."""


def by_nobody(content: bytes) -> bytes:
    """Who has none vouches with nothing."""
    return b""


@dataclass(frozen=True)
class Roster:
    """Everybody's keys."""

    session: bytes
    keys: Mapping[str, PublicKeys]

    def around(self, agreement: Agreement) -> dict[str, tuple[str, ...]]:
        """Each device's neighbours."""
        most = neighbours.degree(len(agreement.devices), agreement.dropouts)
        published = {name: keys.mask for name, keys in self.keys.items()}
        return neighbours.circle(published, self.session, most)

    def points(self) -> dict[str, int]:
        """Where on a secret's polynomial each device's share lies."""
        return {name: at for at, name in enumerate(sorted(self.keys), 1)}


@dataclass(frozen=True)
class Boxes:
    """One device's shares, sealed for each neighbour."""

    device: str
    boxes: Mapping[str, bytes]


@dataclass(frozen=True)
class Parcel:
    """Whose boxes arrived, and those for one device."""

    session: bytes
    present: tuple[str, ...]
    boxes: Mapping[str, bytes]


@dataclass(frozen=True)
class MaskedSum:
    """y_u, as bytes of the layout."""

    device: str
    numbers: bytes


@dataclass(frozen=True)
class Survivors:
    """Whose y_u is in the total."""

    session: bytes
    devices: tuple[str, ...]


@dataclass(frozen=True)
class Reveal:
    """Shares: of b of neighbours in the total, of the mask's secret of those who were lost."""

    device: str
    seeds: Mapping[str, bytes]
    secrets: Mapping[str, bytes]


@dataclass(frozen=True)
class Secrets:
    """A device's, of one session."""

    box: bytes
    mask: bytes
    seed: bytes


@dataclass(frozen=True)
class Member:
    """A device in one session: what it has to remember, also across a restart."""

    name: str
    agreement: Agreement
    secrets: Secrets
    voucher: bytes = b""
    roster: Roster | None = None
    present: tuple[str, ...] = ()
    shares: Mapping[str, bytes] = field(default_factory=dict)  # of others: of b, then of the mask's
    step: str = "invited"

    @staticmethod
    def joining(
        name: str, agreement: Agreement, layout: str, draw: Draw, vouch: Vouch = by_nobody
    ) -> Member:
        """Whoever was invited, if it would add the same kind of numbers."""
        if name not in agreement.devices:
            raise GroupFailed(f"{name} is not invited")
        if layout != agreement.layout:
            raise GroupFailed(f"{name} has other sums than the group was called for")
        member = Member(name, agreement, Secrets(draw(SECRET), draw(SECRET), draw(SECRET)))
        return replace(member, voucher=vouch(member.keys().content(agreement.session)))

    def keys(self) -> PublicKeys:
        """What everybody may know of it."""
        own = self.secrets
        box, mask = streams.public_of(own.box), streams.public_of(own.mask)
        seed = commitment(self.agreement.session, own.seed)
        return PublicKeys(self.name, box, mask, seed, self.voucher)

    def share(self, roster: Roster, draw: Draw, check: Check = by_anybody) -> tuple[Member, Boxes]:
        """Shares of both secrets to its neighbours."""
        self._at("invited", roster.session)
        invited = set(self.agreement.devices)
        if not set(roster.keys) <= invited or roster.keys.get(self.name) != self.keys():
            raise GroupFailed("a roster with strangers, or without this device's own keys")
        if any(name != keys.device for name, keys in roster.keys.items()):
            raise GroupFailed("a roster with keys under another's name")
        self._enough(len(roster.keys))
        published = [key for keys in roster.keys.values() for key in (keys.box, keys.mask)]
        if len(set(published)) < len(published):
            raise GroupFailed("a roster with one key twice")
        for keys in roster.keys.values():
            check(keys, roster.session)
        around, points = roster.around(self.agreement)[self.name], roster.points()
        places = [points[other] for other in around]
        halves = [
            split(int.from_bytes(secret, "little"), self.agreement.threshold, places, draw)
            for secret in (self.secrets.seed, self.secrets.mask)
        ]
        boxes = {}
        for other in around:
            content = b"".join(half[points[other]].to_bytes(SHARE, "little") for half in halves)
            label = _label(roster.session, self.name, other)
            boxes[other] = streams.sealed(self._box_key(roster, other), content, label)
        return replace(self, roster=roster, step="shared"), Boxes(self.name, boxes)

    def mask(self, parcel: Parcel, layout: Layout, partial: Partial) -> tuple[Member, MaskedSum]:
        """Its sums, masked with whoever is there."""
        self._at("shared", parcel.session)
        assert self.roster is not None, "shares were made of a roster"
        if not set(parcel.present) <= set(self.roster.keys) or self.name not in parcel.present:
            raise GroupFailed("a parcel that names strangers, or not this device")
        if layout.digest() != self.agreement.layout:
            raise GroupFailed(f"{self.name} has other sums than the group was called for")
        self._enough(len(set(parcel.present)))
        around = self._around(parcel.present)
        shares = {}
        for other in around:
            box = parcel.boxes.get(other)
            if box is None:
                raise GroupFailed(f"there is no box of {other}, who is said to be there")
            key = self._box_key(self.roster, other)
            label = _label(parcel.session, other, self.name)
            shares[other] = streams.opened_box(key, box, label)
            if len(shares[other]) != 2 * SHARE:
                raise GroupFailed(f"the box of {other} holds no two shares")
        lanes = layout.pack(partial).plus(_own_mask(layout, parcel.session, self.secrets.seed))
        for other in around:
            lanes = _with_pair(layout, lanes, self._pair_key(other), self.name < other)
        member = replace(self, present=tuple(sorted(parcel.present)), shares=shares, step="masked")
        return member, MaskedSum(self.name, layout.encode(lanes))

    def reveal(self, survivors: Survivors) -> tuple[Member, Reveal]:
        """One share of each neighbour, and never of both its secrets."""
        self._at("masked", survivors.session)
        there = set(survivors.devices)
        if not there <= set(self.present):
            raise GroupFailed("survivors of whom nobody had a box")
        self._enough(len(there))
        around = self._around(self.present)
        seeds = {name: self.shares[name][:SHARE] for name in around if name in there}
        secrets = {name: self.shares[name][SHARE:] for name in around if name not in there}
        # Nothing is left that a second answer could be made of.
        member = replace(self, shares={}, secrets=Secrets(b"", b"", b""), step="revealed")
        return member, Reveal(self.name, seeds, secrets)

    def _at(self, step: str, session: bytes) -> None:
        if session != self.agreement.session:
            raise GroupFailed("of another session")
        if self.step != step:
            raise GroupFailed(f"{self.name} has gone on: it is {self.step}, and not {step}")

    def _enough(self, count: int) -> None:
        if count < self.agreement.fewest:
            words = f"{count} devices are there, {self.agreement.fewest} are due"
            raise GroupFailed(words, "nothing is revealed")

    def _around(self, present: tuple[str, ...]) -> list[str]:
        assert self.roster is not None, "neighbours are of a roster"
        return [n for n in self.roster.around(self.agreement)[self.name] if n in set(present)]

    def _box_key(self, roster: Roster, other: str) -> bytes:
        own, published = roster.keys[self.name].box, roster.keys[other].box
        pair = streams.Pair(self.secrets.box, own, published)
        return streams.agreed_key(pair, roster.session, streams.BOXES)

    def _pair_key(self, other: str) -> bytes:
        assert self.roster is not None, "masks are of a roster"
        own, published = self.roster.keys[self.name].mask, self.roster.keys[other].mask
        pair = streams.Pair(self.secrets.mask, own, published)
        return streams.agreed_key(pair, self.roster.session, streams.MASKS)


@dataclass(frozen=True)
class Convener:
    """The coordinator's side of one session."""

    agreement: Agreement
    keys: Mapping[str, PublicKeys] = field(default_factory=dict)
    boxes: Mapping[str, Boxes] = field(default_factory=dict)
    masked: Mapping[str, MaskedSum] = field(default_factory=dict)
    reveals: Mapping[str, Reveal] = field(default_factory=dict)
    roster: Roster | None = None
    present: tuple[str, ...] = ()
    survivors: Survivors | None = None

    def take(self, message: PublicKeys | Boxes | MaskedSum | Reveal) -> Convener:
        """A device's answer to the step that is open; a second one is not taken."""
        name = message.device
        match message:
            case PublicKeys() if self.roster is None and name in self.agreement.devices:
                return replace(self, keys=self._added(self.keys, name, message))
            case Boxes() if self.roster is not None and not self.present:
                expected = self.roster.around(self.agreement).get(name)
                if expected is not None and set(message.boxes) == set(expected):
                    return replace(self, boxes=self._added(self.boxes, name, message))
            case MaskedSum() if self.survivors is None and name in self.present:
                return replace(self, masked=self._added(self.masked, name, message))
            case Reveal() if self.survivors is not None and name in self.present:
                shares = (*message.seeds.values(), *message.secrets.values())
                if any(len(share) != SHARE for share in shares):
                    raise GroupFailed(f"{name}: a share has {SHARE} bytes")
                return replace(self, reveals=self._added(self.reveals, name, message))
        raise GroupFailed(f"{name}: {type(message).__name__} is not due")

    def call(self) -> tuple[Convener, Roster]:
        """The roster of whoever published keys."""
        self._enough(self.keys, "published keys")
        roster = Roster(self.agreement.session, self.keys)
        return replace(self, roster=roster), roster

    def deliver(self) -> tuple[Convener, dict[str, Parcel]]:
        """To each device its boxes."""
        self._enough(self.boxes, "shared their secrets")
        session, present = self.agreement.session, tuple(sorted(self.boxes))
        parcels = {}
        for name in present:
            incoming = {o: b.boxes[name] for o, b in self.boxes.items() if name in b.boxes}
            parcels[name] = Parcel(session, present, incoming)
        return replace(self, present=present), parcels

    def close(self) -> tuple[Convener, Survivors]:
        """Whose sums arrived; later ones are not taken."""
        self._enough(self.masked, "sent masked sums")
        survivors = Survivors(self.agreement.session, tuple(sorted(self.masked)))
        return replace(self, survivors=survivors), survivors

    def adjourn(self) -> None:
        """Whether there may be a total now."""
        self._enough(self.reveals, "revealed shares")

    def total(self, layout: Layout) -> Partial:
        """What the survivors' sums come to, and nothing else."""
        assert self.roster is not None, "there are no survivors before a roster"
        assert self.survivors is not None, "there is no total before the survivors"
        self.adjourn()
        around, session = self.roster.around(self.agreement), self.agreement.session
        there = set(self.survivors.devices)
        lanes = layout.zeros()
        for name in sorted(there):
            lanes = lanes.plus(layout.decode(self.masked[name].numbers))
            seed = self._secret(name, {n: r.seeds for n, r in self.reveals.items()})
            if commitment(session, seed) != self.roster.keys[name].seed:
                raise GroupFailed(f"the shares of {name} are not of what it published")
            lanes = lanes.minus(_own_mask(layout, session, seed))
        for name in sorted(set(self.present) - there):
            secret = self._secret(name, {n: r.secrets for n, r in self.reveals.items()})
            if streams.public_of(secret) != self.roster.keys[name].mask:
                raise GroupFailed(f"the shares of {name} are not of what it published")
            for other in there & set(around[name]):
                keys = self.roster.keys
                pair = streams.Pair(secret, keys[name].mask, keys[other].mask)
                key = streams.agreed_key(pair, session, streams.MASKS)
                # As the lost device would have added it: what `other` did, the other way round.
                lanes = _with_pair(layout, lanes, key, name < other)
        return layout.unpack(lanes)

    def _secret(self, name: str, shares: Mapping[str, Mapping[str, bytes]]) -> bytes:
        assert self.roster is not None, "shares are of a roster"
        points = self.roster.points()
        of_one = {
            points[holder]: int.from_bytes(by_name[name], "little")
            for holder, by_name in shares.items()
            if name in by_name
        }
        try:
            secret = joined(of_one, self.agreement.threshold)
            return secret.to_bytes(SECRET, "little")
        except (FusionError, OverflowError) as error:
            raise GroupFailed(f"the secret of {name} cannot be put together: {error}") from None

    def _enough(self, answers: Mapping[str, object], did: str) -> None:
        if len(answers) < self.agreement.fewest:
            words = f"{len(answers)} of {len(self.agreement.devices)} devices {did}"
            raise GroupFailed(f"{words}, {self.agreement.fewest} are due", "there is no total")

    @staticmethod
    def _added(answers: Mapping[str, M], name: str, message: M) -> dict[str, M]:
        if name in answers:
            raise GroupFailed(f"{name} has answered already")
        return {**answers, name: message}


def commitment(session: bytes, seed: bytes) -> bytes:
    """What a device publishes of its own mask's seed."""
    return sha256(b"protofleet seed" + session + seed).digest()


def _own_mask(layout: Layout, session: bytes, seed: bytes) -> Lanes:
    return _mask_of(layout, streams.derived(seed, session, b"protofleet own mask"))


def _with_pair(layout: Layout, lanes: Lanes, key: bytes, first: bool) -> Lanes:
    """The mask of a pair: added by the first by name, taken away by the other."""
    mask = _mask_of(layout, key)
    return lanes.plus(mask) if first else lanes.minus(mask)


def _mask_of(layout: Layout, key: bytes) -> Lanes:
    words = layout.narrow + 2 * layout.wide
    return Lanes.read(streams.stream(key, 8 * words), layout.narrow, layout.wide)


def _label(session: bytes, sender: str, receiver: str) -> bytes:
    # The session's length is fixed, and names hold no NUL.
    return session + sender.encode() + b"\0" + receiver.encode()
