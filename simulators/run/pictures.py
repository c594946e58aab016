"""The pictures a run leaves beside its numbers: curve, partition, and a map of embeddings with
their prototypes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from protofleet.toolbox.summaries import class_means
from protofleet.values.prototypes import Prototypes
from simulators.run import plots
from simulators.run.result import Outcome


def draw(outcome: Outcome, path: Path) -> None:
    """Into `curve.png`, `partition.png` and `embeddings.png` in this directory."""
    setup, run = outcome.setup, outcome.setup.config.run
    names = [name for name in ("prototype", "head") if name in outcome.rows[-1].accuracy]
    series = {
        name: [(r.round, r.accuracy[name]) for r in outcome.rows if name in r.accuracy]
        for name in names
    }
    title = f"{run.method} on {run.dataset}, {run.agents} devices, {run.partition}"
    plots.curves(series, path / "curve.png", title, "accuracy (mean over devices)")
    counts = setup.partition.table(setup.data.y, len(setup.data.classes))
    plots.partition_picture(counts, setup.data.classes, setup.agents, path / "partition.png")
    points = np.concatenate([z for z, _ in outcome.embedded.values()])
    labels = np.concatenate([y for _, y in outcome.embedded.values()])
    if not len(points):
        return
    # The prototypes that devices were given, where they lie in the space of the embeddings. Methods
    # that send none, or of another level, are drawn with the class means of what is shown.
    shared = [
        p
        for p in outcome.state.shared.values()
        if isinstance(p, Prototypes) and p.dim == points.shape[1]
    ]
    prototypes = shared[0] if shared else class_means(points, labels)
    plots.embedding_map(
        points,
        labels,
        prototypes.vectors,
        prototypes.classes.tolist(),
        setup.data.classes,
        path / "embeddings.png",
    )
