"""A new class from a few photos: embedded, used at once on this device, and a contribution like any
other to the fleet.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_agent.inference.classifier import Classifier
from edge_agent.inference.inputs import precisely
from edge_agent.updates import cache
from protofleet.errors import UsageError
from protofleet.exchange import contributed, published
from protofleet.exchange.contributed import CONTRIBUTE, Claim
from protofleet.statistics.contribution import Contribution, Grid, contribution
from protofleet.util.files import OWN_FILE, own_folder, write_whole
from protofleet.values.prototypes import Floats, Mixtures, Prototypes
from protofleet.wire import Envelope

TOO_NEAR = 0.25  # of what is usual between classes
CERTAIN, ALIKE = 0.9, 0.5  # which share of a class's photos are surely another class


@dataclass(frozen=True, eq=False)
class Enrolment:
    """A class as its photos show it, and what it lies nearest to."""

    label: str
    lineage: str
    contribution: Contribution
    nearest: str  # nothing for the first class there is
    share: float  # how near, as a share of what is usual between classes
    too_near: bool  # whether the two will be mixed up

    @property
    def photos(self) -> int:
        """How many there were."""
        return self.contribution.samples

    def message(self, fleet: str, agent: str, run: str = "") -> bytes:
        """As it is offered."""
        claim = Claim(self.lineage, (self.label,), source=self.label)
        envelope = Envelope("enrol", fleet, run or None, agent=agent, method=CONTRIBUTE)
        return contributed.write_contribution(claim, self.contribution, envelope)


def embedded(classifier: Classifier, label: str, images: NDArray[Any]) -> Enrolment:
    """What the photos say, beside the classes there are."""
    return of_features(classifier, label, classifier.look(images).features)


def of_features(classifier: Classifier, label: str, features: Floats) -> Enrolment:
    """The same of photos that were looked at before."""
    now = classifier.in_use
    bank = now.loaded.bank
    if isinstance(bank.points, Mixtures):
        raise UsageError(
            "this bundle classifies by mixtures: new classes need prototypes or a head"
        )
    if label in now.loaded.labels:
        raise UsageError(
            f"there is a class {label!r} already", "forget it first, or take another name"
        )
    shared = now.engine.as_published([label] * len(features), features)
    own = contribution(shared, np.zeros(len(shared), np.int64), Grid.fitting(shared))
    lineage = bank.about.lineage
    if isinstance(bank.points, Prototypes):
        index, share = published.nearest(bank.points, own.means.vectors)
        near = bank.about.classes[index] if index >= 0 else ""
        return Enrolment(label, lineage, own, near, share, share < TOO_NEAR)
    near, share = _alike(classifier, features)
    return Enrolment(label, lineage, own, near, share, share >= ALIKE)


def keep(classifier: Classifier, bundle: Path, message: bytes) -> None:
    """Use it at once, here and at every later start."""
    claim = contributed.read(message).claim
    path = cache.enrolled_file(bundle, claim.lineage, claim.source)
    own_folder(path.parent)
    write_whole(path, message, mode=OWN_FILE)
    cache.settled(classifier, bundle)


def forget(classifier: Classifier, bundle: Path, label: str) -> bool:
    """Take back a class that was enrolled here; whether there was one."""
    path = cache.enrolled_file(bundle, classifier.loaded.bank.about.lineage, label)
    if not path.exists():
        return False
    path.unlink()
    return True


def _alike(classifier: Classifier, features: Floats) -> tuple[str, float]:
    """The class that most photos are surely taken for, and which share of them is."""
    loaded = classifier.loaded
    scores = loaded.ready.by_class(precisely(features, loaded.ready), loaded.bank.kind)
    shares, odd = loaded.probabilities(scores), loaded.unknown(features, scores)
    if shares is None:
        return "", 0.0
    certain = shares.max(1) > CERTAIN
    certain &= True if odd is None else ~odd
    counts = np.bincount(scores.argmax(1)[certain], minlength=scores.shape[1])
    best = int(counts.argmax())
    return loaded.labels[best] if counts[best] else "", float(counts[best] / len(features))
