"""What a device says under one extractor, made of its samples and left on disk for whoever sends
it: its contribution, and its counts against a total.
"""

# Theory of operation
#
# Beside a bundle `B` lies the folder `B.contributed/<lineage>/`:
#
#   features.bin       every sample's feature (`features`); what is in it is not embedded again
#   spoken.json        with which samples each class is said (`rules`), and under which settings
#   labelled.json      how many samples of each class there are, said or not: this device's prior
#   contribution.cbor  the message; written only when what is said has changed
#   total.cbor         the newest total that was fetched, against which samples are counted
#   counts.cbor        the message with the counts
#
# A message is a function of features and settings, and has no time, number or boot in its envelope:
# the same samples give the same bytes, so whoever sends it can tell by its digest whether the
# coordinator has it, and nothing is said again when nothing has changed.
#
# Samples go into the sums class by class, in the order of their folder, which is the order that the
# laboratory reads them in. Sums of floats depend on it in their last bits, and what travels is
# rounded to grids far coarser than that.
#
# Features of a quantised extractor are shared as the float one would see them (its bundle's drift,
# by class): all devices of a lineage add up, whichever precision each runs.

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edge_agent.contributing.features import FeatureCache
from edge_agent.contributing.rules import Keys, SpeechRules, to_say
from edge_agent.data.labelled import LabelledSample
from edge_agent.inference.bundle import DRIFT, Bundle
from edge_agent.inference.inputs import drift_of
from protofleet.errors import DataError
from protofleet.exchange import contributed
from protofleet.exchange.contributed import CONTRIBUTE, COUNT, Claim
from protofleet.statistics import counts
from protofleet.statistics.contribution import RANK, Contribution, Grid, contribution
from protofleet.statistics.held_out import Samples
from protofleet.util.files import OWN_FILE, write_whole
from protofleet.values.prototypes import Floats, Ints
from protofleet.wire import Envelope

Embed = Callable[[NDArray[Any]], Floats]  # images to features

_SPOKEN, CONTRIBUTION, COUNTS = "spoken.json", "contribution.cbor", "counts.cbor"
_LABELLED = "labelled.json"


@dataclass(frozen=True)
class Speaker:
    """Who says it, and to whom."""

    fleet: str
    agent: str
    run: str = ""

    def envelope(self, method: str) -> Envelope:
        """Nothing that changes from one time to the next."""
        return Envelope("enrol", self.fleet, self.run or None, agent=self.agent, method=method)


@dataclass(frozen=True)
class SpeechSettings:
    """How much is said of samples, and when."""

    rules: SpeechRules = field(default_factory=SpeechRules)
    rank: int = RANK
    covariance: Literal["open", "off"] = "open"


@dataclass(frozen=True)
class Spoken:
    """What came of reading the samples, for the owner to know."""

    samples: int
    classes: tuple[str, ...]
    short: Mapping[str, int]  # samples of classes that have too few
    broken: tuple[str, ...]
    new: bool  # whether there is a new message


def folder_of(bundle: Path, lineage: str) -> Path:
    """Where all of it lies."""
    name = sha256(lineage.encode()).hexdigest()[:16]
    return bundle.with_name(bundle.name + ".contributed") / name


