"""`protofleet sweep`: one method over a grid of its settings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from protofleet.errors import UsageError
from protofleet.settings.fields import from_plain, to_plain
from simulators.cli.common import (
    config_of,
    engine_options,
    json_option,
    run_options,
    seeds_option,
    show,
)
from simulators.run.config import LabConfig

if TYPE_CHECKING:
    from simulators.cluster.engine import Name


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--grid",
    multiple=True,
    required=True,
    metavar="NAME=A,B,C",
    help="Values to try; several make a product.",
)
@run_options()
@engine_options()
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="A folder per point.",
)
@seeds_option
@click.option("--baseline", default="", help="With --seeds: a point, as the table names it.")
@json_option
def sweep(
    grid: tuple[str, ...],
    workers: int | None,
    engine_name: Name,
    address: str,
    out: Path,
    seeds: int,
    baseline: str,
    as_json: bool,
    **values: Any,
) -> None:
    """Try a grid of settings; run it again to go on where it stopped.

    \b
    protofleet sweep --method fedproto --grid lam=0.1,1,10 --rounds 20 --out runs/lam
    protofleet sweep --method fedproto --grid lr=0.01,0.03 --seeds 3 --baseline lr=0.01 \\
        --out runs/lr

    A name is one of the method's settings, or any option of the run or its training.

    Choose by the validation column: the test split is for the end.
    """
    from simulators.cluster.engine import engine
    from simulators.run.comparison import CompareOptions, compared, planned

    axes = []
    for axis in grid:
        name, equals, texts = axis.partition("=")
        if not equals or not texts:
            raise UsageError(f"--grid {axis!r} is not of the form name=a,b,c")
        if name.strip().replace("-", "_") == "seed" and "," in texts:
            raise UsageError(
                "seeds are no axis of a grid: a point is not better for its seed",
                "--seeds 5 runs every point with five, and shows mean and interval",
            )
        axes.append([f"{name.strip()}={text.strip()}" for text in texts.split(",")])
    config = config_of(values)
    points = {" ".join(point): point for point in itertools.product(*axes)}
    plans = {name: planned(at_point(config, point)) for name, point in points.items()}
    # Always: a sweep is long, and a point that is finished is never another one's, by its settings.
    with engine(engine_name, workers, address) as where:
        comparison = compared(plans, CompareOptions(where, seeds, baseline, out, resume=True))
    show(comparison, out, as_json=as_json)


def at_point(config: LabConfig, point: Sequence[str]) -> LabConfig:
    """The configuration at one point of the grid."""
    for pair in point:
        name, _, text = pair.partition("=")
        option = name.replace("-", "_")
        for part in ("run", "training", "partition", "numerics"):
            section = getattr(config, part)
            if option in {field.name for field in fields(section)}:
                config = replace(
                    config, **{part: from_plain(type(section), {**to_plain(section), option: text})}
                )
                break
        else:
            config = replace(config, settings=(*config.settings, pair))
    return config
