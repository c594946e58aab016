"""`protofleet bench taps`: from photographs that nobody labelled to a fleet that knows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from simulators.cli.common import json_option, photographs_options, progress


@click.command()
@photographs_options
@click.option("--taps", default=100, show_default=True, type=click.IntRange(5), help="In all.")
@click.option("--seeds", default=5, show_default=True, type=click.IntRange(0))
@click.option(
    "--minimum",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Samples of a class from which a device speaks of it, in the laboratory.",
)
@click.option("--live", is_flag=True, help="One run by processes, over the pages' own actions.")
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep features here; embedding is what takes long.",
)
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the curves into this PNG.")
@json_option
def taps(
    data: Path,
    extractor: Path,
    taps: int,
    seeds: int,
    minimum: int,
    live: bool,
    cache: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Accuracy against taps on the devices' pages, beside labelling at random.

    \b
    protofleet extractor lite0 --fleet f --out lite0.pfb
    protofleet bench taps --data photos/ --extractor lite0.pfb --live --plot taps.png
    """
    from tempfile import TemporaryDirectory

    from simulators.photos.features import embedder
    from simulators.photos.photographs import embedded
    from simulators.photos.tapping import bench_tapping
    from simulators.photos.taps import TapsOptions, bench_taps
    from simulators.photos.tapsplot import taps_picture

    embed = embedder(
        extractor, cache, lambda at, of: progress(f"looking at photographs: {at} of {of}")
    )
    photographs = embedded(data, embed)
    answer: dict[str, Any] = {}
    if seeds:
        answer = bench_taps(photographs, TapsOptions(taps, seeds, minimum), progress)
    if live:
        with TemporaryDirectory(prefix="protofleet-taps-") as folder:
            answer["live"] = bench_tapping(
                data, extractor, photographs, taps, progress, Path(folder)
            )
    if plot is not None:
        taps_picture(answer, plot)
    click.echo("", err=True)
    click.echo(json.dumps(answer, indent=1) if as_json else table(answer))


def table(answer: dict[str, Any]) -> str:
    """A line for each tenth of the taps."""
    choices = answer.get("choices", {})
    live = {point["taps"]: point for point in answer.get("live", {}).get("points", ())}
    names = [*choices, *(["live"] if live else [])]
    lines = [f"{'taps':>6}" + "".join(f"{name:>16}" for name in names)]
    every = [row["taps"] for row in next(iter(choices.values()), [])] or sorted(live)
    for place, at in enumerate(every):
        cells = [
            f"{100 * rows[place]['accuracy']:.1f} ± {100 * rows[place]['spread']:.1f}"
            for rows in choices.values()
        ]
        if live:
            cells.append(f"{100 * live[at]['accuracy']:.1f}" if at in live else "")
        lines.append(f"{at:>6}" + "".join(f"{cell:>16}" for cell in cells))
    if live:
        undone = answer["live"]["undone"]
        lines.append(
            f"undone: {undone['samples'][0]} -> {undone['samples'][1]} samples in the fleet after"
            f" {undone['seconds']:.1f} s"
        )
    return "\n".join(lines)
