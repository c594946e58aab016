"""Every error a user can meet: a class per kind, with a stable code, one line of words and an exit
code.

The command lines print `error: words (code)` and leave with the class's exit code; a traceback is
for `--debug` only.
"""

from __future__ import annotations


class FleetError(Exception):
    """Something a user can act on; subclasses say which kind."""

    code = "failed"
    exit_code = 1

    def __init__(self, words: str, hint: str = "") -> None:
        super().__init__(words if not hint else f"{words}; {hint}")
        self.words = words
        self.hint = hint

    def __reduce__(self) -> tuple[type[FleetError], tuple[str, str]]:
        return type(self), (self.words, self.hint)  # errors cross from worker processes


class ValueRefused(FleetError):
    """A value of the vocabulary that contradicts itself (a wrong shape, a number that is not
    finite).
    """

    code = "bad-value"


class WireError(FleetError):
    """Bytes from outside that the strict decoder refuses."""

    code = "bad-bytes"


class TrustError(FleetError):
    """Words that nobody stands for: a signature, a certificate or a token that does not hold."""

    code = "untrusted"


class FusionError(FleetError):
    """Uploads that cannot be fused together."""

    code = "bad-fusion"


class UsageError(FleetError):
    """The call's words are wrong."""

    code = "usage"
    exit_code = 2


class SettingError(UsageError):
    """A setting that is unknown or of the wrong kind."""

    code = "bad-setting"


class UnknownMethod(UsageError):
    """No installed method has this name."""

    code = "unknown-method"


class DataError(FleetError):
    """Data that is missing, unreadable or too small for what was asked."""

    code = "bad-data"


class TrainingDiverged(DataError):
    """Training ended in numbers that are not finite: another round may do better."""


class CheckpointError(FleetError):
    """A run directory that cannot be continued."""

    code = "bad-checkpoint"


class RunLeft(FleetError):
    """A run of the laboratory that was left on purpose, at a checkpoint from which it can go on."""

    code = "left"


class LinkError(FleetError):
    """A broker that cannot be used."""

    code = "link"


class LinkBusy(LinkError):
    """More waits to be sent than the link may hold."""

    code = "link-busy"


class BlobError(FleetError):
    """A large payload that cannot be taken in."""

    code = "bad-parcel"


class BrokerError(FleetError):
    """Our own broker could not be started."""

    code = "broker"
