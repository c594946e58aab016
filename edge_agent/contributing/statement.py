"""What a device says under one extractor, made of its samples and left on disk for whoever sends
it: its contribution, and its counts against a total.
"""

# Theory of operation
#
# Beside a bundle `B` lies the folder `B.contributed/<lineage>/`:
#
#   features.bin       every sample's feature (`features`); what is in it is not embedded again
#   spoken.json        with which samples each class is said (`rules`), and under which settings;
#                      and with which one was said that is left out since its owner took one back
#   back.json          samples that were said and that their owner took back
#   labelled.json      how many samples of each class there are, said or not: this device's prior
#   contribution.cbor  the message; written only when what is said has changed. Where its owner took
#                      back all that there was, a withdrawal
#   total.cbor         the newest total that was fetched, against which samples are counted
#   counts.cbor        the message with the counts
#   forecast.json      what counting told of each class, for the device's own page (`forecast`)
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
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
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
from protofleet.statistics.closed_form import SHRINKAGE
from protofleet.statistics.contribution import RANK, Contribution, Grid, contribution
from protofleet.statistics.counts import Counts
from protofleet.statistics.forecast import ClassForecast, forecast
from protofleet.statistics.held_out import Samples
from protofleet.util.files import OWN_FILE, write_whole
from protofleet.values.prototypes import Floats, Ints
from protofleet.wire import Envelope

Embed = Callable[[NDArray[Any]], Floats]  # images to features

_SPOKEN, CONTRIBUTION, COUNTS = "spoken.json", "contribution.cbor", "counts.cbor"
_LABELLED, _BACK = "labelled.json", "back.json"
FORECAST = "forecast.json"


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


def take_back(bundle: Path, keys: Collection[str]) -> None:
    """The owner takes these samples back: where they were said, their class is left out."""
    for folder in bundle.with_name(bundle.name + ".contributed").glob("*"):
        classes, withheld, _ = _said(folder)
        said = {key for of_class in (*classes.values(), *withheld.values()) for key in of_class}
        back = _taken_back(folder)
        if fresh := said & set(keys) - back:
            document = json.dumps(sorted((back & said) | fresh)).encode()
            write_whole(folder / _BACK, document, mode=OWN_FILE)


def forecasts(folder: Path) -> dict[str, Any]:
    """What counting left for the owner to see; empty before that."""
    try:
        document = json.loads((folder / FORECAST).read_text())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


