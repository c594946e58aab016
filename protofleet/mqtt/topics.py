"""The topics of a fleet: every string is made here and taken apart here.

A topic's kind, as `parse` names it, is the name of the method or property that makes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from protofleet.errors import UsageError

ROOT = "pf/1"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
DIGEST = re.compile(r"[0-9a-f]{64}")
INVITATION = re.compile(r"[0-9a-f]{16}")
BUTTON = re.compile(r"[a-z]{1,20}")
NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
UPLOAD = re.compile(f"d/({NAME.pattern})/up/({NUMBER.pattern})")

# The short strings are what travels with every message and stands in access rules; the kinds are
# what the code calls them. Neither side may be derived from the other.
COMMON = {
    "c/state": "coordinator_state",
    "g/round": "round",
    "g/train": "shared_state",
    "g/group": "group",
    "g/keys": "keys",
    "g/list": "listing",
    "c/home": "fleet_home",
    "g/rollout": "rollout",
}
# What stands behind d/{id}/, and its kind.
SINGLE = {
    "state": "state",
    "down": "own_state",
    "rcpt": "receipt",
    "evt": "report",
    "reported": "reported",
    "csr": "renewal",
    "crt": "certificate",
    "box": "box",
    "sight": "sighting",
    "picture": "picture",
    "home": "home",
}
# For home automation and whatever else listens beside the fleet: plain JSON, pictures, and words of
# buttons, without signatures; nothing of it reaches the coordinator.
OF_HOMES = frozenset({"fleet_home", "sighting", "picture", "home", "press"})
# Behind `press` stands a button, behind `sees` a camera, or camera.region.
WORDS = {"press": BUTTON, "sees": NAME}
CHUNKS = {"blob": "own_chunk", "ub": "upload_chunk"}


def check_name(what: str, name: str) -> str:
    """The name itself, if a fleet or a device may have it."""
    if not NAME.fullmatch(name):
        shown = name if name.isprintable() and len(name) < 80 else "(not printable or too long)"
        raise UsageError(
            f"{what} name {shown!r} cannot be used",
            "letters, digits, '.', '_' and '-', at most 63, the first a letter or digit",
        )
    return name


class Proof(NamedTuple):
    """A signature over a message, or with the descriptor in its place that was signed, and the
    sha256 of the whole message.
    """

    signature: bytes
    digest: str


class TopicParts(NamedTuple):
    """A topic taken apart: whose it is, its kind, and what follows (round, digest and chunk, or
    channel); and what proves that its message is the agent's, where that was asked for.
    """

    agent: str | None
    kind: str
    rest: tuple[str, ...] = ()
    proof: Proof | None = None


@dataclass(frozen=True)
class Topics:
    """The topic strings of one fleet."""

    fleet: str

    def __post_init__(self) -> None:
        check_name("fleet", self.fleet)

    @cached_property
    def prefix(self) -> str:
        return f"{ROOT}/{self.fleet}"

    @cached_property
    def _start(self) -> str:
        return f"{self.prefix}/"

    @property
    def coordinator_state(self) -> str:
        return f"{self.prefix}/c/state"

    @property
    def round(self) -> str:
        return f"{self.prefix}/g/round"

    @property
    def shared_state(self) -> str:
        return f"{self.prefix}/g/train"

    @property
    def group(self) -> str:
        return f"{self.prefix}/g/group"

    @property
    def keys(self) -> str:
        return f"{self.prefix}/g/keys"

    @property
    def listing(self) -> str:
        return f"{self.prefix}/g/list"

    @property
    def rollout(self) -> str:
        return f"{self.prefix}/g/rollout"

    def ask(self, invitation: str) -> str:
        return f"{self.prefix}/j/{invitation}/ask"

    def answer(self, invitation: str) -> str:
        return f"{self.prefix}/j/{invitation}/answer"

    def shared_chunk(self, digest: str, chunk: int) -> str:
        return f"{self.prefix}/g/blob/{digest}/{chunk}"

    def proto(self, channel: str) -> str:
        return f"{self.prefix}/g/{channel}/proto"

    def bundle(self, channel: str) -> str:
        return f"{self.prefix}/g/{channel}/bundle"

    def state(self, agent: str) -> str:
        return f"{self.prefix}/d/{agent}/state"

    def own_state(self, agent: str) -> str:
        return f"{self.prefix}/d/{agent}/down"

    def upload(self, agent: str, round: int) -> str:
        return f"{self.prefix}/d/{agent}/up/{round}"

    def receipt(self, agent: str) -> str:
        return f"{self.prefix}/d/{agent}/rcpt"

    def chunk_request(self, agent: str) -> str:
        return f"{self.prefix}/d/{agent}/blob/req"

    def own_chunk(self, agent: str, digest: str, chunk: int) -> str:
        return f"{self.prefix}/d/{agent}/blob/{digest}/{chunk}"

    def upload_chunk(self, agent: str, digest: str, chunk: int) -> str:
        return f"{self.prefix}/d/{agent}/ub/{digest}/{chunk}"

    def box(self, agent: str) -> str:
        return f"{self.prefix}/d/{agent}/box"

    def report(self, agent: str) -> str:
        return f"{self.prefix}/d/{agent}/evt"

    def sees(self, agent: str, place: str) -> str:
        return f"{self.prefix}/d/{agent}/sees/{place}"

    def reported(self, agent: str) -> str:
        return f"{self.prefix}/d/{agent}/reported"

    def renewal(self, agent: str) -> str:
        return f"{self.prefix}/d/{agent}/csr"

    def certificate(self, agent: str) -> str:
        return f"{self.prefix}/d/{agent}/crt"

    @property
    def fleet_home(self) -> str:
        return f"{self.prefix}/c/home"

    def sighting(self, agent: str) -> str:
        return f"{self.prefix}/d/{agent}/sight"

    def picture(self, agent: str) -> str:
        return f"{self.prefix}/d/{agent}/picture"

    def home(self, agent: str) -> str:
        return f"{self.prefix}/d/{agent}/home"

    def press(self, agent: str, button: str) -> str:
        return f"{self.prefix}/d/{agent}/press/{button}"

    def for_uploads(self, *, shared: bool = False) -> list[tuple[str, int]]:
        """What whoever takes uploads in subscribes to; `shared`: the broker deals them out among
        all that subscribe to them so.
        """
        every = f"{self.prefix}/d/+/up/+"
        return [(f"$share/{self.fleet}/{every}" if shared else every, 1)]

    def for_coordinator(self, *, uploads: bool = True) -> list[tuple[str, int]]:
        """What a coordinator subscribes to; its own state as well, so that two at once notice each
        other. Without `uploads`: others take those.
        """
        # Nobody sends `ack` yet, nor `desired` and `cmd` below. Both lists and the access rules
        # stay as they are all the same, for they are what brokers in the field know. `parse` knows
        # none of these topics: what arrives there is acknowledged and dropped.
        ends = ("state", "reported", "blob/req", "ub/+/+", "ack")
        return [
            (self.coordinator_state, 1),
            *(self.for_uploads() if uploads else []),
            *((f"{self.prefix}/d/+/{end}", 1) for end in ends),
            (f"{self.prefix}/d/+/evt", 0),
        ]

    def for_office(self) -> list[tuple[str, int]]:
        """What the coordinator of a fleet by invitation subscribes to besides."""
        return [(f"{self.prefix}/j/+/ask", 1), (f"{self.prefix}/d/+/csr", 1)]

    def for_member(self, agent: str) -> list[tuple[str, int]]:
        """What a device that joined subscribes to besides."""
        return [(self.keys, 1), (self.listing, 1), (self.certificate(agent), 1)]

    def for_home(self, agent: str) -> list[tuple[str, int]]:
        """What a device subscribes to besides whose buttons others may press."""
        return [(f"{self.prefix}/d/{agent}/press/+", 0)]

    def for_device(self, agent: str) -> list[tuple[str, int]]:
        """What a device subscribes to."""
        own = ("desired", "down", "rcpt", "box", "blob/+/+", "cmd")
        return [
            (self.coordinator_state, 1),
            (self.round, 1),
            (self.shared_state, 1),
            (self.group, 1),
            (self.rollout, 1),
            (f"{self.prefix}/g/blob/+/+", 1),
            (f"{self.prefix}/g/+/proto", 1),
            (f"{self.prefix}/g/+/bundle", 1),
            *((f"{self.prefix}/d/{agent}/{end}", 1) for end in own),
        ]

    def parse(self, topic: str) -> TopicParts | None:
        """A topic of this fleet taken apart, or None for anything else."""
        root, _, tail = topic.partition(self._start)
        if root or not tail:
            return None
        if upload := UPLOAD.fullmatch(tail):  # what comes most
            return TopicParts(upload[1], "upload", (upload[2],))
        if tail in COMMON:
            return TopicParts(None, COMMON[tail])
        parts: TopicParts | None = None
        match tail.split("/"):
            case ["d", agent, *rest] if NAME.fullmatch(agent):
                parts = _device(agent, rest)
            case ["g", "blob", digest, chunk] if DIGEST.fullmatch(digest) and NUMBER.fullmatch(
                chunk
            ):
                parts = TopicParts(None, "shared_chunk", (digest, chunk))
            case ["g", channel, ("proto" | "bundle") as kind] if NAME.fullmatch(channel):
                parts = TopicParts(None, kind, (channel,))
            case ["j", invitation, ("ask" | "answer") as kind] if INVITATION.fullmatch(invitation):
                parts = TopicParts(None, kind, (invitation,))
        return parts


def _device(agent: str, rest: list[str]) -> TopicParts | None:
    match rest:
        case [name] if name in SINGLE:
            return TopicParts(agent, SINGLE[name])
        case ["blob", "req"]:
            return TopicParts(agent, "chunk_request")
        case [("press" | "sees") as kind, name] if WORDS[kind].fullmatch(name):
            return TopicParts(agent, kind, (name,))
        case [("blob" | "ub") as name, digest, chunk] if DIGEST.fullmatch(
            digest
        ) and NUMBER.fullmatch(chunk):
            return TopicParts(agent, CHUNKS[name], (digest, chunk))
    return None
