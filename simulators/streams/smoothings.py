"""Ways to make one answer of several frames, side by side on photographs."""

# Theory of operation
#
# A photograph that nobody learned from is a scene; its frames are crops of it, as a hand or the
# wind moves a camera, lighter and darker, and a share of them is spoilt (a hand before the lens:
# half of the picture is grey). Frames of one scene are not independent, and neither are these. Of
# each way the share of scenes is measured whose answer is right, made of the same frames.

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_agent.cameras.smoothing import FLOOR
from edge_agent.data import files, images
from edge_agent.inference.classifier import Classifier
from edge_agent.updates import cache
from simulators.streams.slides import WIDTH
from simulators.streams.teaching import Lessons, lessons, teach

Shares = NDArray[np.float64]  # [scenes, frames, classes]
FRAMES = 5  # of a scene
SPOILT = 0.2  # share of frames
SCENES = 20  # of each class

WAYS: Mapping[str, Callable[[Shares], NDArray[np.int64]]] = {
    "the first frame": lambda p: p[:, 0].argmax(1),
    "votes": lambda p: np.eye(p.shape[2])[p.argmax(2)].sum(1).argmax(1),
    "mean of p": lambda p: p.mean(1).argmax(1),
    "mean of ln p, no floor": lambda p: np.log(np.maximum(p, 1e-12)).mean(1).argmax(1),
    "mean of ln p, floor 0.001": lambda p: np.log(np.maximum(p, 1e-3)).mean(1).argmax(1),
    f"mean of ln p, floor {FLOOR}": lambda p: np.log(np.maximum(p, FLOOR)).mean(1).argmax(1),
    "mean of ln p, floor 0.1": lambda p: np.log(np.maximum(p, 0.1)).mean(1).argmax(1),
}


def frame_of(picture: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """One look at a scene."""
    height, width = picture.shape[:2]
    share = rng.uniform(0.5, 1.0)
    rows, columns = max(8, int(share * height)), max(8, int(share * width))
    top, across = rng.integers(0, height - rows + 1), rng.integers(0, width - columns + 1)
    view = picture[top : top + rows, across : across + columns].astype(np.float64)
    view = view * rng.uniform(0.5, 1.3) + rng.normal(0, 8, view.shape)
    if rng.random() < SPOILT:
        view[:, : columns // 2] = 128
    return np.clip(view, 0, 255).astype(np.uint8)


def compared(bundle: Path, folder: Path, each: int, seeds: int) -> dict[str, list[float]]:
    """The share of scenes that each way answers right, a seed after the other, where so many
    photographs of a class were learned from.
    """
    shares: dict[str, list[float]] = {way: [] for way in WAYS}
    for seed in range(seeds):
        own = lessons(Classifier(bundle), folder, each, seed)
        teach(bundle, own.features, own.labels, own.names)
        looks, labels = _looks(bundle, own, np.random.default_rng(seed))
        for way, answer in WAYS.items():
            shares[way].append(float(np.mean(answer(looks) == labels)))
    return shares


def _looks(
    bundle: Path, own: Lessons, rng: np.random.Generator
) -> tuple[Shares, NDArray[np.int64]]:
    classifier = Classifier(bundle)
    cache.settled(classifier, bundle)
    kind, looks, labels = classifier.bundle.manifest.input, [], []
    for number, paths in enumerate(own.others):
        for path in paths[:SCENES]:
            picture = files.picture(path, WIDTH)
            views = [images.fitted(frame_of(picture, rng), kind) for _ in range(FRAMES)]
            answer = classifier.look(np.stack(views))
            assert answer.probabilities is not None  # a fleet's sums say how sure they are
            looks.append(answer.probabilities)
            labels.append(number)
    return np.stack(looks), np.array(labels)
