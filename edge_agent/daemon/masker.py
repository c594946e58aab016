"""Masked sums on a device: whether a run's uploads may be sent at all, what is said instead, and
the disk before every answer.
"""

# Theory of operation
#
# The contract of a run says whether its sums are masked. That is written down when it is announced,
# and before a round is trained (`begin`), and holds for the run from then on, whatever is announced
# later: no upload of such a run ever leaves the device.
#
#   what goes out, of a round that waits       made of
#   Readiness                                  the upload in the outbox, while there is no seat
#   the seat's newest letter                   the store (`protocol.seat`)
#
# An upload that has no room (larger or finer than the contract's bounds) is found out before
# `Readiness`: its device says why and takes no part. The recipe's own `fold` makes sums of the
# upload, as it does at a coordinator that reads it; both need numpy and no more.
#
# Under a budget each device adds its own noise, so that nobody sees a sum without: so much that the
# fewest who may be left have enough together, by the group's own terms, to which this device holds
# its coordinator. It is for the state that the upload was made on, which is still in the store. It
# is drawn when the masked sum is made, and that is written down before it is said, and said again
# as it was written: what a device tells has one noise, whenever it dies. What was agreed on when
# the device heard of the run first is agreed on for good: a coordinator that announces another
# budget, or longer samples than noise is drawn for, is not heard.

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from edge_agent.protocol import seat as seats
from edge_agent.protocol.events import RoundSpec
from edge_agent.protocol.seat import OwnSums, Seat, Vouching
from edge_agent.records import OutboxEntry, SeatRecord
from edge_agent.store import Store
from protofleet import registry, wire
from protofleet.budget.noise import Sampler, drawn
from protofleet.budget.private import Private, of_contract
from protofleet.contract import Contract
from protofleet.errors import FleetError, FusionError, LinkError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.masking.group import PublicKeys, Readiness
from protofleet.masking.layout import open_shapes
from protofleet.masking.letters import Letter, decode_member, encode_letter, encode_member
from protofleet.masking.shares import Draw
from protofleet.member.membership import FleetMember
from protofleet.recipe import Recipe, Turn
from protofleet.settings.fields import from_plain
from protofleet.util.logs import Log
from protofleet.values.sums import Partial

MASKED = "masked/"  # and the run: what the store notes


def unheard(run: str, word: Letter) -> None:
    """Where there is no ledger to be spoken to."""


@dataclass(frozen=True)
class _Agreed:
    """What a run was told."""

    contract: Contract
    recipe: Recipe[Any]
    hyper: Any
    private: Private | None  # the method under a budget