def labelled(folder: Path) -> dict[str, int]:
    """How many samples of each class a device has, by the folder above; none before it was
    asked what it says.
    """
    try:
        document = json.loads((folder / _LABELLED).read_text())
        return {str(name): int(count) for name, count in document.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


class Statement:
    """Everything that a device says under a bundle's extractor."""

    def __init__(self, path: Path, bundle: Bundle) -> None:
        self.lineage = bundle.manifest.lineages[0]
        self.folder = folder_of(path, self.lineage)
        self._width, self._drift = bundle.manifest.embedding, bundle.arrays(DRIFT)

    @property
    def _cache(self) -> FeatureCache:
        return FeatureCache(self.folder / "features.bin", self._width)

    @property
    def contribution(self) -> Path:
        """The message."""
        return self.folder / CONTRIBUTION

    @property
    def counts(self) -> Path:
        """The message."""
        return self.folder / COUNTS

    def lacks(self, samples: Iterable[LabelledSample]) -> bool:
        """Whether any of them has no feature yet."""
        cache = self._cache
        return any(sample.key not in cache for sample in samples)

    def embed(self, samples: Iterable[LabelledSample], embed: Embed) -> None:
        """Look at those that have no feature yet; what cannot be read has none."""
        cache = self._cache
        for sample in samples:
            if sample.key in cache:
                continue
            with suppress(DataError):
                # One by one: in a block, a feature's last bits would depend on its neighbours.
                cache.add(sample.key, embed(sample.read()[None])[0])

    def speak(
        self, samples: Iterable[LabelledSample], settings: SpeechSettings, speaker: Speaker
    ) -> Spoken:
        """Write the message of all that have features, if it has changed."""
        cache, (before, terms) = self._cache, self._spoken()
        now, broken = _keys(samples, cache)
        earlier = {name: keys for name, keys in before.items() if all(k in cache for k in keys)}
        spoken = to_say(now, earlier, settings.rules)
        short = {name: len(keys) for name, keys in now.items() if name not in spoken}
        cache.tidy({key for keys in (*now.values(), *spoken.values()) for key in keys})
        self._note_labelled({name: len(keys) for name, keys in now.items()})
        even = settings.covariance == "off"
        how = settings.covariance if even else settings.rank
        now_terms = [speaker.fleet, speaker.agent, speaker.run, how]
        new = bool(spoken) and (spoken != before or terms != now_terms)
        if new:
            features, labels = self._features(cache, spoken)
            rank, grid = 0 if even else settings.rank, Grid.fitting(features)
            own = contribution(features, labels, grid, rank)
            own = own.even() if even else own
            claim = Claim(self.lineage, tuple(spoken))
            message = contributed.write_contribution(claim, own, speaker.envelope(CONTRIBUTE))
            # First the message: with the record alone nothing would ever be said again.
            write_whole(self.contribution, message, mode=OWN_FILE)
            document = {"terms": now_terms, "classes": spoken}
            write_whole(self.folder / _SPOKEN, json.dumps(document).encode(), mode=OWN_FILE)
        samples_spoken = sum(map(len, spoken.values()))
        return Spoken(samples_spoken, tuple(spoken), short, tuple(broken), new)

    def count(self, payload: bytes, speaker: Speaker) -> str:
        """Count the samples that were said against this total, and say which one it is."""
        claim, moments = contributed.read_total(payload, self._width)
        if claim.lineage != self.lineage:
            raise DataError("the fleet's total is of another extractor")
        spoken, _ = self._spoken()
        if not spoken:
            raise DataError("nothing was contributed yet that could be counted")
        message = contributed.read(self.contribution.read_bytes())
        assert isinstance(message, contributed.Contributed)  # `speak` writes nothing else
        names = message.claim.classes
        if not all(name in claim.classes for name in names):
            raise DataError("the fleet's total does not have this device's samples yet")
        ids = np.array([claim.classes.index(name) for name in names], np.int64)
        own = self._samples(spoken, ids, message.contribution)
        answer = counts.count(moments, own)
        about = Claim(self.lineage, total=claim.total)
        payload = contributed.write_counts(about, answer, speaker.envelope(COUNT))
        write_whole(self.counts, payload, mode=OWN_FILE)
        return claim.total

    def _note_labelled(self, counts: Mapping[str, int]) -> None:
        if counts != labelled(self.folder):
            write_whole(self.folder / _LABELLED, json.dumps(counts).encode(), mode=OWN_FILE)

    def _samples(self, spoken: Mapping[str, Keys], ids: Ints, own: Contribution) -> Samples:
        """All that is said, under the class ids of a total."""
        features, labels = self._features(self._cache, spoken)
        return Samples.of(features, ids[labels], own.keyed(ids))

    def _features(self, cache: FeatureCache, spoken: Mapping[str, Keys]) -> tuple[Floats, Ints]:
        """Features of all that is said, and the place of each one's class among the names."""
        keys = [key for of_class in spoken.values() for key in of_class]
        labels = np.repeat(np.arange(len(spoken)), [len(of_class) for of_class in spoken.values()])
        drift = drift_of(list(spoken), self._drift)
        rows = cache.of(keys)
        return (rows - drift[labels] if self._drift else rows), labels.astype(np.int64)

    def _spoken(self) -> tuple[dict[str, Keys], list[Any]]:
        """With which samples each class was said, and by whom, to whom and how."""
        try:
            document = json.loads((self.folder / _SPOKEN).read_text())
            if not self.contribution.exists():
                return {}, []
        except (OSError, ValueError):
            return {}, []
        classes = {str(name): tuple(keys) for name, keys in document["classes"].items()}
        return classes, document["terms"]


def _keys(
    samples: Iterable[LabelledSample], cache: FeatureCache
) -> tuple[dict[str, Keys], list[str]]:
    """The samples of each class that have a feature, and why others have none."""
    now: dict[str, list[str]] = {}
    broken = []
    for sample in samples:
        if sample.key in cache:
            now.setdefault(sample.label, []).append(sample.key)
            continue
        try:
            sample.read()
        except DataError as error:
            broken.append(error.words)
    return {name: tuple(keys) for name, keys in now.items()}, broken
