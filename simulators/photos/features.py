"""What an extractor makes of image files, kept beside them: embedding is what takes long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from edge_agent.data import images
from edge_agent.inference.classifier import Classifier
from protofleet.errors import DataError
from protofleet.util.files import write_whole
from protofleet.values.prototypes import Floats

BLOCK = 64  # photographs at once


def embedder(
    bundle: Path, cache: Path | None, progress: Callable[[int, int], None]
) -> Callable[[Sequence[Path]], Floats]:
    """A function from files to features; with a folder for them, features are made once for the
    same extractor and the same files.
    """
    classifier = Classifier(bundle, threads=0)
    lineage = classifier.bundle.manifest.lineages[0]

    def embed(files: Sequence[Path]) -> Floats:
        path = None if cache is None else cache / f"{_name(lineage, files)}.npy"
        if path is not None and path.exists():
            features: Floats = np.load(path, allow_pickle=False)
            return features
        blocks = []
        for start in range(0, len(files), BLOCK):
            progress(start, len(files))
            some = files[start : start + BLOCK]
            kind = classifier.bundle.manifest.input
            blocks.append(classifier.embed(np.stack([images.read(f, kind) for f in some])))
        features = np.concatenate(blocks).astype(np.float32)
        if path is not None:
            _keep(path, features)
        return features

    return embed


def _name(lineage: str, files: Sequence[Path]) -> str:
    """Of the extractor, and of the files by where they lie, how large and how old they are."""
    hashed = sha256(lineage.encode())
    for file in files:
        try:
            stat = file.stat()
        except OSError as error:
            raise DataError(f"{file}: {error.strerror}") from None
        hashed.update(f"{file.resolve()}:{stat.st_size}:{stat.st_mtime_ns};".encode())
    return hashed.hexdigest()[:32]


def _keep(path: Path, features: Floats) -> None:
    import io

    stored = io.BytesIO()
    np.save(stored, features, allow_pickle=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, stored.getvalue())
