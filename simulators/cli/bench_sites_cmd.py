"""`protofleet bench sites`: a tree of sites that die, beside the same devices under one
coordinator.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from simulators.cli.common import json_option, progress


@click.command()
@click.option("--sites", default=3, show_default=True, help="Coordinators below one.")
@click.option("--devices", default=30, show_default=True, help="In all, dealt to them evenly.")
@click.option("--kills", default=50, show_default=True, help="Deaths of sites, by kill -9.")
@click.option("--seed", default=0, show_default=True, help="Of instants and changes.")
@click.option("--signed", is_flag=True, help="Fleets by invitation, where all words are signed.")
@json_option
def sites(as_json: bool, **words: Any) -> None:
    """Whether a tree comes to the state of all its devices under one coordinator, to the bit, while
    its sites are killed and its devices change what they say.

    Every coordinator is a process, every broker a real one; devices look at nothing, and speak by
    a real device's rules.

    \b
    protofleet bench sites --kills 50
    protofleet bench sites --kills 5 --signed --seed 3
    """
    from tempfile import TemporaryDirectory

    from simulators.trees.deadly import TreeOptions, bench_sites

    with TemporaryDirectory(prefix="protofleet-sites-") as folder:
        answer = bench_sites(TreeOptions(**words), Path(folder), progress)
    click.echo("", err=True)
    click.echo(json.dumps(answer, indent=1) if as_json else table(answer))
    if not answer["same"]:
        raise SystemExit(1)


def table(answer: dict[str, Any]) -> str:
    """What came of it, in lines."""
    seconds, sizes = answer["seconds"], answer["bytes"]
    words = "the same" if answer["same"] else "another"
    return "\n".join(
        [
            f"{answer['devices']} devices at {answer['sites']} sites, {answer['kills']} deaths",
            f"state under a tree         {answer['state'][:16]}",
            f"state under one            {answer['alone'][:16]}  {words}",
            f"first whole after          {seconds['first']:.1f} s",
            f"whole after the last death {seconds['after_all_deaths']:.1f} s",
            f"bytes devices -> sites     {sizes['from_devices']:,}",
            f"bytes sites -> top         {sizes['from_sites']:,}",
        ]
    )
