"""The fusion of the open round as it grows: uploads folded as they come, or read again from the
journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from coordinator.journal.journal import Journal
from coordinator.journal.records import CutRecord, UploadRecord
from coordinator.uploads import assembly
from coordinator.uploads.folding import Folding, Group, add_group, refusal_of
from coordinator.uploads.shape_vote import ShapeVote
from coordinator.uploads.validation import Expected, Refusal
from protofleet import wire
from protofleet.errors import FusionError, WireError
from protofleet.exchange import pooled
from protofleet.exchange.state import Upload
from protofleet.masking.group import Readiness
from protofleet.masking.letters import decode_letter
from protofleet.values.sums import Partial, merge, merge_all
from protofleet.wire.codes import Reason

FRESH = 16  # weight of an upload without staleness, where staleness is allowed
AGREED = "likeness"  # what the journal calls the shapes that are agreed on, and the votes


# Theory of operation
#
# A recipe folds each upload into a partial: named sums (and bags, for what cannot be added) that
# merge in any order. So a round is added up while it is open, an upload at a time, and closing it
# costs one `recipe.fuse` of a total whose size does not depend on the number of devices.
#
# Exact in any order. Sums are of whole numbers on a fixed grid (`protofleet.values.sums`), so
# merging is associative and commutative to the bit. All that the coordinator promises rests on it:
# uploads are folded in the order in which they happen to arrive; after a crash in the order of the
# journal; in a replay as a cut names them; in the laboratory by name. All four must end in the same
# state hash.
#
# Groups. A sum takes no rows of two sizes, and nothing in a contract says how large a network's
# tensors are. If the first upload settled it, a stranger who is quick would shut the fleet out. So
# uploads whose sums look alike (`ShapeSignature`) share a total, and each such group has its own;
# at the cut the devices' votes (`coordinator.uploads.shape_vote`) say whose totals are merged. The
# uploads of the others are refused then, though they were accepted when they came: the one receipt
# that is taken back. What earlier rounds have settled is checked as an upload comes, and with all
# of it settled there is only one group.
#
# Weights are whole, as everything must be that exact sums are multiplied by. Without staleness all
# weights are 1. With it, an upload that is s rounds late weighs 16 / sqrt(1 + s), rounded: the
# polynomial discount of FedAsync with a = 1/2 (Xie et al. 2019), in sixteenths.
#
# Sites. What a site says of its devices (`protofleet.exchange.pooled`) is a partial already, and is
# folded as it is. A device is in a round once, by itself or at one site: `_at` has who is where.
#
# Traps:
# - A device has one upload in a round: the journal's key, (round, agent), says so. `agents` holds
#   who is in the open one, so that the intake need not ask the database for each.
# - `add` comes before the upload is on disk; `coordinator.core` says what becomes of the total
#   when writing fails.
# - One upload is folded with the turn of its own round, not of the open one.


class Aggregator:
    """A partial, and whose uploads are in it. Uploads that do not look alike wait in totals of
    their own.
    """

    def __init__(self, journal: Journal, expected: Expected, hyper: Any, staleness: int) -> None:
        self._journal, self._expected, self._staleness = journal, expected, staleness
        self._folding = Folding(expected, hyper)
        self.turn = self._folding.turn
        self.number = self.serial = 0
        self.total: Partial = {}
        self.agents: set[str] = set()
        # Whose uploads are here and are folded by an ingester; all of them are in `agents`.
        self.elsewhere: set[str] = set()
        self._at: dict[str, str] = {}  # devices at sites, and at which
        self._groups: list[Group] = []

    def begin(self, number: int, uploads: Sequence[UploadRecord] = ()) -> None:
        """A round opens; `uploads` are in it already."""
        self.number, self.total, self.agents, self._groups = number, {}, set(), []
        self._at, self.elsewhere = {}, set()
        self.serial += 1
        self._folding.agreed = ShapeVote.read(self._journal.meta(AGREED))
        for record in uploads:
            self.add_record(record)

    def add(self, upload: Upload) -> Refusal | None:
        """Fold an upload, if it fits what is agreed on."""
        members = self._members(upload)
        if isinstance(members, Refusal):
            return members
        if upload.parts:
            refusal = self._folding.add(self._groups, upload, self.weight(upload.round))
            if refusal is not None:
                return refusal
        self.agents.add(upload.agent)
        if members:
            self._at |= dict.fromkeys(members, upload.agent)
        return None

    def add_record(self, record: UploadRecord) -> Refusal | None:
        """Fold an upload that is in the journal."""
        try:
            return self.add(self.upload(record))
        except WireError as error:  # a crash of the machine took its bytes
            return refusal_of(error)

    def has(self, agent: str) -> bool:
        """Whether this device is in the round, by itself or at a site."""
        return agent in self.agents or agent in self._at

    def trust(self, agent: str) -> None:
        """This device's upload is in the round, and an ingester folded it."""
        self.agents.add(agent)
        self.elsewhere.add(agent)

    def gather(self, groups: Iterable[Group], accepted: Sequence[UploadRecord]) -> int:
        """What ingesters folded, added; what of it is lost with one of them is read from the
        journal. How many that were.
        """
        for group in groups:
            agents = {agent for round, agent in group.uploads if round == self.number}
            if len(agents) == len(group.uploads) and agents <= self.elsewhere:
                # What cannot be joined stays elsewhere, and so is read and refused by itself.
                with suppress(FusionError):
                    add_group(self._groups, group)
                    self.elsewhere -= agents
        lost = [record for record in accepted if record.agent in self.elsewhere]
        self.agents -= self.elsewhere
        self.elsewhere = set()
        for record in lost:
            self.add_record(record)
        return len(lost)

    def unfit(self, upload: Upload) -> Refusal | None:
        """Why an upload could not be folded later, either; whether it fits the others is seen
        then.
        """
        folded = self._folding.folded(upload, 1)
        return folded if isinstance(folded, Refusal) else None

    def close(self, devices: int) -> tuple[dict[tuple[int, str], Refusal], str]:
        """The total is that of the signature with most votes; who is left out of it and why, and
        what to write down.
        """
        ballots = [(agent, group.signature) for group in self._groups for _, agent in group.uploads]
        agreed = self._folding.agreed.with_votes(ballots)
        left_out: dict[tuple[int, str], Refusal] = {}
        totals: list[Partial] = []
        for group in self._groups:
            words = agreed.outvoted(group.signature)
            if words is None:
                totals.append(group.total)
            else:
                left_out |= dict.fromkeys(group.uploads, Refusal(Reason.UNLIKE, words))
        self.total = merge_all(totals)
        return left_out, agreed.settle(devices).text()

    def total_of(self, cut: CutRecord) -> Partial:
        """The total of a round that was cut, from the journal alone."""
        if self._expected.contract.masks is not None:
            return assembly.total(self._journal, self._expected.recipe, self.turn(cut.round))
        total: Partial = {}
        for round, agent, weight in cut.counted:
            record = self._journal.upload(round, agent)
            if record is not None:
                upload = self.upload(record)
                total = merge(total, self._folding.fold(upload, weight)) if upload.parts else total
        return total

    def members_of(self, cut: CutRecord) -> list[str]:
        """The devices in a cut, whether they said it themselves or a site did."""
        members: list[str] = []
        for round, agent, _ in cut.counted:
            record = self._journal.upload(round, agent)
            parts = {} if record is None else self.upload(record).parts
            whole = pooled.is_pooled(parts)
            members += pooled.read(parts).claim.members if whole else [agent]
        return members

    def upload(self, record: UploadRecord) -> Upload:
        """An upload as it came."""
        message = wire.decode(self._journal.body(record.blob) or b"")
        # Who is ready for a masked sum has said no more than that.
        parts = message.body if message.envelope.t == "upload" else {}
        return Upload(record.agent, record.round, str(message.envelope.base), parts)

    def ready(self, records: Sequence[UploadRecord]) -> dict[str, Readiness]:
        """What devices said that are ready for a masked sum, but for what a crash of the machine
        took.
        """
        letters = {}
        for record in records:
            with suppress(WireError):
                message = wire.decode(self._journal.body(record.blob) or b"")
                letter = decode_letter(message.body)
                if isinstance(letter, Readiness):
                    letters[record.agent] = letter
        return letters

    def weight(self, round: int) -> int:
        """Whole weights that fall with the root of staleness; one for all where staleness is not
        allowed.
        """
        if not self._staleness:
            return 1
        return max(1, int(FRESH / (1 + max(0, self.number - round)) ** 0.5 + 0.5))

    def _members(self, upload: Upload) -> tuple[str, ...] | Refusal:
        """Whom an upload speaks for beside its sender; who is in the round already may not be."""
        members: tuple[str, ...] = ()
        if pooled.is_pooled(upload.parts):
            if self._staleness:
                return Refusal(Reason.NO_SITE, "a site's sum cannot be late: max_staleness is 0")
            try:
                members = pooled.read(upload.parts).claim.members
            except FusionError as error:
                return refusal_of(error)
        elif not self._at:
            return members
        for name in (upload.agent, *members):
            where = self._at.get(name, name if name in self.agents and name in members else "")
            if where and where != upload.agent:
                words = f"{name} is in round {upload.round} already, by {where}"
                return Refusal(Reason.CONFLICT, words)
        return members