@dataclass
class Masker:
    """A device's part in the masked sums of its runs."""

    agent: str
    store: Store
    log: Log
    member: FleetMember | None = None
    only: bool = False  # take part where sums are masked, and nowhere else
    draw: Draw = os.urandom
    on_ledger: Callable[[str, Letter], None] = unheard  # words of no round
    sampler: Sampler = drawn  # of noise, under a budget
    _plain: set[str] = field(default_factory=set)  # runs that were announced in this life
    _agreed: dict[str, _Agreed | None] = field(default_factory=dict)
    _ready: dict[tuple[str, int], bytes] = field(default_factory=dict)

    def announced(self, spec: RoundSpec) -> None:
        """What a run's coordinator says of it; an error, if the owner lets this device take part in
        none like it.
        """
        if self.only and spec.contract.get("masks") is None:
            raise LinkError(
                "the fleet's sums are not masked, and trust.secure_sum is set on this device"
            )

        agreed = self._of(spec.run)
        if agreed is not None and agreed.private is not None:
            now = spec.method, from_plain(Contract, spec.contract, "contract")
            if now != (agreed.recipe.name, agreed.contract):
                raise LinkError("the run's budget is another than it began with")
        self._plain.add(spec.run)
        self.begin(spec)

    def speaks_plainly(self, run: str) -> bool:
        """Whether what this device has to say of its samples may be said as it is: not before it is
        known that the run is none of masked sums.
        """
        return run in self._plain and not self.only and not self.is_masked(run)

    def begin(self, spec: RoundSpec) -> None:
        """A round of this run is about to be trained: from now on it is known whether it is
        masked.
        """
        if spec.contract.get("masks") is not None and self.store.noted(MASKED + spec.run) is None:
            document = {**vars(spec), "contract": dict(spec.contract), "hyper": dict(spec.hyper)}
            self.store.note(**{MASKED + spec.run: json.dumps(document)})
            self._agreed.pop(spec.run, None)

    def is_masked(self, run: str) -> bool:
        """Whether uploads of this run stay here."""
        return self._of(run) is not None

    def letter(self, upload: OutboxEntry) -> bytes | None:
        """What goes out in an upload's place; None if the upload itself may, because there is
        nothing in it and nothing is added up in its round. Errors say why there is nothing to say.
        """
        agreed = self._of(upload.run)
        assert agreed is not None  # the caller asked
        seat = self.seat(upload.run, upload.round)
        if seat is not None:
            return seat.letter
        place = upload.run, upload.round
        if place not in self._ready:
            turn = Turn(agreed.contract, agreed.hyper, upload.round, self.agent)
            if not agreed.recipe.talks(turn):
                if wire.decode_parts(upload.body):
                    raise FusionError("a round in which nothing is added up has an upload")
                return None
            self._ready = {place: self._first_letter(agreed, turn, upload)}
        return self._ready[place]

    def digest(self, run: str, round: int) -> str:
        """What a receipt calls that; empty where nothing was said."""
        seat = self.seat(run, round)
        if seat is not None:
            return seat.digest
        ready = self._ready.get((run, round))
        return "" if ready is None else Seat(b"", None, ready).digest

    def hears(self, run: str, round: int, word: Letter) -> bool:
        """A word of the group's: whether there is a new answer to send, which is on disk then."""
        if round == 0:
            self.on_ledger(run, word)
            return False  # who carries it knows
        agreed, upload = self._of(run), self.store.upload(run, round)
        if agreed is None or upload is None:
            return False
        seat = self.seat(run, round)
        try:
            own = self._sums(agreed, upload)
            after = seats.answered(seat, word, own, self.identity, self.draw)
        except FleetError as error:
            self.log.warning(f"no part in a masked sum: {error}", round=round)
            if seat is not None:
                self.keep(run, round, seat.left)
            return False
        if after is None:
            return False
        self.keep(run, round, after)
        return True

    def _first_letter(self, agreed: _Agreed, turn: Turn[Any], upload: OutboxEntry) -> bytes:
        own = self._sums(agreed, upload)
        masks = agreed.contract.masks
        assert masks is not None  # else the run would not be one of masked sums
        own.layout(masks.least).pack(own.partial)  # whether it has room does not depend on others
        if agreed.private is not None:
            # What noise is made for, and what draws it: who has neither is not to be counted on.
            agreed.private.stage(turn, self._base(upload))
            self.sampler(1.0, 0)
        rooms = agreed.recipe.rooms(turn, masks.ceilings(masks.least))
        return encode_letter(Readiness(self.agent, open_shapes(rooms, own.partial)))

    def _sums(self, agreed: _Agreed, upload: OutboxEntry) -> OwnSums:
        recipe, contract, masks = agreed.recipe, agreed.contract, agreed.contract.masks
        assert masks is not None  # else the run would not be one of masked sums
        turn = Turn(contract, agreed.hyper, upload.round)
        parts = wire.decode_parts(upload.body)
        came = Upload(self.agent, upload.round, upload.base, parts)
        partial = recipe.fold(turn, came, 1) if parts else {}
        shapes = open_shapes(recipe.rooms(turn, masks.ceilings(masks.least)), partial)
        return OwnSums(
            self.agent,
            f"round {upload.round}",
            partial,
            lambda devices: recipe.layout(turn, shapes, devices),
            lambda fewest: self._noise(agreed, turn, upload, fewest),
        )

    def _noise(self, agreed: _Agreed, turn: Turn[Any], upload: OutboxEntry, fewest: int) -> Partial:
        """This device's part of it."""
        if agreed.private is None:
            return {}
        return agreed.private.noise(turn, self._base(upload), self.sampler, 1 / fewest)

    def _base(self, upload: OutboxEntry) -> GlobalState:
        """The state that an upload was made on: how long its samples are, and so how much noise
        hides one of them, is in it.
        """
        message = self.store.state(upload.run, upload.base)
        state = GlobalState({} if message is None else wire.decode(message).body)
        if state.base != upload.base:
            raise FusionError(f"the state that round {upload.round} was answered on is not here")
        return state

    def keep(self, run: str, round: int, seat: Seat) -> None:
        """On disk when this returns."""
        memory = b"" if seat.member is None else encode_member(seat.member)
        self.store.take_seat(run, round, SeatRecord(seat.session, memory, seat.letter))

    def contract(self, run: str) -> Contract:
        """Of a run that is masked."""
        agreed = self._of(run)
        assert agreed is not None  # the caller asked
        return agreed.contract

    def least(self, run: str) -> int:
        """Devices below which there is no group."""
        masks = self.contract(run).masks
        assert masks is not None  # else the run would not be one of masked sums
        return masks.least

    def seat(self, run: str, round: int) -> Seat | None:
        """The place that is on disk."""
        record = self.store.seat(run, round)
        if record is None:
            return None
        member = decode_member(record.memory) if record.memory else None
        return Seat(record.session, member, record.letter)

    def _of(self, run: str) -> _Agreed | None:
        if run not in self._agreed:
            noted = self.store.noted(MASKED + run)
            self._agreed[run] = None if noted is None else _read(json.loads(noted))
        return self._agreed[run]

    @property
    def identity(self) -> Vouching:
        """Who joined a fleet vouches for its keys, and believes vouched keys alone."""
        if self.member is None:
            return Vouching()
        from protofleet.trust import certificates, keys, vouching

        member = self.member
        key, own = keys.read(member.key), certificates.of_pem(member.certificate)
        authority = certificates.of_pem(member.authority)

        def check(of: PublicKeys, session: bytes) -> None:
            content = of.content(session)
            vouching.check(of.voucher, of.device, content, authority, lambda: datetime.now(UTC))

        return Vouching(lambda content: vouching.vouched(key, own, content), check)


def _read(document: dict[str, Any]) -> _Agreed:
    recipe = registry.load(document["method"])
    contract = from_plain(Contract, document["contract"], "contract")
    hyper = from_plain(recipe.hyper, document["hyper"], "hyper")
    under = of_contract(recipe, contract, hyper)
    return _Agreed(contract, recipe if under is None else under.recipe, hyper, under)
