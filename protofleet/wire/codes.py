"""Every word that programs act on across the wire or after a restart: what became of an upload, why
it was refused, and how far a failure reaches.

The texts are part of the protocol and of the stored schemas: a member may be renamed, its text may
not. They are strings, so that what comes back from a decoder or a database compares as it is, and a
word of a newer release is simply equal to none of them.
"""

from __future__ import annotations

from enum import StrEnum


class UploadStatus(StrEnum):
    """What became of an upload or an offer: in receipts, in the journal, in a device's outbox."""

    ACCEPTED = "accepted"
    HELD = "held"  # in the journal: for a later round, where staleness is allowed
    LATE = "late"
    DUPLICATE = "duplicate"  # the same bytes again: the first ones count
    REFUSED = "refused"
    CONFLICT = "conflict"  # other bytes than those that came first
    MISSING = "missing"  # chunks of a large one are asked for: not an end
    NOTED = "noted"  # a step of a masked sum is in the journal, and the sum goes on: not an end
    WAITING = "waiting"  # in the outbox: without a receipt; of an offer: an operator decides


# After these a device need not deliver the upload again.
FINAL = frozenset(
    {
        UploadStatus.ACCEPTED,
        UploadStatus.DUPLICATE,
        UploadStatus.LATE,
        UploadStatus.REFUSED,
        UploadStatus.CONFLICT,
    }
)


class Reason(StrEnum):
    """Why something was refused. Errors of the strict decoder and of values carry their own code
    into a receipt: these are the `code`s of `protofleet.errors` that can.
    """

    BAD_BYTES = "bad-bytes"
    BAD_VALUE = "bad-value"
    BAD_FUSION = "bad-fusion"
    # the envelope contradicts its topic, or this run
    WRONG_FLEET = "wrong-fleet"
    WRONG_RUN = "wrong-run"
    WRONG_METHOD = "wrong-method"
    WRONG_AGENT = "wrong-agent"
    WRONG_ROUND = "wrong-round"
    WIRE_VERSION = "wire-version"
    # A coordinator that lost its last writes says this of a round that it will come to again, so it
    # is the one refusal that does not end a delivery.
    UNKNOWN_ROUND = "unknown-round"
    WRONG_BASE = "wrong-base"
    OLD_BODY = "old-body"  # the bytes of another round, under an envelope of this one
    NOT_ASKED = "not-asked"
    NOT_NOW = "not-now"
    MASKED = "masked"  # the fleet takes masked sums, and this was none
    CONFLICT = "conflict"
    LOST = "lost"  # never travels: a device settles an upload so whose bytes it has no more
    # its parts: see `coordinator.uploads.validation`, and the vote on shapes for `unlike`
    EMPTY = "empty"
    PART = "part"
    UNLIKE = "unlike"
    CLASS = "class"
    DIMENSION = "dimension"
    COUNT = "count"
    SIZE = "size"
    NORM = "norm"
    TRACE = "trace"
    # only of classes that devices enrol, and of contributions to a ledger
    ENROL_OFF = "enrol-off"
    NO_PROTOTYPES = "no-prototypes"
    OTHER_LINEAGE = "other-lineage"
    MANY = "many"
    BAD_NAME = "bad-name"
    NOT_FROZEN = "not-frozen"
    COUNTS = "counts"
    NEAR = "near"  # of an offer that is accepted all the same
    BUDGET = "budget"  # the fleet has one: longer than agreed, or said outside of its rounds
    NO_SITE = "no-site"  # a sum of many devices, of somebody who may speak for none
    NOT_SHOWN = "not-shown"  # of a contribution that counts, with classes that nobody may see yet


class Scope(StrEnum):
    """How far a failure of training reaches."""

    AGAIN = "again"  # worth another try
    ROUND = "round"  # of no use this round
    DEVICE = "device"  # of no use on this device


class Setback(StrEnum):
    """Why a device did not take what was rolled out to it, or gave it up."""

    BUNDLE = "bundle"  # its hash, its graph, its self-test
    CRASH = "crash"  # it ended, or could not answer, on this device's own pictures
    WORSE = "worse"
    SLOWER = "slower"
    LARGER = "larger"
    SICK = "sick"  # in use: it started and never answered, or not again from the disk
    OVERDUE = "overdue"  # never travels: no word from a device that is there
    SILENT = "silent"  # never travels: it began, and was not heard since


class RoundPhase(StrEnum):
    """What an announcement says of its round."""

    OPEN = "open"
    CLOSED = "closed"
    PAUSED = "paused"
    DONE = "done"


class CutReason(StrEnum):
    """Why a round was closed, as the journal keeps it."""

    COMPLETE = "complete"
    DEADLINE = "deadline"
