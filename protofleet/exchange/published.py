"""What devices classify with, as it is published: class names and points of one lineage, in one
message.

The message is a `global` whose parts are the points (`prototypes`, `mixtures` or `head`) and
`about`: the UTF-8 bytes of a small JSON document, because the vocabulary has no text. A bundle
carries the same bytes as `prototypes.cbor`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from protofleet import wire
from protofleet.errors import SettingError, WireError
from protofleet.settings.fields import from_plain, to_plain
from protofleet.statistics.reliability import Calibration
from protofleet.values.nearest import squared_distances
from protofleet.values.prototypes import Head, Mixtures, Parts, Prototypes, Tensors
from protofleet.wire import Envelope

if TYPE_CHECKING:
    from protofleet.contract import Contract, Input, Wire

Points = Prototypes | Mixtures | Head
KINDS: Mapping[str, type[Points]] = {"prototypes": Prototypes, "mixtures": Mixtures, "head": Head}
STABLE = "stable"  # the channel that devices follow unless they are told otherwise
_ABOUT = "about"
# Bytes of a part that is a document. As Python values it may become forty times as large, and
# nothing below looks at it before it is read.
LARGEST_DOCUMENT = 1 << 20


@dataclass(frozen=True)
class About:
    """Whose embeddings the points live among, what the classes are called, and which bundle fits
    (its digest).

    Of a head that was made of sums: how sure its scores are, which sums these are (their hash), and
    which share of the devices is asked to count against them. `by_rounds`: the fleet has a budget,
    and what devices have to say through its extractor they say in its rounds alone; a device that
    does not know of budgets cannot read this, and so says nothing.
    """

    lineage: str
    classes: tuple[str, ...]
    bundle: str = ""
    calibration: Calibration | None = None
    total: str = ""
    asked: float = 0.0
    by_rounds: bool = False

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
            raise SettingError(
                f"points of class {ids[-1]}, but only {len(self.about.classes)} class names"
            )

    @property
    def kind(self) -> str:
        """`prototypes`, `mixtures` or `head`."""
        return next(name for name, cls in KINDS.items() if isinstance(self.points, cls))


@dataclass(frozen=True)
class Published:
    """A bank as it came: `digest` is the hash of its body, and what devices call the state they
    run.
    """

    bank: Bank
    envelope: Envelope
    digest: str


def write(bank: Bank, envelope: Envelope, precision: Wire = "half") -> bytes:
    """The message; equal banks under equal envelopes have equal bytes."""
    parts: Parts = {bank.kind: bank.points, _ABOUT: document_part(bank.about)}
    return wire.encode(envelope, parts, precision)


def read(data: bytes, t: str = "global") -> Published:
    """A published (or offered: `enrol`) bank, or `WireError` and nothing else."""
    message = wire.decode(data)
    if message.envelope.t != t:
        raise WireError(f"a message of type {t} is due, not {message.envelope.t}")
    parts: Parts = message.body
    by_kind = [(name, parts[name]) for name in KINDS if name in parts]
    if len(by_kind) != 1 or len(parts) != 2:
        raise WireError(f"{t}.parts: one of {', '.join(KINDS)} is due, and {_ABOUT}")
    name, points = by_kind[0]
    if not isinstance(points, KINDS[name]):
        raise WireError(f"{t}.parts.{name}: not of its kind")
    try:
        about = from_plain(About, plain_of(parts.get(_ABOUT), f"{t}.parts.{_ABOUT}"), _ABOUT)
        return Published(Bank(about, points), message.envelope, message.digest)
    except SettingError as error:
        raise WireError(f"{t}.parts.{_ABOUT}: {error.words}") from None


def document_part(document: Any) -> Tensors:
    """A dataclass as a part; what has its default is left out."""
    plain = {
        field.name: value
        for field in fields(document)
        if (value := to_plain(getattr(document, field.name))) != to_plain(field.default)
    }
    text = json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return Tensors({"json": np.frombuffer(text.encode(), np.uint8).astype(np.int64)})


def plain_of(part: Any, where: str) -> Any:
    """And back, as a document; `WireError` for what is none."""
    text = part.arrays.get("json") if isinstance(part, Tensors) else None
    if (
        text is None
        or text.ndim != 1
        or text.dtype.kind not in "iu"
        or not text.size
        or not 0 <= text.min() <= text.max() <= 255
    ):
        raise WireError(f"{where}: the bytes of a JSON document are due")
    if text.size > LARGEST_DOCUMENT:
        raise WireError(f"{where}: {text.size} bytes of JSON, at most {LARGEST_DOCUMENT} are taken")
    try:
        return json.loads(text.astype(np.uint8).tobytes().decode())
    except (ValueError, RecursionError):
        raise WireError(f"{where}: not a JSON document") from None


def joined(bank: Bank, more: Bank) -> Bank:
    """The first one's classes, and after them those that have points in the second alone; only
    prototypes join.
    """
    mine, theirs = more.points, bank.points
    if more.about.lineage != bank.about.lineage:
        return bank
    if (
        not isinstance(mine, Prototypes)
        or not isinstance(theirs, Prototypes)
        or mine.dim != theirs.dim
    ):
        return bank
    # By points and not by names: a class that was taken out (`without`) keeps its name, and may be
    # brought anew.
    with_points = {bank.about.classes[int(c)] for c in np.unique(theirs.classes)}
    fresh = [name for name in more.about.classes if name not in with_points]
    if not fresh:
        return bank
    names = (*bank.about.classes, *(name for name in fresh if name not in bank.about.classes))
    ids = {more.about.classes.index(name): names.index(name) for name in fresh}
    added = mine.only(list(ids))
    classes = np.concatenate(
        [theirs.classes, np.array([ids[int(c)] for c in added.classes], np.int64)]
    )
    points = Prototypes(classes, np.concatenate([theirs.vectors, added.vectors]))
    return Bank(replace(bank.about, classes=names), points)


def without(bank: Bank, names: Collection[str]) -> Bank:
    """The bank without the points of these classes; their names stay, so that ids do."""
    ids = [i for i, name in enumerate(bank.about.classes) if name in names]
    if not ids or not isinstance(bank.points, Prototypes):
        return bank
    others = np.setdiff1d(bank.points.classes, ids)
    return Bank(bank.about, bank.points.only(others))


def nearest(points: Prototypes, vectors: NDArray[np.floating[Any]]) -> tuple[int, float]:
    """The class that lies nearest to these rows, and how near, as a share of what is usual between
    classes; −1 and infinity where there is none.
    """
    if not len(points.classes):
        return -1, float("inf")
    between = squared_distances(vectors, points.vectors).min(0)
    at = int(between.argmin())
    apart = squared_distances(points.vectors, points.vectors)
    apart[points.classes[:, None] == points.classes[None, :]] = np.inf
    # Usual is the median, over all rows, of the distance to the nearest row of another class. Where
    # there is one class alone, nothing is usual, and the distance is given as it is.
    usual = float(np.median(apart.min(1))) if np.isfinite(apart).any() else 1.0
    return int(points.classes[at]), float(np.sqrt(between[at] / max(usual, 1e-30)))


def run_lineage(contract: Contract, method: str, hyper: Any) -> str:
    """The lineage of a run: what its devices' own extractors were aligned by. The same for lab,
    fleet and device.
    """
    terms = json.dumps([contract.announced(), method, to_plain(hyper)], sort_keys=True)
    return f"run:{contract.fleet}/{contract.run}/{sha256(terms.encode()).hexdigest()[:16]}"


def graph_lineage(graph: bytes, embedding: int, input: Input, resize: str) -> str:
    """The lineage of an extractor that is a graph: its bytes in full precision, whatever precision
    it is later shipped in, and how it is fed.
    """
    terms = json.dumps([embedding, to_plain(input), resize], sort_keys=True)
    return f"extractor:{sha256(terms.encode() + sha256(graph).digest()).hexdigest()}"


def extractor_lineage(weights: Tensors, backbone: str, contract: Contract) -> str:
    """The lineage of one extractor: its float weights and preprocessing, whatever precision it is
    later shipped in.
    """
    shape = [backbone, contract.embedding, to_plain(contract.input)]
    # What has no weights of its own and yet decides what comes out. Nothing where there is none, so
    # that an extractor has the lineage that it always had.
    shape += ["unit"] if contract.unit_embedding else []
    shape += [] if contract.resize == "linear" else [contract.resize]
    terms = json.dumps(shape, sort_keys=True)
    digest = wire.digest({"weights": weights})
    return f"extractor:{sha256((terms + digest).encode()).hexdigest()}"
