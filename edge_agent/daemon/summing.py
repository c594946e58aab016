"""What a device says to a ledger whose sums are masked: that it is ready, and its letters in a
group.
"""

# Theory of operation
#
# A device has a contribution, and later counts, as messages on its disk (`contributing.statement`).
# In a fleet of masked sums neither is ever sent. Instead:
#
#   what happens                         what is offered (`deliver`)
#   there is a contribution, or counts   Readiness for that purpose, with a mark that is drawn anew
#                                        when the message is another
#   a group's word for such a purpose    the seat's answer (`protocol.seat`), from the store
#   the same word again                  the answer that is there
#
# A ledger's group may be called as often as something changed, so unlike a round's its seat gives
# way to that of a newer session; the old one's secrets go with it. What is masked is what the
# message says when the parcel comes, and it is in the store before it is sent: a session has one
# masked sum, whatever changes.
#
# Words that come before the message is there (after a restart the samples are read first) are
# remembered, the newest of each kind, and heard when it is.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from edge_agent.daemon.masker import Masker
from edge_agent.protocol import seat as seats
from edge_agent.protocol.seat import OwnSums, Seat
from protofleet import wire
from protofleet.errors import FleetError
from protofleet.exchange import contributed, gathered
from protofleet.masking.group import Agreement, Parcel, Readiness, Roster, Survivors
from protofleet.masking.letters import Letter, encode_letter
from protofleet.statistics import contribution
from protofleet.values.sums import Sum

LETTER = "letter"  # the name of what is offered in a group
MARK = 8  # random bytes
_MARKS = "mark/"  # and the purpose: what the store notes
Offer = Callable[[str, bytes], None]


def nowhere(name: str, payload: bytes) -> None:
    """Before anybody carries it."""


@dataclass
class LedgerSums:
    """A device's part in the masked sums of a ledger; `offer` brings it to the coordinator."""

    masker: Masker
    fleet: str
    offer: Offer = nowhere
    _own: dict[str, bytes] = field(default_factory=dict)  # messages, by purpose
    _words: dict[type[Letter], tuple[str, Letter]] = field(default_factory=dict)

    def is_masked(self, run: str) -> bool:
        """Whether what is said to this run's ledger is masked."""
        return self.masker.is_masked(run)

    def may_speak(self, run: str) -> bool:
        """Whether it is known by now how this run is spoken to."""
        return self.masker.is_masked(run) or self.masker.speaks_plainly(run)

    def ready(self, run: str, purpose: str, message: bytes) -> bytes | None:
        """What is said instead of this message; None where it cannot be masked."""
        agent, log = self.masker.agent, self.masker.log
        try:
            own = self._sums(run, purpose, message)
            own.layout(self.masker.least(run)).pack(own.partial)
        except FleetError as error:
            log.warning(f"nothing to say to the ledger: {error}")
            return None
        self._own[purpose] = message
        letter = Readiness(agent, {}, purpose, self._mark(purpose, message))
        for word_run, word in list(self._words.values()):
            self.hears(word_run, word)
        return self._enclosed(run, encode_letter(letter))

    def hears(self, run: str, word: Letter) -> None:
        """A word of a ledger's group."""
        if isinstance(word, Agreement | Roster | Parcel | Survivors):
            self._words[type(word)] = run, word
        masker, seat = self.masker, self.masker.seat(run, 0)
        newer = isinstance(word, Agreement) and seat is not None and seat.session != word.session
        seat = None if newer else seat
        purpose = word.purpose if isinstance(word, Agreement) else _purpose(seat)
        message = self._own.get(purpose)
        if message is None:
            return
        try:
            own = self._sums(run, purpose, message)
            after = seats.answered(seat, word, own, masker.identity, masker.draw)
        except FleetError as error:
            masker.log.warning(f"no part in a masked sum: {error}")
            if seat is not None:
                masker.keep(run, 0, seat.left)
            return
        if after is not None:
            masker.keep(run, 0, after)
        elif seat is not None and isinstance(word, Agreement | Roster | Parcel | Survivors):
            after = seat if seat.session == word.session else None
        if after is not None and after.letter:
            self.offer(LETTER, self._enclosed(run, after.letter))

    def _sums(self, run: str, purpose: str, message: bytes) -> OwnSums:
        contract = self.masker.contract(run)
        partial = gathered.sums_of(contributed.read(message), contract.classes)
        means = partial.get(contribution.MEANS)
        width = means.low.shape[1] if isinstance(means, Sum) else 0
        return OwnSums(
            self.masker.agent,
            purpose,
            partial,
            lambda devices: gathered.layout(purpose, contract, width, devices),
        )

    def _mark(self, purpose: str, message: bytes) -> str:
        """Drawn, and not made of the message: equal messages of two devices have two marks."""
        digest, store = wire.decode(message).digest, self.masker.store
        known, _, mark = (store.noted(_MARKS + purpose) or "").partition(" ")
        if known != digest:
            mark = self.masker.draw(MARK).hex()
            store.note(**{_MARKS + purpose: f"{digest} {mark}"})
        return mark

    def _enclosed(self, run: str, letter: bytes) -> bytes:
        head = wire.Envelope("letter", self.fleet, run, agent=self.masker.agent, round=0)
        return wire.enclose(head, letter)


def _purpose(seat: Seat | None) -> str:
    return "" if seat is None or seat.member is None else seat.member.agreement.purpose
