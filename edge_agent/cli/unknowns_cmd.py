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

    The pictures named are copies on this device. `edge-agent enroll --cluster 1 NAME` makes
    the first cluster a class.
    """
    # Before all that imports numpy: it keeps that to one thread.
    from edge_agent.inference.classifier import Classifier  # noqa: F401, I001
    from edge_agent.inference.bundle import open_bundle
    from edge_agent.recent import grouping
    from edge_agent.recent.queue import RecentQueue
    from edge_agent.updates import cache

    opened, queue = open_bundle(bundle), RecentQueue(bundle)
    manifest, lineage = opened.manifest, opened.manifest.lineages[0]
    waiting = [row.key for row in queue.pictures("waiting") if row.unknown]
    if clear:
        queue.forget(waiting)
        waiting = []
    features = queue.features(lineage, manifest.embedding, waiting)
    keys = [key for key in waiting if key in features]
    state = cache.read(cache.state_file(bundle)) or opened.published
    clusters: list[list[str]] = []
    if len(keys) >= grouping.LEAST:
        cosine = grouping.by_sums(bundle, state.bank, [features[key] for key in keys])
        if cosine is None:
            raise FleetError(
                "what is alike is told by the fleet's sums, which are not on this device",
                "a running edge-agent fetches them by itself",
            )
        clusters = grouping.clusters(keys, grouping.clustered(cosine))
    queue.list_clusters(clusters)
    document: dict[str, Any] = {
        "unknown": len(keys),
        "clusters": [
            {
                "number": number,
                "things": len(cluster),
                "pictures": [str(queue.picture(key)) for key in cluster],
            }
            for number, cluster in enumerate(clusters, 1)
        ],
    }
    click.echo(json.dumps(document, indent=1) if as_json else _table(document))


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
