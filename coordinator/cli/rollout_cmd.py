"""`coordinator rollout`: a bundle brought to the fleet a few devices at a time."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime
from getpass import getuser
from pathlib import Path
from typing import Any

import click

from coordinator.cli.freeze_cmd import bundle_file
from coordinator.cli.live_cmd import where
from coordinator.service.control import ask
from protofleet.errors import FleetError, UsageError
from protofleet.util.logs import printable

NAP = 1.0
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
ENDS = ("done", "back")
MOST_SHOWN = 20  # devices with a setback


class RolledBack(FleetError):
    """The fleet has what it had before."""

    code = "rolled-back"


def share_of(text: str) -> float:
    """`5%` or `0.05`."""
    number = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text.strip())
    if number is None:
        raise UsageError(f"{text!r} is no share of the fleet", "as 5% or 0.05")
    return float(number[1]) / (100 if number[2] else 1)


def seconds_of(text: str) -> float:
    """`90`, `30s`, `10m`, `2h`, `1d`."""
    number = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if number is None:
        raise UsageError(f"{text!r} is no time", "as 30s, 10m or 2h")
    return float(number[1]) * UNITS[number[2]]


def operator() -> str:
    """Who types, for the journal."""
    try:
        return getuser()
    except (OSError, KeyError, ImportError):
        return ""


@click.group()
def rollout() -> None:
    """A bundle, brought to the fleet a few devices at a time, and back if it does not hold.

    \b
    coordinator rollout start new.pfb --groups 5%,50%,100% --canary door --canary yard
    coordinator rollout status --follow
    coordinator rollout halt        no further device begins; `resume` goes on
    coordinator rollout back        every device returns to what it had
    coordinator rollout history     who ran what when
    """


@rollout.command()
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--groups", default="5%,50%,100%", show_default=True, help="Shares of the fleet, rising."
)
@click.option("--canary", "canaries", multiple=True, metavar="NAME", help="Of the first group.")
@click.option(
    "--error", default="2%", show_default=True, help="Goes back where more devices than that fail."
)
@click.option(
    "--trigger",
    default="90%",
    show_default=True,
    help="The next group follows when that share of the newest proved it.",
)
@click.option(
    "--soak", default="10m", show_default=True, help="A device answers by it for so long first."
)
@click.option(
    "--patience",
    default="1h",
    show_default=True,
    help="A device that takes longer for a step has failed.",
)
@click.option(
    "--margin", default="3%", show_default=True, help="Accuracy that may be lost on a device."
)
@click.option(
    "--slower", default=2.0, show_default=True, help="Times the processor time of an answer."
)
@click.option("--larger", default=2.0, show_default=True, help="Times the memory.")
@click.option("--follow", is_flag=True, help="Stay until it has ended; exit 1 if it went back.")
@where
def start(
    source: Path,
    groups: str,
    canaries: tuple[str, ...],
    error: str,
    trigger: str,
    soak: str,
    patience: str,
    margin: str,
    slower: float,
    larger: float,
    follow: bool,
    data_dir: Path,
    as_json: bool,
) -> None:
    """Bring the bundle SOURCE (a .pfb file or its folder) to the devices, group after group.

    Each device fetches it, tries it in a sandbox, runs it beside the one it has on its own
    pictures, and takes it only if it holds. Success is what answered for a while in use and after
    a start from the disk. A group opens when enough of the one before proved it.
    """
    arguments = {
        "groups": [share_of(text) for text in groups.split(",")],
        "canaries": list(canaries),
        "error": share_of(error),
        "trigger": share_of(trigger),
        "patience": seconds_of(patience),
        "trial": {
            "margin": share_of(margin),
            "slower": slower,
            "larger": larger,
            "soak": seconds_of(soak),
        },
    }
    with bundle_file(source, data_dir) as file:
        words = {"what": "start", "file": str(file.resolve()), "by": operator()}
        document = ask(data_dir, "rollout", **words, **arguments)
    _show(document, data_dir, as_json=as_json, follow=follow)


@rollout.command()
@click.option("--follow", is_flag=True, help="Stay until it has ended; exit 1 if it went back.")
@where
def status(follow: bool, data_dir: Path, as_json: bool) -> None:
    """How the newest rollout stands: its groups, what the trials counted, who fell out and why."""
    _show(ask(data_dir, "rollout", what="status"), data_dir, as_json=as_json, follow=follow)


def _steer(name: str, help: str) -> click.Command:
    @click.command(name=name, help=help)
    @where
    def command(data_dir: Path, as_json: bool) -> None:
        document = ask(data_dir, "rollout", what=name, by=operator())
        _show(document, data_dir, as_json=as_json, follow=False)

    return command


for each_command in (
    _steer("halt", "No further device begins; those that run it go on."),
    _steer("resume", "Go on with what was halted."),
    _steer("back", "Take it back: every device returns to what it had before."),
):
    rollout.add_command(each_command)


@rollout.command(name="list")
@where
def show_all(data_dir: Path, as_json: bool) -> None:
    """Every rollout, the newest first."""
    document = ask(data_dir, "rollout", what="list")
    if as_json:
        click.echo(json.dumps(document, indent=1))
        return
    for row in document["rollouts"]:
        groups = ",".join(f"{100 * share:g}%" for share in row["groups"])
        what = f"{row['kind']} {row['bundle'][:16]} {groups}"
        words = f": {row['words']}" if row["words"] else ""
        line = f"{row['rollout']:>4}  {_when(row['at'])}  {what}  {row['phase']}{words}"
        click.echo(printable(line))


@rollout.command()
@click.argument("number", type=int, required=False)
@click.option("--last", default=200, show_default=True, help="So many of the newest steps.")
@where
def history(number: int | None, last: int, data_dir: Path, as_json: bool) -> None:
    """Who ran what when: of rollout NUMBER, or of all."""
    document = ask(data_dir, "rollout", what="history", number=number, last=last)
    if as_json:
        click.echo(json.dumps(document, indent=1))
        return
    for row in document["steps"]:
        who = row["agent"] or "coordinator"
        step = f"{row['rollout']:>4}  {_when(row['at'])}  {who:<20} {row['step']:<9}"
        click.echo(printable(f"{step} {row['words']}".rstrip()))


def _show(document: dict[str, Any], data_dir: Path, *, as_json: bool, follow: bool) -> None:
    before: list[str] = []
    while True:
        lines = rollout_lines(document)
        if as_json and not follow:
            click.echo(json.dumps(document, indent=1))
        elif as_json:
            click.echo(json.dumps(document))
        elif lines != before:
            click.echo("\n".join([*lines, ""] if follow else lines))
        before = lines
        if not follow or document["rollout"] is None:
            return
        if document["phase"] in ENDS:
            break
        time.sleep(NAP)
        document = ask(data_dir, "rollout", what="status")
    if document["phase"] == "back":
        raise RolledBack(f"rollout {document['rollout']} went back: {document['words']}")


def rollout_lines(document: dict[str, Any]) -> list[str]:
    """How a rollout stands, as a person reads it."""
    if document["rollout"] is None:
        return ["no rollout yet: coordinator rollout start X.pfb"]
    what = document["state"][:16] if document["kind"] == "classes" else document["bundle"][:16]
    words = f": {document['words']}" if document["words"] else ""
    head = f"rollout {document['rollout']} of {document['kind']} {what}, {document['phase']}{words}"
    lines = [head, *map(_group, document["groups"])]
    if document["samples"]:
        before, after = 100 * document["before"], 100 * document["after"]
        alike = 100 * document["agreement"]
        lines.append(
            f"accuracy   {before:.1f} % before, {after:.1f} % after, on {document['samples']} "
            f"samples of devices; {alike:.1f} % of all pictures answered alike"
        )
    fallen = [d for d in document["devices"] if d["words"]]
    lines += [f"  {d['agent']:<20} {d['is']}: {d['words']}" for d in fallen[:MOST_SHOWN]]
    if len(fallen) > MOST_SHOWN:
        lines.append(f"  and {len(fallen) - MOST_SHOWN} more: --json has all")
    return [printable(line) for line in lines]


def _group(group: dict[str, Any]) -> str:
    kinds = ("proven", "busy", "waiting", "failed", "silent")
    numbers = ", ".join(f"{group[kind]} {kind}" for kind in kinds if group[kind]) or "nobody there"
    state = "" if group["opened"] else " (not open yet)"
    return f"group {group['group']}    to {100 * group['share']:g} %{state}: {numbers}"


def _when(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().isoformat(" ", "seconds")
