"""Some test samples of a run as its networks see them, beside the prototypes they are drawn with:
kept as a small file, so that they can be laid out in the plane when the run's weights are gone.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from protofleet.toolbox.summaries import class_means
from protofleet.values.prototypes import Floats, Ints, Prototypes
from simulators.run.result import Outcome

FILE = "embeddings.npz"
PERPLEXITY = 30  # of van der Maaten and Hinton's 5 to 50; fewer where there are few samples


@dataclass(frozen=True, eq=False)
class EmbeddedSamples:
    """Embeddings with their labels, prototypes with their classes, and the classes' names."""

    points: Floats  # n × d
    labels: Ints
    stars: Floats  # m × d
    star_classes: Ints
    classes: tuple[str, ...]

    @classmethod
    def of(cls, outcome: Outcome) -> EmbeddedSamples | None:
        """Of a run that has just ended; None where it looked at no samples."""
        points = np.concatenate([z for z, _ in outcome.embedded.values()])
        labels = np.concatenate([y for _, y in outcome.embedded.values()])
        if not len(points):
            return None
        # The prototypes that devices were given, where they lie in the space of the embeddings.
        # Methods that send none, or of another level, are drawn with the means of what is shown.
        shared = [
            p
            for p in outcome.state.shared.values()
            if isinstance(p, Prototypes) and p.dim == points.shape[1]
        ]
        stars = shared[0] if shared else class_means(points, labels)
        classes = tuple(outcome.setup.data.classes)
        return cls(points, labels, stars.vectors, stars.classes, classes)

    def write(self, folder: Path) -> None:
        """Keep them beside the run's result."""
        np.savez_compressed(
            folder / FILE,
            points=self.points.astype(np.float32),
            labels=self.labels,
            stars=self.stars.astype(np.float32),
            star_classes=self.star_classes,
            classes=np.array(self.classes),
        )

    @classmethod
    def read(cls, folder: Path) -> EmbeddedSamples | None:
        """Those of a run; None where there are none that can be read."""
        try:
            with np.load(folder / FILE, allow_pickle=False) as there:
                arrays = {name: there[name] for name in there.files}
            return cls(**{**arrays, "classes": tuple(map(str, arrays["classes"]))})
        except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
            return None

    def flat(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Points and stars in the plane by t-SNE, laid out together; always the same."""
        from sklearn.manifold import TSNE

        together = np.concatenate([self.points, self.stars]).astype(np.float32)
        perplexity = min(PERPLEXITY, (len(together) - 1) / 3)
        layout = TSNE(perplexity=perplexity, init="pca", random_state=0)
        plane = layout.fit_transform(together).astype(np.float32)
        return plane[: len(self.points)], plane[len(self.points) :]
