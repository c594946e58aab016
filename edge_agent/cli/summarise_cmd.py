"""`edge-agent summarise`: this device's class means through a frozen extractor."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from edge_agent.cli.common import device_options, settings, warned
from edge_agent.cli.infer_cmd import bundle_option
from protofleet.errors import DataError, FleetError, UsageError
from protofleet.util.files import OWN_FILE, write_whole


@click.command()
@bundle_option
@click.option(
    "--offer",
    "url",
    metavar="URL",
    help="Send them to the coordinator at this broker (mqtt://host).",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write the message here instead: `edge-agent run` sends it.",
)
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    help="The bundle came from outside: try it first, apart from all else, and move it here.",
)
@click.option("--name", default="", help="What a bundle from outside is to be: its digest.")
@device_options
def summarise(
    bundle: Path,
    url: str | None,
    out: Path | None,
    to: Path | None,
    name: str,
    file: Path | None,
    **flags: Any,
) -> None:
    """Send this device's class means through the BUNDLE's extractor: no training, and no torch.

    With an extractor that the coordinator froze, the means of all devices become the fleet's
    prototypes. A device that is part of a live fleet (`edge-agent run`) does this by itself.
    """
    from edge_agent.config import need_source
    from edge_agent.data.source import read
    from edge_agent.inference import sandbox
    from edge_agent.inference.classifier import Classifier
    from edge_agent.updates import cache, enrolment

    if (url is None) == (out is None):
        raise UsageError("one of --offer and --out is due")
    config = need_source(settings(file, flags))
    # Called by the daemon beside its owner's work.
    if out is not None:
        os.nice(config.limits.nice)
    if to is not None:
        sandbox.tried(bundle, name)
    classifier = Classifier(bundle)
    cache.settled(classifier, bundle)
    # Only now: what does not stand must not be moved to where the next start looks for it.
    if to is not None:
        bundle.replace(to)
    where = os.environ.get("PROTOFLEET_DATA")
    pool = read(config.data, Path(where) if where else None, classifier.bundle.manifest.input)
    bank, left_out = enrolment.summarised(
        classifier, pool.data.x[pool.train], pool.data.y[pool.train], pool.data.classes
    )
    if not bank.about.classes:
        raise DataError(
            "none of the samples is of a class that the fleet knows", "enroll new classes"
        )
    if left_out:
        click.echo(f"left out, because the fleet has no such class: {', '.join(left_out)}")
    fleet = flags.get("fleet") or classifier.bundle.manifest.fleet
    if out is not None:
        message = enrolment.message(classifier, bank, fleet, config.id, "summarise")
        write_whole(out, message, mode=OWN_FILE)
        return
    broker = warned(replace(config.broker, url=url or "").address(os.environ))
    receipt = enrolment.offer(classifier, bank, broker, fleet, config.id, method="summarise")
    if receipt.status != "accepted":
        raise FleetError(f"the coordinator does not take it: {receipt.words}")
    counts = getattr(bank.points, "counts", None)
    samples = 0 if counts is None else counts.sum()
    click.echo(f"means of {len(bank.about.classes)} classes, {samples} samples: taken")
