"""Members of a fleet by invitation, made in its files alone: an office that lets in, a device that
was let in.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from coordinator.members.office import Office, Reach
from protofleet.member import join, membership
from protofleet.member.membership import FleetMember
from protofleet.trust import certificates, joining, keys, tokens
from protofleet.util.files import own_folder


def admitted(office: Office, name: str, folder: Path, url: str) -> FleetMember:
    """The files of a device that joined, in this folder."""
    token = tokens.of_text(office.invite(name, 0, 60.0, Reach(url, url)))
    member = FleetMember(office.fleet, name, url, folder)
    request = certificates.request(keys.of_file(member.key), name)
    asked = joining.ask(token.key, office.topics.ask(token.id), name, request)
    topic = office.topics.answer(token.id)
    data = office.answer(token.id, asked)
    join.write_admission(member, joining.read_answer(data, token.authority, topic, asked))
    membership.write(member)
    return member


def invite(data: Path, fleet: str, homes: Mapping[str, Path], url: str) -> None:
    """Make this coordinator's fleet one by invitation, with these devices in it."""
    office = Office(data, fleet, time.time)
    try:
        for name, home in homes.items():
            admitted(office, name, own_folder(own_folder(home) / membership.FOLDER), url)
    finally:
        office.close()
