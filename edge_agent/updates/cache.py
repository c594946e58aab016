"""What a device could use last, on disk beside its bundle, and the classes that were enrolled on
it.

Beside a bundle `B` lie `B.state.cbor`, the fleet's newest prototypes, `B.fleet.pfb`, the bundle
that they belong to where it is another one than `B`, and `B.enrolled.cbor`, the device's own
classes. All may be removed at any time.
"""

from __future__ import annotations

import contextlib
from hashlib import sha256
from pathlib import Path

from edge_agent.inference.bundle import Bundle, open_bundle
from edge_agent.inference.classifier import Classifier, Mismatch
from protofleet.errors import WireError
from protofleet.exchange import published
from protofleet.exchange.archive import BundleError
from protofleet.exchange.published import Bank, Published


def state_file(bundle: Path) -> Path:
    """The newest state this device could use."""
    return bundle.with_name(bundle.name + ".state.cbor")


def fleet_file(bundle: Path) -> Path:
    """The bundle that the fleet's channel named, where it is another one."""
    return bundle.with_name(bundle.name + ".fleet.pfb")


def enrolled_file(bundle: Path, lineage: str) -> Path:
    """The classes that were enrolled on this device; those of a second extractor have a file of
    their own.
    """
    first = bundle.with_name(bundle.name + ".enrolled.cbor")
    further = bundle.with_name(
        f"{bundle.name}.enrolled.{sha256(lineage.encode()).hexdigest()[:8]}.cbor"
    )
    # Named by lineage only where the plain name is another's: devices with one extractor, which are
    # most, have the file that the documents name.
    enrolled = read(first)
    of_another = enrolled is not None and enrolled.bank.about.lineage != lineage
    return further if of_another or further.exists() else first


def settled(classifier: Classifier, bundle: Path) -> None:
    """Use the newest state on disk, where it fits, and the classes that were enrolled here."""
    state = read(state_file(bundle))
    if state is None:
        take(classifier, bundle, classifier.bundle.published)
    elif state.bank.about.lineage in classifier.bundle.manifest.lineages:
        take(classifier, bundle, state)
    else:
        _settled_elsewhere(classifier, bundle, state)


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
    local = read(enrolled_file(bundle, bank.about.lineage))
    return bank if local is None else published.joined(bank, local.bank)


def take(classifier: Classifier, bundle: Path, state: Published) -> None:
    """Classify by this state and the classes that were enrolled here and are not in it."""
    classifier.use(with_enrolled(bundle, state.bank), state.digest)


def read(path: Path) -> Published | None:
    try:
        return published.read(path.read_bytes())
    except (OSError, WireError):
        return None  # none yet, or damaged: the bundle has its own
