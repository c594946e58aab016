"""A masked round without a network: a coordinator's core on a journal, devices on their stores, and
whoever is to be lost or killed between two messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from coordinator.uploads.fuse import fuse_round
from edge_agent.daemon.masker import Masker
from edge_agent.daemon.outbound import upload_message
from edge_agent.protocol.events import RoundSpec
from edge_agent.records import Checkpoint, HeldState, OutboxEntry
from edge_agent.store import Store
from protofleet import wire
from protofleet.exchange.state import Upload
from protofleet.masking.group import Agreement, MaskedSum
from protofleet.masking.letters import decode_letter
from protofleet.masking.rooms import MaskTerms
from protofleet.member.membership import FleetMember
from protofleet.recipe import Turn
from protofleet.settings.fields import to_plain
from protofleet.util.logs import Log
from tests.coordinator import made

STEPS = {  # at which a device may be lost, by what it would have said
    "ready": "Readiness",
    "keys": "PublicKeys",
    "shares": "Boxes",
    "masks": "MaskedSum",
    "reveal": "Reveal",
}
AGENTS = ("a", "b", "c", "d", "e", "f")
TIMEOUT = 60.0


def contract(dropouts=1, budget=None):
    """The tests' own, with masks, and perhaps a budget."""
    return replace(made.CONTRACT, masks=MaskTerms(dropouts), budget=budget)


@dataclass
class SeatedDevice:
    """One device, by what it has on disk."""

    name: str
    folder: Path
    log: Log
    said: list[str] = field(default_factory=list)  # kinds of letters
    store: Store | None = None
    masker: Masker | None = None
    member: FleetMember | None = None

    def start(self):
        """A new life."""
        if self.store is not None:
            self.store.close()
        self.store = Store(self.folder)
        self.store.take_over("boot")
        self.masker = Masker(self.name, self.store, self.log, self.member)

    def trains(self, core, number, base, parts):
        """As a training process leaves it."""
        terms, agreed = core.terms.expected, core.terms.expected.contract
        spec = RoundSpec(
            agreed.run, terms.recipe.name, agreed.announced(), to_plain(core.terms.hyper)
        )
        self.masker.begin(spec)
        body = wire.encode_parts(parts, agreed.wire, terms.recipe.precision)
        digest = sha256(body).hexdigest()
        upload = OutboxEntry(
            agreed.run, number, base, terms.recipe.name, digest, body, "boot", number
        )
        kept = Checkpoint(number, number - 1, base, b"")
        head = wire.Envelope("global", agreed.fleet, agreed.run, round=number - 1)
        state = wire.enclose(head, wire.encode_parts(core.state.shared, "float32"))
        self.store.hold("global", HeldState(agreed.run, number - 1, base, state))
        self.store.commit_round("boot", agreed.run, kept, upload, float(number))

    def message(self, run, number, epoch):
        """What it sends now; None where it has nothing to say."""
        upload = self.store.upload(run, number)
        letter = self.masker.letter(upload)
        if not letter:
            return None
        return type(decode_letter(letter)).__name__, upload_message(
            "orchard", self.name, upload, epoch, letter
        )

    def hears(self, publication):
        """Whether a word has a new answer."""
        envelope, body = wire.unseal(publication.payload)
        return self.masker.hears(envelope.run, envelope.round, decode_letter(body))