class Statement:
    """Everything that a device says under a bundle's extractor."""

    def __init__(self, path: Path, bundle: Bundle, *, now: Callable[[], float] = time.time) -> None:
        self.lineage = bundle.manifest.lineages[0]
        self.folder = folder_of(path, self.lineage)
        self._width, self._drift = bundle.manifest.embedding, bundle.arrays(DRIFT)
        self._now = now

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

    def seen(self, samples: Iterable[LabelledSample]) -> tuple[Floats, list[str]]:
        """The features of those that have one, and what each is called."""
        cache = self._cache
        now, _ = _keys(samples, cache)
        if not now:
            return np.zeros((0, self._width), np.float32), []
        features, places = self._features(cache, now)
        names = list(now)
        return features, [names[place] for place in places]

    def speak(
        self, samples: Iterable[LabelledSample], settings: SpeechSettings, speaker: Speaker
    ) -> Spoken:
        """Write the message of all that have features, if it has changed."""
        cache, (before, withheld, terms) = self._cache, self._spoken()
        now, broken = _keys(samples, cache)
        said, back = {**withheld, **before}, _taken_back(self.folder)
        earlier = {name: keys for name, keys in said.items() if all(k in cache for k in keys)}
        spoken = to_say(now, earlier, settings.rules, back)
        short = {name: len(keys) for name, keys in now.items() if name not in spoken}
        held_back = {n: k for n, k in earlier.items() if n not in spoken and back & set(k)}
        used = (*now.values(), *spoken.values(), *held_back.values())
        cache.tidy({key for keys in used for key in keys})
        self._note_labelled({name: len(keys) for name, keys in now.items()})
        even = settings.covariance == "off"
        how = settings.covariance if even else settings.rank
        now_terms = [speaker.fleet, speaker.agent, speaker.run, how]
        # Of nothing at all is spoken once: where something was said before.
        new = (spoken != before or terms != now_terms) if spoken else bool(before)
        if new and not spoken:
            message = contributed.write_withdrawal(
                Claim(self.lineage), speaker.envelope(contributed.WITHDRAW)
            )
            write_whole(self.contribution, message, mode=OWN_FILE)
        elif new:
            features, labels = self._features(cache, spoken)
            rank, grid = 0 if even else settings.rank, Grid.fitting(features)
            own = contribution(features, labels, grid, rank)
            own = own.even() if even else own
            claim = Claim(self.lineage, tuple(spoken))
            message = contributed.write_contribution(claim, own, speaker.envelope(CONTRIBUTE))
            # First the message: with the record alone nothing would ever be said again.
            write_whole(self.contribution, message, mode=OWN_FILE)
        document = {"terms": now_terms if new else terms, "classes": spoken, "withheld": held_back}
        if new or held_back != withheld:
            write_whole(self.folder / _SPOKEN, json.dumps(document).encode(), mode=OWN_FILE)
        samples_spoken = sum(map(len, spoken.values()))
        return Spoken(samples_spoken, tuple(spoken), short, tuple(broken), new)

    def count(self, payload: bytes, speaker: Speaker) -> str:
        """Count the samples that were said against this total, and say which one it is."""
        claim, moments = contributed.read_total(payload, self._width)
        if claim.lineage != self.lineage:
            raise DataError("the fleet's total is of another extractor")
        spoken, _, _ = self._spoken()
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
        self._note_forecast(claim, forecast(moments, own, _shrinkage(answer)))
        about = Claim(self.lineage, total=claim.total)
        payload = contributed.write_counts(about, answer, speaker.envelope(COUNT))
        write_whole(self.counts, payload, mode=OWN_FILE)
        return claim.total

    def _note_labelled(self, counts: Mapping[str, int]) -> None:
        if counts != labelled(self.folder):
            write_whole(self.folder / _LABELLED, json.dumps(counts).encode(), mode=OWN_FILE)

    def _note_forecast(self, claim: Claim, classes: Sequence[ClassForecast]) -> None:
        """For the owner alone: it goes nowhere."""
        rows = {claim.classes[one.label]: asdict(one) for one in classes}
        document = {"at": self._now(), "total": claim.total, "classes": rows}
        write_whole(self.folder / FORECAST, json.dumps(document).encode(), mode=OWN_FILE)

    def _samples(self, spoken: Mapping[str, Keys], ids: Ints, own: Contribution) -> Samples:
        """All that is said, under the class ids of a total."""
        features, labels = self._features(self._cache, spoken)
        return Samples.of(features, ids[labels], own.keyed(ids))

    def _features(self, cache: FeatureCache, spoken: Mapping[str, Keys]) -> tuple[Floats, Ints]:
        """Features of all that is said, and the place of each one's class among the names."""
        keys = [key for of_class in spoken.values() for key in of_class]
        counts = np.array([len(of_class) for of_class in spoken.values()], np.int64)
        labels = np.repeat(np.arange(len(spoken)), counts)
        drift = drift_of(list(spoken), self._drift)
        rows = cache.of(keys)
        return (rows - drift[labels] if self._drift else rows), labels.astype(np.int64)

    def _spoken(self) -> tuple[dict[str, Keys], dict[str, Keys], list[Any]]:
        """With which samples each class was said, those that are left out, and by whom, to whom
        and how.
        """
        return _said(self.folder)


def _shrinkage(of: Counts) -> float:
    """By which the device's own samples are told best."""
    choice = of.choice
    return SHRINKAGE[-1] if choice is None else choice.shrinkage


def _said(folder: Path) -> tuple[dict[str, Keys], dict[str, Keys], list[Any]]:
    try:
        document = json.loads((folder / _SPOKEN).read_text())
        if not (folder / CONTRIBUTION).exists():
            return {}, {}, []
    except (OSError, ValueError):
        return {}, {}, []
    classes, withheld = (
        {str(name): tuple(keys) for name, keys in document.get(part, {}).items()}
        for part in ("classes", "withheld")
    )
    return classes, withheld, document["terms"]


def _taken_back(folder: Path) -> frozenset[str]:
    try:
        return frozenset(map(str, json.loads((folder / _BACK).read_text())))
    except (OSError, ValueError, TypeError):
        return frozenset()


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
