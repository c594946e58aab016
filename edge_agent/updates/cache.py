"""What a device could use last, on disk beside its bundle, and the classes that were enrolled on
it.

Beside a bundle `B` lie `B.state.cbor`, the fleet's newest classes, `B.fleet.pfb`, the bundle
that they belong to where it is another one than `B`, `B.total.cbor`, the sums that they were made
of, once somebody fetched them, and the folder `B.enrolled`, the device's own classes. All may be
removed at any time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from edge_agent.inference.bundle import Bundle, open_bundle
from edge_agent.inference.classifier import Classifier, Mismatch
from protofleet.errors import FusionError, WireError
from protofleet.exchange import archive, contributed, published
from protofleet.exchange.archive import BundleError
from protofleet.exchange.contributed import Claim, Contributed
from protofleet.exchange.published import About, Bank, Published
from protofleet.statistics.addition import with_class
from protofleet.statistics.closed_form import Moments
from protofleet.statistics.contribution import Contribution
from protofleet.values.prototypes import Head, Prototypes

DAEMON = "fleet.pfb"  # what a daemon calls the bundle in its directory


@dataclass(frozen=True, eq=False)
class EnrolledClass:
    """A class of this device's own: what its photos say, and the message that says it."""

    contributed: Contributed
    message: bytes

    @property
    def label(self) -> str:
        """What its owner calls it."""
        return self.contributed.claim.classes[0]

    @property
    def contribution(self) -> Contribution:
        """Its mean, and how its photos lie about it."""
        return self.contributed.contribution

    @property
    def photos(self) -> int:
        """How many there were."""
        return self.contribution.samples


def state_file(bundle: Path) -> Path:
    """The newest state this device could use."""
    return bundle.with_name(bundle.name + ".state.cbor")


def fleet_file(bundle: Path) -> Path:
    """The bundle that the fleet's channel named, where it is another one."""
    return bundle.with_name(bundle.name + ".fleet.pfb")


def total_file(bundle: Path) -> Path:
    """The fleet's sums, as they were fetched last."""
    return bundle.with_name(bundle.name + ".total.cbor")


def enrolled_folder(bundle: Path) -> Path:
    """The classes that were enrolled here, a file each."""
    return bundle.with_name(bundle.name + ".enrolled")


def recent_folder(bundle: Path) -> Path:
    """What was seen here last: pictures to ask about, and a few means."""
    return bundle.with_name(bundle.name + ".recent")


def answers_folder(bundle: Path) -> Path:
    """What cameras showed and could not be said yet."""
    return bundle.with_name(bundle.name + ".answers")


def enrolled_file(bundle: Path, lineage: str, label: str) -> Path:
    """One of them: a class of one extractor says nothing to another one."""
    name = sha256(f"{lineage}\n{label}".encode()).hexdigest()[:32]
    return enrolled_folder(bundle) / f"{name}.cbor"


def enrolled_stamp(bundle: Path) -> int:
    """A number that changes when a class is enrolled or forgotten; 0 before the first."""
    try:
        return enrolled_folder(bundle).stat().st_mtime_ns
    except OSError:
        return 0


def enrolled(bundle: Path, lineage: str) -> list[EnrolledClass]:
    """The classes that were enrolled here with this extractor, by name."""
    classes = []
    for path in sorted(enrolled_folder(bundle).glob("*.cbor")):
        with contextlib.suppress(OSError, WireError):
            payload = path.read_bytes()
            message = contributed.read(payload)
            if isinstance(message, Contributed) and message.claim.lineage == lineage:
                classes.append(EnrolledClass(message, payload))
    return sorted(classes, key=lambda entry: entry.label)


