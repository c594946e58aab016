"""`edge-agent enroll` and `edge-agent forget`: classes of this device's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_agent.cli.infer_cmd import broker_options, bundle_option, fleet_option
from protofleet.errors import FleetError, UsageError
from protofleet.util.logs import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edge_agent.cli.infer_cmd import Reach
    from edge_agent.inference.classifier import Classifier
    from edge_agent.updates.enrolment import Enrolment
    from protofleet.mqtt.address import Address
    from protofleet.values.prototypes import Floats

IN_USE = " and in use on this device"
NOT_YET = (
    "; not in use yet, because the fleet's sums are not on this device: with --offer they are "
    "fetched, and a running edge-agent fetches them by itself"
)


@click.command()
@click.argument("photos", nargs=-1, type=click.Path(path_type=Path))
@bundle_option
@click.option("--label", help="What the photos show; beside --cluster the first word will do.")
@click.option(
    "--cluster",
    type=click.IntRange(1),
    help="In place of photos: what `edge-agent unknowns` listed under this number.",
)
@click.option(
    "--offer", "url", metavar="URL", help="Offer it to the fleet at this broker (mqtt://host)."
)
@click.option("--id", "agent", help="This device's name in the fleet; by default its host name.")
@fleet_option
@broker_options
@click.option(
    "--minimum",
    default=5,
    show_default=True,
    type=click.IntRange(1),
    help="Photos from which on the fleet hears of it.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def enroll(
    photos: tuple[Path, ...],
    bundle: Path,
    label: str | None,
    cluster: int | None,
    url: str | None,
    agent: str | None,
    fleet: str | None,
    minimum: int,
    as_json: bool,
    reach: Reach,
) -> None:
    """Learn a new class from a few PHOTOS: in use here at once, on every following device once it
    is admitted. Or from unknown things that this device saw: --cluster NUMBER NAME.
    """
    label, photos = _named(label, photos, cluster)
    # Before all that imports numpy: it keeps that to one thread.
    from edge_agent.inference.classifier import Classifier

    classifier = Classifier(bundle)
    from edge_agent.config import host_name
    from edge_agent.updates import cache, enrolment
    from edge_agent.updates.offer import offer

    cache.settled(classifier, bundle)
    if cluster is None:
        new = enrolment.embedded(classifier, label, _read(photos, classifier))
    else:
        new = enrolment.of_features(classifier, label, _from_cluster(bundle, classifier, cluster))
    name, fleet = agent or host_name(), fleet or classifier.bundle.manifest.fleet
    message = new.message(fleet, name, classifier.bundle.manifest.run)
    has_rows = classifier.loaded.bank.kind == "head"
    if url and has_rows and not cache.total_file(bundle).exists():
        _fetch_total(bundle, reach(url), fleet, name)
    enrolment.keep(classifier, bundle, message)
    if cluster is not None:
        _forget_cluster(bundle, cluster)
    usable = label in classifier.loaded.labels
    document = {
        "label": label,
        "photos": new.photos,
        "nearest": new.nearest or None,
        "share": new.share if new.nearest else None,
        "lineage": new.lineage,
        "in_use": usable,
    }
    lines = [f"{label}: learned from {new.photos} photos" + (IN_USE if usable else NOT_YET)]
    if new.too_near:
        lines.append(_near(new, has_rows))
    # A contribution means something through the same extractor only, which every device has for
    # itself unless one was frozen for all.
    if new.lineage.startswith("run:"):
        document["offered"] = False
        lines.append(
            "other devices have extractors of their own: put the photos into this device's data, "
            "and the class reaches them through the next rounds"
        )
    elif url and new.photos < minimum:
        document["offered"] = False
        lines.append(
            f"not offered: the fleet hears of a class from {minimum} photos on, for a mean of "
            "fewer shows them"
        )
    elif url:
        answer = offer(message, reach(url), fleet, name)
        document |= {"offered": True, "status": answer.status, "words": answer.words}
        lines.append(
            {
                "accepted": "the fleet has it: every following device of this lineage knows it now",
                "waiting": "the coordinator keeps it until an operator admits it",
            }.get(answer.status, f"the coordinator does not take it: {answer.words}")
        )
    # Names of classes and the coordinator's words among them.
    click.echo(json.dumps(document, indent=1) if as_json else "\n".join(map(printable, lines)))
    if document.get("status") not in (None, "accepted", "duplicate", "waiting"):
        raise FleetError(f"{label} was not taken into the fleet: {document['words']}")


def _named(
    label: str | None, photos: tuple[Path, ...], cluster: int | None
) -> tuple[str, tuple[Path, ...]]:
    """What it is called, and the photos."""
    if cluster is None and not photos:
        raise UsageError("photos are due, or --cluster")
    if cluster is not None and len(photos) > (label is None):
        raise UsageError("photos or --cluster, one of the two")
    if label is not None:
        return label, photos
    if cluster is None:
        raise UsageError("--label is due: what the photos show")
    if not photos:
        raise UsageError("a name is due: what the cluster shows")
    return str(photos[0]), ()


def _from_cluster(bundle: Path, classifier: Classifier, number: int) -> Floats:
    """Features of what was listed under this number."""
    import numpy as np

    from edge_agent.recent.queue import RecentQueue

    queue, lineage = RecentQueue(bundle), classifier.loaded.bank.about.lineage
    keys = queue.cluster(number)
    features = queue.features(lineage, classifier.bundle.manifest.embedding, keys)
    if not features:
        raise UsageError(
            f"there is no cluster {number}", f"edge-agent unknowns --bundle {bundle} lists them"
        )
    return np.stack([features[key] for key in keys if key in features])


def _forget_cluster(bundle: Path, number: int) -> None:
    """It is known now; the other numbers stay what they are."""
    from edge_agent.recent.queue import RecentQueue

    queue = RecentQueue(bundle)
    queue.forget(queue.cluster(number))


def _read(photos: tuple[Path, ...], classifier: Classifier) -> NDArray[Any]:
    """The photos as the bundle takes them."""
    import numpy as np

    from edge_agent.data import images

    paths = images.find(photos, classifier.bundle.manifest.input)
    if not paths:
        raise UsageError("there is not one sample among these paths")
    return np.stack([images.read(path, classifier.bundle.manifest.input) for path in paths])


def _fetch_total(bundle: Path, broker: Address, fleet: str, agent: str) -> None:
    """The sums, without which a new class has no row beside those of a head."""
    from edge_agent.updates import cache
    from edge_agent.updates.offer import fetched_total
    from protofleet.util.files import write_whole

    payload = fetched_total(broker, fleet, agent)
    if payload is not None:
        write_whole(cache.total_file(bundle), payload)


def _near(new: Enrolment, has_rows: bool) -> str:
    if has_rows:
        return f"{new.share:.0%} of them are surely {new.nearest} so far: they may be mixed up"
    return (
        f"it lies close to {new.nearest} ({new.share:.2f} of what is usual between classes): "
        "they may be mixed up"
    )


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
