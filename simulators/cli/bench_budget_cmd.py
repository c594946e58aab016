"""`protofleet bench budget`: accuracy and membership at several ε."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from protofleet.errors import UsageError
from simulators.cli.common import json_option


@click.command()
@click.option("--data", default="digits", show_default=True, help="Images, under fixed filters.")
@click.option(
    "--features",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Instead of images: an .npz of features f and labels y.",
)
@click.option("--samples", default=0, help="Of all devices; 0: four fifths of all there are.")
@click.option("--epsilon", "epsilons", multiple=True, type=float, default=[0.0, 8.0, 3.0])
@click.option("--delta", default=1e-5, show_default=True)
@click.option("--clip", default=16.0, show_default=True, help="Features are no longer than this.")
@click.option("--seeds", default=1, show_default=True, help="Seeds 0, 1, … of split and noise.")
@json_option
def budget(
    data: str,
    features: Path | None,
    samples: int,
    epsilons: tuple[float, ...],
    delta: float,
    clip: float,
    seeds: int,
    as_json: bool,
) -> None:
    """Contributions of a fleet without noise (ε 0) and under budgets: how well what comes of them
    classifies samples that no device has, and how well it tells who was in.

    \b
    protofleet bench budget --data mnist --samples 2000
    protofleet bench budget --features office-caltech.npz --clip 24 --seeds 5
    """
    from simulators.attacks import budgeted

    if samples < 0 or seeds < 1 or min(epsilons) < 0:
        raise UsageError("numbers from 0 up are due, and one seed at least")
    rows = []
    for seed in range(seeds):
        task = (
            budgeted.of_images(data, samples, seed)
            if features is None
            else budgeted.of_file(features, samples, seed)
        )
        rows += [
            {"seed": seed, "members": len(task.members.labels), **asdict(spent)}
            for spent in budgeted.measured(task, epsilons, delta, clip, seed)
        ]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    members = rows[0]["members"]
    click.echo(f"{data if features is None else features.name}: {members} samples, {seeds} seeds")
    click.echo(f"{'':<12}{'accuracy':>10}{'membership':>12}{'spent':>8}")
    for epsilon in epsilons:
        mine = [row for row in rows if row["epsilon"] == epsilon]
        accuracy, area, spent = (
            sum(float(row[name]) for row in mine) / len(mine)
            for name in ("accuracy", "area", "spent")
        )
        name = f"ε = {epsilon:g}" if epsilon else "no noise"
        click.echo(f"{name:<12}{100 * accuracy:>8.2f} %{area:>12.3f}{spent:>8.3f}")
