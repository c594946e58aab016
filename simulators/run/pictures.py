"""The pictures a run leaves beside its numbers: curve, partition, and a map of embeddings with
their prototypes.
"""

from __future__ import annotations

from pathlib import Path

from simulators.run import plots
from simulators.run.maps import EmbeddedSamples
from simulators.run.result import Outcome


def draw(outcome: Outcome, path: Path) -> None:
    """Into `curve.png`, `partition.png` and `embeddings.png` in this directory; what the last shows
    stays beside it as numbers.
    """
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
    samples = EmbeddedSamples.of(outcome)
    if samples is None:
        return
    samples.write(path)
    plots.embedding_map(
        samples.points,
        samples.labels,
        samples.stars,
        samples.star_classes.tolist(),
        setup.data.classes,
        path / "embeddings.png",
    )