@dataclass
class MaskedFleet:
    """Six devices and a coordinator; `lost` by step, `crash` the number of a pass after which all
    of them die and come back.
    """

    folder: Path
    dropouts: int = 1
    lost: dict = field(default_factory=dict)  # by device, the step
    crash: int = -1
    method: str = "fedproto"
    parts_of: object = made.parts_of
    hyper: object = None
    members: dict = field(default_factory=dict)  # by device, of a fleet by invitation
    budget: object = None
    rounds: int = 1
    bank: object = None  # of the fleet's extractor, where it has one

    def __post_init__(self):
        self.now, self.letters, self.agreements = 0.0, [], []
        self.opened, self.final = None, {}  # by device, the last receipt's status
        self.devices = {n: SeatedDevice(n, self.folder / n, made_log()) for n in AGENTS}
        for device in self.devices.values():
            device.member = self.members.get(device.name)
            device.start()
        self._core()

    def _core(self):
        terms = contract(self.dropouts, self.budget)
        self.core = made.core(
            self.folder / "journal",
            rounds=self.rounds,
            min_agents=len(AGENTS),
            contract=terms,
            method=self.method,
            hyper=self.hyper,
            timeout=TIMEOUT,
            quorum=0.0,
        )
        if self.bank is not None:
            self.core.catalogue.adopt(made.packed_bundle(self.folder / "x.pfb", self.bank))
        return self.core.recover(self.now)

    def join(self):
        """All devices are there, and the round opens."""
        self.opened = made.joined(self.core, AGENTS)
        return self.opened

    def run(self):
        """All rounds, to their end."""
        for number in range(1, self.rounds + 1):
            self.run_round(number)
        assert self.core.run_state.phase == "done"
        return self.core.state.sha256

    def run_round(self, number):
        """One of them."""
        if self.opened is None:
            self.join()
        base = self.core.state.base
        for name, device in self.devices.items():
            device.trains(self.core, number, base, self.parts_of(name, number))
        silent, passes, unanswered = set(), 0, {}
        while self.core.base_round < number:
            arrivals = []
            for name in sorted(self.devices):
                spoken = None if name in silent else self.devices[name].message("r1", number, 1)
                if spoken is None:
                    continue
                kind, message = spoken
                if STEPS.get(self.lost.get(name)) == kind:
                    silent.add(name)
                elif unanswered.get(name) != message:
                    unanswered[name] = message
                    self.letters.append((name, kind, message))
                    place = made.TOPICS.parse(made.TOPICS.upload(name, number))
                    arrivals.append((place, message))
            if not arrivals:
                self.now += TIMEOUT + 1.0
            said = self.core.take(arrivals, self.now)
            if passes == self.crash:
                self.core.journal.close()
                said = self._core() + self.core.greetings()
                unanswered = {}
                for device in self.devices.values():
                    device.start()
            passes += 1
            assert passes < 60, "the round does not end"
            self._deliver(said, silent)

    def _deliver(self, said, silent):
        for publication in said:
            place = made.parsed(publication.topic)
            if place.kind == "receipt":
                status = wire.decode(publication.payload).body["status"]
                self.final[place.agent] = status
            if place.kind not in ("group", "box") or not publication.payload:
                continue
            word = decode_letter(wire.unseal(publication.payload)[1])
            if isinstance(word, Agreement):
                self.agreements.append(word)
            for name, device in self.devices.items():
                if name not in silent and place.agent in (None, name):
                    device.hears(publication)

    def plain(self, survivors):
        """The state's hash when these devices alone had sent uploads that anybody may read."""
        recipe = self.core.terms.expected.recipe
        before = self.core.journal.state(0)[1]
        uploads = []
        for name in survivors:
            parts = self.parts_of(name, 1)
            body = wire.encode_parts(parts, "half", recipe.precision)
            uploads.append(Upload(name, 1, before.base, wire.decode_parts(body)))
        return fuse_round(recipe, self.turn, before, uploads).sha256

    @property
    def turn(self):
        """Of the one round that there is."""
        return Turn(self.core.terms.expected.contract, self.core.terms.hyper, 1)

    def masked(self):
        """The masked sums that were sent, by device."""
        found = {}
        for name, kind, message in self.letters:
            if kind == "MaskedSum":
                letter = decode_letter(wire.unseal(message)[1])
                assert isinstance(letter, MaskedSum)
                found.setdefault(name, set()).add(letter.numbers)
        return found

    def close(self):
        """Let the files go."""
        self.core.journal.close()
        for device in self.devices.values():
            device.store.close()


def made_log():
    """One that nobody reads."""
    import io

    return Log(io.StringIO())
