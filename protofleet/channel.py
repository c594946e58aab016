"""What devices classify with, as it is published: class names and points of one lineage, in one message.

The message is a `global` whose parts are the points (`prototypes`, `mixtures` or `head`) and `about`: the UTF-8 bytes
of a small JSON document, because the vocabulary has no text. A bundle carries the same bytes as `prototypes.cbor`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from protofleet import wire
from protofleet.contract import Contract, Wire
from protofleet.errors import SettingError, WireError
from protofleet.prototypes import Head, Mixtures, Parts, Prototypes, Tensors
from protofleet.settings import from_plain, to_plain
from protofleet.wire import Envelope

Points = Prototypes | Mixtures | Head
KINDS: Mapping[str, type[Points]] = {"prototypes": Prototypes, "mixtures": Mixtures, "head": Head}
_ABOUT = "about"


@dataclass(frozen=True)
class About:
    """Whose embeddings the points live among, what the classes are called, and which bundle fits (its digest)."""

    lineage: str
    classes: tuple[str, ...]
    bundle: str = ""

    def __post_init__(self) -> None:
        if not self.lineage or len(set(self.classes)) != len(self.classes) or "" in self.classes:
            raise SettingError("about: a lineage is due, and class names that differ")


@dataclass(frozen=True)
class Bank:
    """Everything a device needs to tell classes apart, but for the extractor."""

    about: About
    points: Points

    def __post_init__(self) -> None:
        ids = self.points.classes
        if ids.size and ids[-1] >= len(self.about.classes):
            raise SettingError(f"points of class {ids[-1]}, but only {len(self.about.classes)} class names")

    @property
    def kind(self) -> str:
        """`prototypes`, `mixtures` or `head`."""
        return next(name for name, cls in KINDS.items() if isinstance(self.points, cls))


@dataclass(frozen=True)
class Published:
    """A bank as it came: `digest` is the hash of its body, and what devices call the state they run."""

    bank: Bank
    envelope: Envelope
    digest: str


def write(bank: Bank, envelope: Envelope, precision: Wire = "half") -> bytes:
    """The message; equal banks under equal envelopes have equal bytes."""
    text = json.dumps(to_plain(bank.about), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    about = Tensors({"json": np.frombuffer(text.encode(), np.uint8).astype(np.int64)})
    return wire.encode(envelope, {bank.kind: bank.points, _ABOUT: about}, precision)


def read(data: bytes) -> Published:
    """A published bank, or `WireError` and nothing else."""
    message = wire.decode(data)
    if message.envelope.t != "global":
        raise WireError(f"a message of type global is due, not {message.envelope.t}")
    parts: Parts = message.body
    found = [(name, parts[name]) for name in KINDS if name in parts]
    if len(found) != 1 or len(parts) != 2:
        raise WireError(f"global.parts: one of {', '.join(KINDS)} is due, and {_ABOUT}")
    name, points = found[0]
    if not isinstance(points, KINDS[name]):
        raise WireError(f"global.parts.{name}: not of its kind")
    try:
        return Published(Bank(_about(parts.get(_ABOUT)), points), message.envelope, message.digest)
    except SettingError as error:
        raise WireError(f"global.parts.{_ABOUT}: {error.words}") from None


def _about(part: Any) -> About:
    text = part.arrays.get("json") if isinstance(part, Tensors) else None
    if text is None or text.ndim != 1 or text.dtype.kind not in "iu" or (text.size and text.max() > 255):
        raise WireError(f"global.parts.{_ABOUT}: the bytes of a JSON document are due")
    try:
        return from_plain(About, json.loads(text.astype(np.uint8).tobytes().decode()), _ABOUT)
    except (ValueError, RecursionError):
        raise WireError(f"global.parts.{_ABOUT}: not a JSON document") from None


def run_lineage(contract: Contract, method: str, hyper: Any) -> str:
    """The lineage of a run: what its devices' own extractors were aligned by. The same for lab, fleet and device."""
    told = json.dumps([to_plain(contract), method, to_plain(hyper)], sort_keys=True)
    return f"run:{contract.fleet}/{contract.run}/{sha256(told.encode()).hexdigest()[:16]}"


def extractor_lineage(weights: Tensors, backbone: str, contract: Contract) -> str:
    """The lineage of one extractor: its float weights and preprocessing, whatever precision it is later shipped in."""
    told = json.dumps([backbone, contract.embedding, to_plain(contract.input)], sort_keys=True)
    return f"extractor:{sha256(told.encode() + wire.digest({'weights': weights}).encode()).hexdigest()}"
