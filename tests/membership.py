"""Members of a fleet by invitation, made without a broker."""

from protofleet.trust import keys
from protofleet.trust.sealing import Signer
from protofleet.trust.sequence import Sequence
from simulators.faults.invited import admitted


def joined(office, name, folder):
    """The files of a device that joined."""
    return admitted(office, name, folder, "mqtt://b")


def speaker(office, name, folder, lane=0):
    """What a member says goes through this."""
    member = joined(office, name, folder)
    return Signer(keys.read(member.key), Sequence(folder, lane))
