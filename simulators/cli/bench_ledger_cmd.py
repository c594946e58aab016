"""`protofleet bench ledger`: a live fleet without torch on real photographs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from simulators.cli.common import json_option, photographs_options, progress


@click.command()
@photographs_options
@click.option("--new", default="", help="The class that comes later; by default the last.")
@click.option("--settle", default=5.0, show_default=True, help="As [ledger] settle.")
@click.option("--idle", default=0.0, help="Watch so many seconds in which nothing happens.")
@click.option("--starts", default=0, help="So many further starts, in shuffled orders.")
@click.option("--python", help="The devices' interpreter; by default this one.")
@click.option("--seed", default=0, help="Of what is held back.")
@json_option
def ledger(as_json: bool, python: str | None, **words: Any) -> None:
    """From four cameras' start to a classifier, with what it takes of each.

    \b
    protofleet extractor lite0 --fleet f --out lite0.pfb
    protofleet bench ledger --data photos/ --extractor lite0.pfb --idle 600 --starts 10
    """
    import sys
    from tempfile import TemporaryDirectory

    from simulators.photos.livebench import LiveOptions, bench_ledger

    options = LiveOptions(python=python or sys.executable, **words)
    with TemporaryDirectory(prefix="protofleet-ledger-") as folder:
        answer = bench_ledger(options, Path(folder), progress)
    click.echo("", err=True)
    click.echo(json.dumps(answer, indent=1) if as_json else table(answer))


def table(answer: dict[str, Any]) -> str:
    """What came of it, in lines."""
    live, lab = answer["live"], answer["laboratory"]
    lines = ["device        photos  CPU s/100  RSS MB  daemon MB  torch  accuracy"]
    for name, one in answer["devices"].items():
        torch = "yes" if one["torch"] else "no"
        lines.append(
            f"{name:<12} {one['photos']:>7} {one['cpu_per_100']:>10.2f} {one['rss_mb']:>7.0f} "
            f"{one['rss_daemon_mb']:>10.0f} {torch:>6} {100 * live['accuracy'][name]:>7.2f} %"
        )
    seconds = answer["seconds"]
    lines += [
        f"{'laboratory':<58}{100 * lab['accuracy']:>7.2f} %",
        f"state         {live['state'][:16]}, the laboratory's {lab['state'][:16]}",
        f"first classifier after {seconds['first']:.1f} s, of all {seconds['everybody']:.1f} s, "
        f"counted {seconds['counted']:.1f} s",
    ]
    new = answer["new_class"]
    lines += [
        f"{new['class']} by five photos: on another device after {new['seconds']:.2f} s; "
        f"{100 * new['new']:.1f} % of it, the others {100 * new['others_before']:.1f} -> "
        f"{100 * new['others_after']:.1f} %",
        f"forgotten: {answer['forgotten']['after'][:16]}, proven: {answer['forgotten']['proof']}",
        *answer["suspects"],
    ]
    if "idle" in answer:
        lines += [f"idle, {name}: {number:,.0f}" for name, number in answer["idle"].items()]
    if answer["starts"]:
        hashes = {start["state"] for start in answer["starts"]} | {live["state"]}
        words = "one hash" if len(hashes) == 1 else f"{len(hashes)} hashes"
        lines.append(f"{len(answer['starts']) + 1} starts, {words}")
    return "\n".join(lines)
