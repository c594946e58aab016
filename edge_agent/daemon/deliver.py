"""What this device says to the fleet's ledger, on its way: one message after the other, each until
it has its receipt; what was accepted is not said again.
"""

# Theory of operation
#
# Messages travel on the upload topic as round 0 of no run, which no training has, and large ones in
# chunks like any upload. There is one such topic, so one message is under way at a time: the
# device's own contribution, then classes that were enrolled here, then counts.
#
#   what happens                           what is done
#   a message is offered                   sent until there is a receipt, unless it was taken before
#   a newer one of the same name           takes its place
#   a receipt: missing                     the chunks that it names are sent
#   a receipt: accepted, duplicate,        noted in `taken.json`, across restarts: not said again
#     waiting (for the operator), noted (a
#     letter of a masked sum: `summing`)
#   a receipt: anything else               one line in the log; offered again on a new connection
#   no receipt                             again after 10, 20, … 600 s, and on a new connection
#   the coordinator has another run        nothing was taken: all is offered anew
#
# That what was taken is not said again is what makes a device silent on which nothing changes, and
# what keeps a device forgotten that the operator told the ledger to forget. A run's name is made
# with its journal, and a receipt is sent after the commit; so a coordinator that lost what it took
# has another run.

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from edge_agent.config import Config
from edge_agent.daemon.inbound import read_ranges
from edge_agent.daemon.outbound import Outbound
from edge_agent.daemon.transfers import Transfers
from edge_agent.protocol.actions import SendChunks
from protofleet import wire
from protofleet.util.files import OWN_FILE, own_folder, write_whole
from protofleet.util.logs import Log
from protofleet.wire.codes import UploadStatus

FIRST_WAIT, LONGEST_WAIT = 10.0, 600.0  # seconds to the next attempt, twice as long each time
OWN, COUNTS = "own", "counts"  # names of messages; others are `class/…`
_SETTLED = frozenset(
    {UploadStatus.ACCEPTED, UploadStatus.DUPLICATE, UploadStatus.WAITING, UploadStatus.NOTED}
)


@dataclass(frozen=True)
class _Offer:
    """A message that has no receipt; `mark` is what is noted once it has one."""

    name: str
    payload: bytes
    digest: str  # of its body
    mark: str


@dataclass(frozen=True)
class LedgerStanding:
    """Names of messages."""

    taken: tuple[str, ...] = ()
    due: tuple[str, ...] = ()


class Deliveries:
    """`uploads` carries messages that are large, as it does uploads."""

    def __init__(
        self,
        config: Config,
        outbound: Outbound,
        uploads: Transfers,
        log: Log,
        clock: Callable[[], float],
    ) -> None:
        self._config, self._outbound, self._uploads = config, outbound, uploads
        self._log, self._clock = log, clock
        self._file: Path | None = None  # of the lineage that is spoken under
        self._run = ""
        self._taken: dict[str, str] = {}  # marks, by name
        self._waiting: dict[str, _Offer] = {}
        self._refused: dict[str, _Offer] = {}
        self._next_at, self._wait = 0.0, FIRST_WAIT

    def under(self, folder: Path | None, run: str) -> None:
        """From now on this lineage's messages, to the coordinator of this run."""
        file = None if folder is None else folder / "taken.json"
        if (file, run) == (self._file, self._run):
            return
        self._file, self._run = file, run
        self._waiting, self._refused, self._taken = {}, {}, {}
        with suppress(OSError, ValueError):
            document = {} if file is None else json.loads(file.read_text())
            if document.get("run") == run:
                self._taken = dict(document["taken"])
        self._retry_now()

    def taken(self, name: str) -> str:
        """The mark of the message of this name that was taken last; empty if there is none."""
        return self._taken.get(name, "")

    def offers(self, name: str, mark: str) -> bool:
        """Whether such a message is on its way, or was not taken on this connection."""
        waiting, refused = self._waiting.get(name), self._refused.get(name)
        return any(offer is not None and offer.mark == mark for offer in (waiting, refused))

    def offer(self, name: str, payload: bytes, mark: str = "") -> None:
        """Bring this to the coordinator, if it does not have it."""
        digest = sha256(wire.unseal(payload)[1]).hexdigest()
        offer = _Offer(name, payload, digest, mark or digest)
        others = [self._waiting.get(name), self._refused.get(name)]
        if self._taken.get(name) == offer.mark or offer in others:
            return
        self._refused.pop(name, None)
        self._waiting[name] = offer
        self._retry_now()

    @property
    def standing(self) -> LedgerStanding:
        """What the ledger has of this device, and what it was not given yet."""
        return LedgerStanding(
            tuple(sorted(self._taken)), tuple(sorted({**self._refused, **self._waiting}))
        )

    def withdraw(self, name: str) -> None:
        """It is of no use any more."""
        self._waiting.pop(name, None)
        self._refused.pop(name, None)

    def connected(self) -> None:
        """What was not answered or not taken is worth another try."""
        self._waiting = {**self._refused, **self._waiting}
        self._refused = {}
        self._retry_now()

    @property
    def due(self) -> float | None:
        """When there is something to send."""
        return self._next_at if self._waiting else None

    def look(self) -> None:
        """Send what is due."""
        offer = self._first
        if offer is None or self._clock() < self._next_at:
            return
        payload = self._uploads.outgoing("", 0, offer.payload)
        topic = self._outbound.topics.upload(self._config.id, 0)
        if payload is not None and self._outbound.say(topic, payload):
            self._next_at = self._clock() + self._wait
            self._wait = min(LONGEST_WAIT, 2 * self._wait)

    def receipt(self, message: wire.Message) -> None:
        """The coordinator's answer, if it is to what is under way."""
        body, offer = message.body, self._first
        if offer is None or body.get("round") != 0:
            return
        blob = self._uploads.digest("", 0)  # of the whole message, where it goes in chunks
        # Without a digest an answer could be to anything; it may have been to what is offered now.
        if body.get("digest") not in {offer.digest, blob} - {""}:
            return
        status = body.get("status")
        if status == UploadStatus.MISSING:
            missing = read_ranges(body.get("missing", []), "receipt.body.missing")
            self._uploads.send_chunks(SendChunks("", 0, blob, missing))
            return
        self._uploads.settled("", 0)
        del self._waiting[offer.name]
        self._retry_now()
        what = offer.name.replace("/", " ")
        if status in _SETTLED:
            self._note(offer)
            self._log.info(f"the ledger has it: {what}", status=status, bytes=len(offer.payload))
        else:
            self._refused[offer.name] = offer
            words = body.get("words", "")
            self._log.warning(f"the coordinator does not take it: {what}: {words}")

    @property
    def _first(self) -> _Offer | None:
        # `own` comes before classes, and counts, which are of a total with both in it, are last.
        names = sorted(self._waiting, key=lambda name: (name != OWN, name == COUNTS, name))
        return self._waiting[names[0]] if names else None

    def _note(self, offer: _Offer) -> None:
        self._taken[offer.name] = offer.mark
        if self._file is not None:
            document = {"run": self._run, "taken": self._taken}
            with suppress(OSError):  # then it is said once more after the next start
                own_folder(self._file.parent)
                write_whole(self._file, json.dumps(document).encode(), mode=OWN_FILE)

    def _retry_now(self) -> None:
        self._next_at, self._wait = 0.0, FIRST_WAIT
