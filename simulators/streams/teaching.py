"""A bundle that knows what is going to be shown, beside it on the disk as a daemon leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from edge_agent.data import files, images
from edge_agent.inference.classifier import Classifier
from edge_agent.updates import cache
from protofleet.errors import DataError
from protofleet.exchange import learned, published
from protofleet.exchange.published import About, Bank
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.statistics.counts import count
from protofleet.statistics.held_out import Samples
from protofleet.util.files import write_whole
from protofleet.values.prototypes import Floats, Head
from protofleet.values.sums import merge_all
from protofleet.wire import Envelope
from simulators.streams.slides import HEIGHT, WIDTH, Slides

EACH = 60  # pictures of a class that are learned from
NOISE = 6.0  # grey levels of made-up ones
SURE = 0.8  # of a photograph that is shown, by the classifier that is going to see it


@dataclass(frozen=True, eq=False)
class Taught:
    """A bundle with classes beside it, and pictures that it knows."""

    bundle: Path
    slides: Slides


@dataclass(frozen=True, eq=False)
class Lessons:
    """What was learned from, and the photographs of each class that were not."""

    names: tuple[str, ...]
    features: Floats
    labels: NDArray[np.int64]
    others: tuple[Sequence[Path], ...]

    @property
    def rest(self) -> tuple[tuple[str, ...], tuple[Sequence[Path], ...]]:
        """Names and photographs side by side."""
        return self.names, self.others


def teach(bundle: Path, features: Floats, labels: NDArray[np.int64], names: Sequence[str]) -> None:
    """What a fleet of one device comes to that has these samples."""
    own = contribution(features, labels, Grid())
    total = merge_all([fold(own, Grid())])
    first, _ = learned.state(total)
    counts = count(learned.moments(first.shared), Samples.of(features, labels, own))
    state, _ = learned.state(total, counts)
    sure = learned.calibration(state.shared)
    lineage = Classifier(bundle).bundle.manifest.lineages[0]
    head = state.shared[learned.HEAD]
    assert isinstance(head, Head)  # what a ledger classifies with
    bank = Bank(About(lineage, tuple(names), calibration=sure), head)
    payload = published.write(bank, Envelope("global", "f", "r", round=1), "float32")
    write_whole(cache.state_file(bundle), payload)


def of_slides(bundle: Path, slides: Slides, seed: int = 0) -> Taught:
    """Of made-up pictures, under noise."""
    classifier, rng = Classifier(bundle), np.random.default_rng(seed)
    kind = classifier.bundle.manifest.input
    features = []
    for picture in slides.pictures:
        noisy = picture + rng.normal(0, NOISE, (EACH, *picture.shape))
        looks = [images.fitted(one, kind) for one in np.clip(noisy, 0, 255).astype(np.uint8)]
        features.append(classifier.embed(np.stack(looks)))
    labels = np.repeat(np.arange(len(features)), EACH)
    teach(bundle, np.concatenate(features), labels, slides.labels)
    return Taught(bundle, slides)


def of_photographs(bundle: Path, folder: Path, seed: int = 0) -> Taught:
    """Of photographs in `<domain>/<class>/`; shown is one of each class that was not learned
    from.
    """
    classifier = Classifier(bundle)
    own = lessons(classifier, folder, EACH, seed)
    teach(bundle, own.features, own.labels, own.names)
    cache.settled(classifier, bundle)
    shown = [_shown(classifier, name, paths) for name, paths in zip(*own.rest, strict=True)]
    return Taught(bundle, Slides(np.stack(shown), own.names))


def lessons(classifier: Classifier, folder: Path, each: int, seed: int) -> Lessons:
    """So many photographs of each class, looked at, and where the others are."""
    rng, kind = np.random.default_rng(seed), classifier.bundle.manifest.input
    every = files.find(folder)
    names = tuple(sorted({file.label for file in every}))
    features, others = [], []
    for name in names:
        paths = [file.path for file in every if file.label == name]
        own = [paths[place] for place in rng.permutation(len(paths)).tolist()]
        looks = [images.fitted(files.picture(path, WIDTH), kind) for path in own[:each]]
        features.append(classifier.embed(np.stack(looks)))
        others.append(own[each:])
    labels = np.concatenate([np.full(len(rows), n) for n, rows in enumerate(features)])
    return Lessons(names, np.concatenate(features), labels, tuple(others))


def _shown(classifier: Classifier, name: str, paths: Sequence[Path]) -> NDArray[np.uint8]:
    """A photograph as the camera shows it, whose class the classifier is sure of: whoever measures
    ages by classes must not measure accuracy.
    """
    kind = classifier.bundle.manifest.input
    for path in paths:
        wide = Image.fromarray(files.picture(path, WIDTH)).resize((WIDTH, HEIGHT))
        picture = np.asarray(wide)
        answer = classifier.look(images.fitted(picture, kind)[None])
        sure = answer.probabilities
        if answer.best[0] == name and sure is not None and sure.max() > SURE:
            return picture
    raise DataError(f"no photograph of {name} is known for sure")
