"""`edge-agent export`: this device's own model as a bundle, so that it classifies with what it
learned.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from edge_agent.cli.common import device_options, settings


@click.command()
@device_options
@click.option(
    "--out", type=click.Path(path_type=Path), help="The bundle; by default agent.export_to."
)
@click.option("--run", "run", help="Of which run; by default the newest.")
@click.option(
    "--by", help="How it shall classify (prototype, head, mixture); by default as the method does."
)
@click.option(
    "--precision", type=click.Choice(["fp32", "fp16", "int8"]), default="fp32", show_default=True
)
@click.option("--smallest", is_flag=True, help="Keep int8 also where it is not faster.")
@click.option(
    "--freeze", is_flag=True, help="This extractor is to be the fleet's: see `coordinator freeze`."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def export(
    file: Path | None,
    out: Path | None,
    run: str | None,
    by: str | None,
    precision: Any,
    smallest: bool,
    freeze: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Write a bundle of this device's network and the newest state it has.

    Where a fleet shares one extractor and adds up contributions, it is that extractor with the
    newest classes; to train and to lower precision there is nothing then.
    """
    from edge_agent.config import need_source
    from export import agent, writer
    from export.cli.export_cmd import lines

    config = need_source(settings(file, flags))
    data = os.environ.get("PROTOFLEET_DATA")
    exported = None if run or by else agent.of_ledger(config)
    shared = exported is not None
    if exported is None:
        source = agent.from_store(config, Path(data) if data else None, run)
        exported = writer.export(source, writer.Wanted(precision, smallest, by, freeze=freeze))
    target = out or Path(config.agent.export_to)
    bundle = writer.write(exported, target)
    report = exported.report
    if as_json:
        document = {"out": str(target), "digest": bundle.digest, "report": report}
        click.echo(json.dumps(document, indent=1))
    elif shared:
        manifest = exported.manifest
        click.echo(
            f"{target}: {manifest.backbone} with the fleet's {len(manifest.classes)} classes, "
            f"{bundle.digest[:16]}\nlineage {manifest.lineages[0]}"
        )
    else:
        click.echo("\n".join(lines(exported.manifest, report, str(target), bundle.digest)))
