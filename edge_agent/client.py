"""A bundle in a program of yours, in three lines:

    with Client("camera.pfb", follow="mqtt://broker.local") as client:
        seen = client.predict("photo.jpg")
        print(seen.label, seen.probability, seen.unknown)

It is a `Classifier` that reads files, and that follows a fleet while the block lasts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

# First: it keeps numpy to one thread.
from edge_agent.inference.classifier import Classifier

# isort: split
import numpy as np
from numpy.typing import NDArray

from edge_agent.data import images
from edge_agent.inference.session import Answer
from edge_agent.updates.cache import settled
from edge_agent.updates.listener import Channel, following
from protofleet.member import membership
from protofleet.settings.broker import BrokerSection


@dataclass(frozen=True)
class Prediction:
    """What is seen in one sample: no label where it is unknown or nobody knows a class yet, no
    probability where nobody calibrated the classes' scores.
    """

    label: str | None
    probability: float | None = None
    unknown: bool | None = None
    top: tuple[tuple[str, float], ...] = ()  # all classes with probability or score, best first


class Client:
    """Classifies photos, vectors or series by a bundle. With `follow` it knows what the fleet at
    that broker knows, a moment after the fleet does; `member` is the data directory of a device
    that joined by invitation.
    """

    def __init__(
        self,
        bundle: str | Path,
        *,
        follow: str = "",
        channel: str = "stable",
        fleet: str | None = None,
        member: str | Path = "",
        unknown: bool = True,
        threads: int = 1,
    ) -> None:
        self._bundle = Path(bundle)
        self._classifier = Classifier(self._bundle, threads=threads, unknown=unknown)
        self._stack = ExitStack()
        if follow:
            address = membership.reached(BrokerSection(follow), str(member), os.environ)
            source = Channel(address, channel, fleet)
            self._stack.enter_context(following(self._classifier, self._bundle, source, wait=True))
        else:
            settled(self._classifier, self._bundle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Follow no more."""
        self._stack.close()

    @property
    def classifier(self) -> Classifier:
        """What it asks, for whoever wants scores or features."""
        return self._classifier

    @property
    def classes(self) -> tuple[str, ...]:
        """What it can tell apart just now."""
        return tuple(self._classifier.loaded.labels)

    def predict(self, sample: str | Path | NDArray[Any]) -> Prediction:
        """A file, or an array: an image as height, width and channels in bytes, of any size."""
        return self.predict_all([sample])[0]

    def predict_all(self, samples: Iterable[str | Path | NDArray[Any]]) -> list[Prediction]:
        """Several at once, which costs less each."""
        now = self._classifier.in_use
        kind = now.bundle.manifest.input
        batch = [
            images.read(Path(each), kind)
            if isinstance(each, (str, Path))
            else images.fitted(np.asarray(each), kind)
            for each in samples
        ]
        if not batch:
            return []
        if not now.loaded.labels:
            return [Prediction(None)] * len(batch)
        answer = now.look(np.stack(batch))
        return [_prediction(answer, row) for row in range(len(batch))]


def _prediction(answer: Answer, row: int) -> Prediction:
    unknown = None if answer.unknown is None else bool(answer.unknown[row])
    ranked = tuple(answer.top(row, len(answer.labels)))
    if answer.probabilities is None:
        return Prediction(answer.best[row], None, unknown, ranked)
    shares = dict(zip(answer.labels, answer.probabilities[row].tolist(), strict=True))
    top = tuple((label, shares[label]) for label, _ in ranked)
    return Prediction(answer.best[row], top[0][1], unknown, top)
