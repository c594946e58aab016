"""Members of a fleet by invitation, made without a broker."""

from coordinator.members.office import Reach
from edge_agent import membership
from edge_agent.joining import join
from edge_agent.membership import FleetMember
from protofleet.trust import certificates, joining, keys, tokens
from protofleet.trust.sealing import Signer
from protofleet.trust.sequence import Sequence


def joined(office, name, folder):
    """The files of a device that joined."""
    token = tokens.of_text(office.invite(name, 0, 60.0, Reach("mqtt://b", "mqtt://b")))
    member = FleetMember(office.fleet, name, "mqtt://b", folder)
    request = certificates.request(keys.of_file(member.key), name)
    asked = joining.ask(token.key, office.topics.ask(token.id), name, request)
    topic = office.topics.answer(token.id)
    data = office.answer(token.id, asked)
    join.write_admission(member, joining.read_answer(data, token.authority, topic, asked))
    membership.write(member)
    return member


def speaker(office, name, folder, lane=0):
    """What a member says goes through this."""
    member = joined(office, name, folder)
    return Signer(keys.read(member.key), Sequence(folder, lane))
