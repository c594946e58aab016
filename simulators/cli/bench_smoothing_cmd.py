"""`protofleet bench smoothing`: one answer of several frames, by several rules."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click

from simulators.cli.common import json_option, photographs_options


@click.command()
@photographs_options
@click.option("--each", default=20, show_default=True, help="Photographs a class to learn from.")
@click.option("--seeds", default=3, show_default=True)
@json_option
def smoothing(data: Path, extractor: Path, each: int, seeds: int, as_json: bool) -> None:
    """Scenes of five frames, a fifth of them spoilt: how many does each rule answer right?

    \b
    protofleet extractor lite0 --fleet f --out lite0.pfb
    protofleet bench smoothing --data photos/ --extractor lite0.pfb
    """
    from tempfile import TemporaryDirectory

    import numpy as np

    from simulators.streams.smoothings import compared

    with TemporaryDirectory(prefix="protofleet-smoothing-") as folder:
        bundle = Path(folder) / "bench.pfb"
        shutil.copyfile(extractor, bundle)
        shares = compared(bundle, data, each, seeds)
    if as_json:
        click.echo(json.dumps(shares, indent=1))
        return
    for way, of_seeds in shares.items():
        click.echo(f"{way:<28} {100 * np.mean(of_seeds):6.2f} %")
