"""`edge-agent unknowns`: what this device saw and knew no class for, put together by likeness."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from edge_agent.cli.infer_cmd import bundle_option
from protofleet.errors import FleetError

SHOWN = 3  # pictures a cluster


@click.command()
@bundle_option
@click.option("--clear", is_flag=True, help="Forget all of it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def unknowns(bundle: Path, clear: bool, as_json: bool) -> None:
    """List clusters of unknown things that `edge-agent infer --watch` saw with this BUNDLE.

    The pictures named are small copies on this device. `edge-agent enroll --cluster 1 NAME` makes
    the first cluster a class.
    """
    # Before all that imports numpy: it keeps that to one thread.
    from edge_agent.inference.classifier import Classifier  # noqa: F401, I001
    from edge_agent.inference.bundle import open_bundle
    from edge_agent.unknowns import grouping
    from edge_agent.unknowns.ring import UnknownRing
    from edge_agent.updates import cache

    opened = open_bundle(bundle)
    manifest, lineage = opened.manifest, opened.manifest.lineages[0]
    ring = UnknownRing(bundle, lineage, manifest.embedding)
    if clear:
        ring.forget(ring.keys)
    keys = ring.keys
    state = cache.read(cache.state_file(bundle)) or opened.published
    clusters: list[list[str]] = []
    if len(keys) >= grouping.LEAST:
        labels = grouping.clustered(_cosines(bundle, state.bank, ring))
        clusters = [
            [key for key, label in zip(keys, labels, strict=True) if label == number]
            for number in range(labels.max(initial=-1) + 1)
        ]
    ring.list_clusters(clusters)
    document: dict[str, Any] = {
        "unknown": len(keys),
        "clusters": [
            {
                "number": number,
                "things": len(cluster),
                "pictures": [str(ring.picture(key)) for key in cluster],
            }
            for number, cluster in enumerate(clusters, 1)
        ],
    }
    click.echo(json.dumps(document, indent=1) if as_json else _table(document))


def _cosines(bundle: Path, bank: Any, ring: Any) -> Any:
    """How alike they are, in the space that the fleet's sums make."""
    from edge_agent.unknowns import grouping
    from edge_agent.updates import cache
    from protofleet.values.prototypes import Head

    total = cache.total(bundle, bank)
    if total is None or not isinstance(bank.points, Head):
        raise FleetError(
            "what is alike is told by the fleet's sums, which are not on this device",
            "a running edge-agent fetches them by itself",
        )
    choice = bank.about.calibration
    return grouping.cosines(ring.features(ring.keys), total[1], choice.shrinkage)


def _table(document: dict[str, Any]) -> str:
    """A line a cluster, and its first pictures."""
    count = document["unknown"]
    if not count:
        return "nothing unknown was kept; `edge-agent infer --watch FOLDER` keeps it"
    lines = []
    for cluster in document["clusters"]:
        pictures = " ".join(cluster["pictures"][:SHOWN])
        lines.append(f"{cluster['number']}: {cluster['things']} things  {pictures}")
    alone = count - sum(cluster["things"] for cluster in document["clusters"])
    return "\n".join([*lines, f"{alone} alone"])