def settled(classifier: Classifier, bundle: Path) -> None:
    """Use the newest state on disk, where it fits, and the classes that were enrolled here; and the
    bundle itself, where a daemon put another one in its place.
    """
    state = read(state_file(bundle))
    if _replaced(classifier, bundle, state):
        return
    if state is None:
        take(classifier, bundle, classifier.bundle.published)
    elif state.bank.about.lineage in classifier.bundle.manifest.lineages:
        take(classifier, bundle, state)
    else:
        _settled_elsewhere(classifier, bundle, state)


def _replaced(classifier: Classifier, bundle: Path, state: Published | None) -> bool:
    """Whether there is another bundle in this one's place: then it is in use."""
    if archive.name_of(bundle) in ("", classifier.bundle.digest):
        return False
    with contextlib.suppress(BundleError, Mismatch):
        other = open_bundle(bundle)
        if state is None:
            classifier.change(other)
            return True
        if state.bank.about.lineage in other.manifest.lineages:
            classifier.change(other, with_enrolled(bundle, state.bank), state.digest)
            return True
    return False


def _settled_elsewhere(classifier: Classifier, bundle: Path, state: Published) -> None:
    other = fitting(bundle, state.bank.about.lineage)
    # A bundle that is no longer what it was when it was fetched is no reason not to start: the one
    # that was asked for serves, and the fleet, once it is heard, says more.
    with contextlib.suppress(BundleError, Mismatch):
        if other is not None:
            classifier.change(other, with_enrolled(bundle, state.bank), state.digest)
            return
    take(classifier, bundle, classifier.bundle.published)


def fitting(bundle: Path, lineage: str) -> Bundle | None:
    """Which of the bundles on disk prototypes of this lineage are for."""
    for path in (bundle, fleet_file(bundle)):
        try:
            candidate = open_bundle(path)
        except BundleError:
            continue
        if lineage in candidate.manifest.lineages:
            return candidate
    return None


def with_enrolled(bundle: Path, bank: Bank) -> Bank:
    """The bank, and the classes that were enrolled here and are not in it."""
    present = {bank.about.classes[int(c)] for c in np.unique(bank.points.classes)}
    classes = [c for c in enrolled(bundle, bank.about.lineage) if c.label not in present]
    if not classes:
        return bank
    if isinstance(bank.points, Prototypes):
        for own in classes:
            points = Prototypes(np.array([0]), own.contribution.means.vectors)
            bank = published.joined(bank, Bank(About(bank.about.lineage, (own.label,)), points))
        return bank
    of = total(bundle, bank)
    if of is None or not isinstance(bank.points, Head):
        return bank  # of a head's classes nothing but rows is here: there is no telling a new one's
    return _more_rows(bank, bank.points, of, classes)


def total(bundle: Path, bank: Bank) -> tuple[Claim, Moments] | None:
    """The fleet's sums under this extractor, if they were fetched."""
    points = bank.points
    width = points.weight.shape[1] if isinstance(points, Head) else points.dim
    try:
        claim, moments = contributed.read_total(total_file(bundle).read_bytes(), width)
    except (OSError, WireError):
        return None
    return (claim, moments) if claim.lineage == bank.about.lineage else None


def _more_rows(
    bank: Bank, head: Head, of: tuple[Claim, Moments], classes: Sequence[EnrolledClass]
) -> Bank:
    names, sure, moments = bank.about.classes, bank.about.calibration, of[1]
    if sure is None:
        return bank
    for own in classes:
        if own.label not in names:
            names = (*names, own.label)
        try:
            head = with_class(head, sure, moments, own.contribution, names.index(own.label))
        except FusionError:
            continue  # a head or a total of other features
    return Bank(replace(bank.about, classes=names), head)


def take(classifier: Classifier, bundle: Path, state: Published) -> None:
    """Classify by this state and the classes that were enrolled here and are not in it."""
    classifier.use(with_enrolled(bundle, state.bank), state.digest)


def read(path: Path) -> Published | None:
    try:
        return published.read(path.read_bytes())
    except (OSError, WireError):
        return None  # none yet, or damaged: the bundle has its own
