"""Whoever can write the broker's topics, against a coordinator that wants signatures: nothing
changes, and each attempt is one line in the log.
"""

import io
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import pytest

from coordinator.allowance import RATES
from coordinator.members.office import Office
from coordinator.service.blobs import BlobServer
from coordinator.service.lookout import Lookout
from coordinator.service.loop import Service, ServiceDeps
from coordinator.service.seals import Seals, of_retained
from protofleet import wire
from protofleet.errors import TrustError
from protofleet.mqtt.blobs.descriptor import BlobLimits, descriptor_message
from protofleet.mqtt.blobs.sender import OutgoingBlob
from protofleet.mqtt.link.events import Arrival, Connected
from protofleet.trust import keys, sealing
from protofleet.trust.sealing import Gate, Signer
from protofleet.trust.sequence import Numbers, Sequence
from protofleet.util.logs import Log
from protofleet.util.systemd import Notifier
from tests.coordinator.made import AGENTS, TOPICS, birth, core, upload
from tests.coordinator.service.test_loop import Wire
from tests.membership import speaker

WALL = 1_800_000_000.0


class Fleet:
    """A coordinator, its members, and what they say."""

    def __init__(self, folder, office, *, everyone=True, numbers=None):
        self.link, self.core, self.log = Wire(), core(folder / "data", rounds=2), io.StringIO()
        log = Log(self.log)
        self.seals = Seals(
            office,
            numbers or Numbers(self.core.journal.signatures.heard()),
            log,
            everyone=everyone,
            folder=folder / "trust",
        )
        messages = self.core.messages

        def missing(agent, round, digest, ranges):
            return messages.receipt(agent, round, digest, "missing", missing=tuple(ranges))

        blobs = BlobServer(
            self.link, TOPICS, BlobLimits(), Path(folder / "spool"), missing, lambda: self.link.now
        )
        blobs.seal, self.core.numbers = self.seals.seal, self.seals.numbers
        self.service = self.link.service = Service(
            ServiceDeps(
                self.link,
                self.core,
                blobs,
                messages,
                TOPICS,
                log,
                Notifier({}),
                SimpleQueue(),
                frozenset(),
                Lookout(self.core, None, lambda: 0.0),
                seals=self.seals,
                clock=lambda: self.link.now,
            )
        )

    def run(self, *turns):
        self.link.script = [list(turn) for turn in turns]
        self.service.stopping = False
        self.service.run()
        return self

    def lines(self, words):
        return [line for line in self.log.getvalue().splitlines() if words in line]

    def close(self):
        self.seals.close()
        self.core.journal.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    office = Office(folder, "orchard", lambda: WALL)
    members = {name: speaker(office, name, folder / name) for name in AGENTS}
    yield office, members
    office.close()


@pytest.fixture
def fleet(home, tmp_path):
    fleet = Fleet(tmp_path, home[0])
    yield fleet
    fleet.close()


def arrival(topic, payload, retained=False):
    return Arrival(topic, payload, 1, retained, None)


def said(members, message, topic=None):
    """What a device says, under its signature; a topic of its own, or another."""
    place, payload = message
    topic = topic or topic_of(place)
    return arrival(topic, members[place.agent].seal(topic, payload))


def topic_of(place):
    if place.kind == "upload":
        return TOPICS.upload(place.agent, int(place.rest[0]))
    return TOPICS.state(place.agent)


def births(members):
    return [said(members, birth(agent)) for agent in AGENTS]


def test_members_are_heard_and_what_they_said_can_be_shown(fleet, home):
    _, members = home
    fleet.run([Connected(False, "5")], births(members))
    base = fleet.core.state.base
    fleet.run([said(members, upload(agent, 1, base)) for agent in AGENTS])
    assert fleet.core.base_round == 1
    proofs = fleet.core.journal.signatures.proofs()
    assert [(p.agent, p.round) for p in proofs] == [(agent, 1) for agent in AGENTS]
    sealed = sealing.taken_apart(proofs[0].proof + upload("a", 1, base)[1])
    sealing.check(sealed, members["a"].key.public_key(), TOPICS.upload("a", 1))
    # All that the coordinator says is its own.
    book = Gate(fleet.seals.roster, Numbers())
    for topic, payload in fleet.link.said:
        kind = TOPICS.parse(topic).kind
        assert book.open("", topic, topic, payload).proof, kind


