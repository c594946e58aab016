"""`edge-agent enroll` and `edge-agent forget`: classes of this device's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edge_agent.cli.infer_cmd import broker_options, bundle_option, fleet_option
from protofleet.errors import FleetError, UsageError

if TYPE_CHECKING:
    from edge_agent.cli.infer_cmd import Reach


@click.command()
@click.argument("photos", nargs=-1, required=True, type=click.Path(path_type=Path))
@bundle_option
@click.option("--label", required=True, help="What the photos show.")
@click.option(
    "--offer", "url", metavar="URL", help="Offer it to the fleet at this broker (mqtt://host)."
)
@click.option("--id", "agent", help="This device's name in the fleet; by default its host name.")
@fleet_option
@broker_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def enroll(
    photos: tuple[Path, ...],
    bundle: Path,
    label: str,
    url: str | None,
    agent: str | None,
    fleet: str | None,
    as_json: bool,
    reach: Reach,
) -> None:
    """Learn a new class from a few PHOTOS: in use here at once, on every following device once it
    is admitted.
    """
    # Before all that imports numpy: it keeps that to one thread.
    from edge_agent.inference.classifier import Classifier

    classifier = Classifier(bundle)
    import numpy as np

    from edge_agent.config import host_name
    from edge_agent.data import images as files
    from edge_agent.updates import cache, enrolment

    cache.settled(classifier, bundle)
    kind = classifier.bundle.manifest.input
    paths = files.find(photos)
    if not paths:
        raise UsageError("there is not one image among these paths")
    images = np.stack([files.read(path, kind) for path in paths])
    new = enrolment.embedded(classifier, label, images)
    enrolment.keep(classifier, bundle, new)
    lineage = new.bank.about.lineage
    document = {
        "label": label,
        "photos": new.photos,
        "nearest": new.nearest or None,
        "share": new.share if new.nearest else None,
        "lineage": lineage,
    }
    lines = [f"{label}: learned from {new.photos} photos and in use on this device"]
    if new.too_near:
        lines.append(
            f"it lies close to {new.nearest} ({new.share:.2f} of what is usual between classes): "
            "they may be mixed up"
        )
    # Points of a class mean something through the same extractor only, which every device has for
    # itself unless one was frozen for all.
    if lineage.startswith("run:"):
        document["offered"] = False
        lines.append(
            "other devices have extractors of their own: put the photos into this device's data, "
            "and the class reaches them through the next rounds"
        )
    elif url:
        receipt = enrolment.offer(classifier, new.bank, reach(url), fleet, agent or host_name())
        document |= {"offered": True, "status": receipt.status, "words": receipt.words}
        lines.append(
            {
                "accepted": "the fleet has it: every following device of this lineage knows it now",
                "waiting": "the coordinator keeps it until an operator admits it",
            }.get(receipt.status, f"the coordinator does not take it: {receipt.words}")
        )
    click.echo(json.dumps(document, indent=1) if as_json else "\n".join(lines))
    if document.get("status") not in (None, "accepted", "waiting"):
        raise FleetError(f"{label} was not taken into the fleet: {document['words']}")


@click.command()
@bundle_option
@click.option("--label", required=True, help="A class that was enrolled on this device.")
def forget(bundle: Path, label: str) -> None:
    """Take back a class that was enrolled here. The fleet's own are the coordinator's: `coordinator
    classes remove`.
    """
    from edge_agent.inference.classifier import Classifier
    from edge_agent.updates import enrolment

    if not enrolment.forget(Classifier(bundle), bundle, label):
        raise UsageError(f"no class {label!r} was enrolled with this bundle on this device")
    click.echo(f"{label}: forgotten on this device")