def test_whoever_writes_the_topics_changes_nothing(fleet, home, tmp_path):
    _, members = home
    fleet.run([Connected(False, "5")], births(members))
    base, before = fleet.core.state.base, fleet.core.state.sha256
    _, stranger = upload("a", 1, base)
    mine = TOPICS.upload("a", 1)
    outsider = Signer(keys.new(), Sequence(tmp_path / "outsider"))
    own = fleet.core.messages.state(fleet.core.run_state, fleet.core.rules)
    envelope, body = wire.unseal(own.payload)
    false = wire.enclose(replace(envelope, epoch=2**63 - 1, boot="ff"), body)
    other = members["b"].seal(TOPICS.upload("b", 1), upload("b", 1, base)[1])
    blob = OutgoingBlob(stranger, 256)
    slip = descriptor_message(wire.unseal(stranger)[0], blob.descriptor)
    attempts = [
        arrival(mine, stranger),  # in a device's name, unsigned
        arrival(mine, outsider.seal(mine, stranger)),  # signed by somebody
        arrival(mine, members["b"].seal(mine, stranger)),  # by another device
        arrival(mine, other),  # what another device said, elsewhere
        arrival(TOPICS.upload("b", 2), other),  # to another round
        arrival(mine, slip),  # a large one
        arrival(TOPICS.state("a"), birth("a", online=False)[1]),  # its death
        arrival(TOPICS.state("x"), birth("x")[1]),  # a device that nobody invited
        arrival(TOPICS.coordinator_state, false, True),  # an epoch that nobody can top
        arrival(TOPICS.coordinator_state, outsider.seal(TOPICS.coordinator_state, false)),
        arrival(mine, b"\xd2\x84 nonsense"),
    ]
    fleet.run(attempts, [])
    assert len(fleet.lines("nobody stands for it")) == len(attempts)
    assert fleet.service._dropped()["untrusted"] == len(attempts)
    assert fleet.core.state.sha256 == before
    assert set(fleet.core.devices) == set(AGENTS)
    assert fleet.core.devices["a"].online
    assert fleet.core.intake.counters.uploads == 0
    assert fleet.core.intake.counters.refused == {}  # nobody is answered
    spoken = [p for t, p in fleet.link.said if t == TOPICS.coordinator_state]
    assert spoken  # and ours is said again, in the place of what was written there
    fleet.run([said(members, upload(agent, 1, base)) for agent in AGENTS])
    assert fleet.core.base_round == 1


def test_what_was_said_before_is_refused_in_the_next_life_too(fleet, home, tmp_path):
    office, members = home
    first = births(members)
    fleet.run([Connected(False, "5")], first, births(members))
    base = fleet.core.state.base
    early = said(members, upload("a", 1, base))
    fleet.run([early], [said(members, upload(agent, 1, base)) for agent in AGENTS])
    fleet.run([first[0], early])
    assert len(fleet.lines("said before")) == 2
    fleet.close()
    again = Fleet(tmp_path, office)
    again.run([first[0], early])
    assert len(again.lines("said before")) == 2
    again.seals.close()
    fleet.seals = again.seals


def test_what_a_device_offers_too_often_is_not_kept_as_proved_either(fleet, home):
    _, members = home
    fleet.run([Connected(False, "5")], births(members))
    base = fleet.core.state.base
    fleet.run([said(members, upload("a", 0, base)) for _ in range(50)])
    assert len(fleet.core.journal.signatures.proofs("a")) == RATES["offer"].burst


def test_where_they_are_accepted_others_speak_unsigned_and_members_do_not(home, tmp_path):
    office, members = home
    fleet = Fleet(tmp_path, office, everyone=False)
    fleet.run(
        [arrival(TOPICS.state("x"), birth("x")[1]), arrival(TOPICS.state("a"), birth("a")[1])]
    )
    assert set(fleet.core.devices) == {"x"}
    fleet.run(births(members))
    assert set(fleet.core.devices) == {"x", *AGENTS}
    fleet.close()


def test_a_large_upload_is_proved_by_its_descriptor(fleet, home):
    _, members = home
    fleet.run([Connected(False, "5")], births(members))
    place, payload = upload("a", 1, fleet.core.state.base)
    blob = OutgoingBlob(payload, 256)
    digest = blob.descriptor.digest
    slip = descriptor_message(wire.unseal(payload)[0], blob.descriptor)
    chunks = [
        arrival(TOPICS.upload_chunk("a", digest, n), blob.chunk(n))
        for n in range(blob.descriptor.chunks)
    ]
    fleet.run([said(members, (place, slip))], chunks)
    (proof,) = fleet.core.journal.signatures.proofs()
    assert proof.digest == digest
    sealed = sealing.taken_apart(proof.proof)
    sealing.check(sealed, members["a"].key.public_key(), TOPICS.upload("a", 1))
    assert wire.decode(sealed.message).body["digest"] == digest


def test_the_word_of_the_coordinator_before_is_read_if_it_is_the_fleet_s(fleet, home):
    office, _ = home
    own = fleet.core.messages.state(fleet.core.run_state, fleet.core.rules)
    opened = of_retained(office, own.topic)
    assert opened(fleet.seals.seal(own.topic, own.payload)) == own.payload
    assert opened(fleet.seals.will(own.topic, own.payload)) == own.payload
    assert opened(own.payload) is None
    assert of_retained(None, own.topic)(own.payload) == own.payload


def test_another_key_of_the_fleet_signs_once_it_is_there(home, tmp_path):
    office = Office(tmp_path / "rotating", "orchard", lambda: WALL)
    fleet = Fleet(tmp_path, office)
    office.rotate()
    ring = office.ring
    office.retire()
    fleet.seals.refresh()
    sealed = sealing.taken_apart(fleet.seals.seal("t", b"x"))
    assert sealed.key == keys.name(ring.keys[1])
    old = Signer(keys.of_file(office.folder / "fleet-1.key"), Sequence(tmp_path / "old"))
    data = old.seal(TOPICS.round, b"x")
    with pytest.raises(TrustError, match="not the fleet's"):
        fleet.seals.open(TOPICS.parse(TOPICS.round), TOPICS.round, data)
    fleet.close()
    office.close()
