"""Commands that ask the running service through the socket in its data directory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from coordinator.service.control import ask

F = Callable[..., Any]


def where(command: F) -> F:
    """The options of every command that asks the running service."""
    command = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")(
        command
    )
    return click.option(
        "--data-dir",
        type=click.Path(path_type=Path),
        default=Path("coordinator-data"),
        show_default=True,
        envvar="PROTOFLEET_SERVE_DATA_DIR",
        help="The running coordinator's.",
    )(command)


@click.command()
@where
@click.option("--watch", is_flag=True, help="A live table, until Ctrl-C.")
def status(data_dir: Path, as_json: bool, watch: bool) -> None:
    """Round, devices, accuracy, bytes, refusals."""
    if not watch:
        found = ask(data_dir, "status")
        click.echo(json.dumps(found, indent=1) if as_json else "\n".join(status_lines(found)))
        return
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        while True:
            live.update("\n".join(status_lines(ask(data_dir, "status"))), refresh=True)
            time.sleep(1.0)


def status_lines(found: dict[str, Any]) -> list[str]:
    """The status as a person reads it."""
    of = f" of {found['rounds']}" if found["rounds"] else ""
    left = (
        "" if found["seconds_left"] is None else f", {found['seconds_left']:.0f} s to the deadline"
    )
    missing = found["missing"][:8] + ["..."] * (len(found["missing"]) > 8)
    rows = {
        "fleet": f"{found['fleet']}, run {found['run']}, {found['method']}, epoch {found['epoch']}",
        "broker": "connected" if found["connected"] else "not connected",
        "round": f"{found['round']}{of}, {found['phase']}: {found['answered']} of {found['asked']} answered{left}",
        "missing": ", ".join(missing) or "nobody",
        "devices": f"{found['agents_online']} online of {found['agents_known']}",
        "accuracy": ", ".join(f"{k} {100 * v:.2f} %" for k, v in found["accuracy"].items())
        or "not reported yet",
        "uploads": f"{found['uploads']} ({found['upload_bytes'] / 1e6:.2f} MB), {found['duplicates']} sent again",
        "late": str(found["late"]),
        "refused": ", ".join(f"{n} {code}" for code, n in sorted(found["refused"].items()))
        or "none",
        "state": f"of round {found['state_round']}, {found['state_sha256'][:16]}",
    }
    return [f"{name:<9} {value}" for name, value in rows.items()]


@click.command()
@where
def agents(data_dir: Path, as_json: bool) -> None:
    """Every device: there or not, what it holds, how well it classifies."""
    found = ask(data_dir, "agents")
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    for d in found["agents"]:
        there = (
            "online"
            if d["online"]
            else "left"
            if d["left"]
            else f"lost {d['seen_seconds_ago']:.0f} s ago"
        )
        accuracy = ", ".join(f"{k} {100 * v:.1f} %" for k, v in d["accuracy"].items())
        holds = f"{d.get('samples', '?')} samples of {len(d.get('classes', []))} classes"
        click.echo(
            "  ".join(
                x
                for x in (f"{d['agent']:<20}", f"{there:<14}", holds, accuracy, d["declines"])
                if x
            )
        )


@click.command()
@where
@click.option("--last", default=20, show_default=True, help="So many of the newest.")
def rounds(data_dir: Path, as_json: bool, last: int) -> None:
    """The newest rounds: asked, fused, how they closed, the state's hash."""
    found = ask(data_dir, "rounds", last=last)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    for r in found["rounds"]:
        closed = r["reason"] or "open"
        state = (r["state_sha256"] or "no new state")[:16]
        click.echo(
            f"round {r['round']:<6} asked {r['asked']:<5} uploads {r['uploads']:<5} {closed:<10} {state}"
        )


@click.command()
@click.argument("round", type=int)
@where
def show(round: int, data_dir: Path, as_json: bool) -> None:
    """One round: every upload with its digest, and what happened."""
    found = ask(data_dir, "show", round=round)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    click.echo(
        f"round {round} on the state of round {found['base_round']}, {found['reason'] or 'open'}"
    )
    for u in found["uploads"]:
        cut = "" if u["cut"] is None else f"fused in {u['cut']}"
        click.echo(f"  {u['agent']:<20} {u['status']:<9} {u['digest'][:16]}  {cut}")
    for e in found["events"]:
        click.echo(
            f"  {e['kind']} {json.dumps({k: v for k, v in e.items() if k not in ('kind', 'at', 'round')})}"
        )


def _plain(name: str, help: str) -> click.Command:
    @click.command(name=name, help=help)
    @where
    def command(data_dir: Path, as_json: bool) -> None:
        found = ask(data_dir, name)
        click.echo(
            json.dumps(found) if as_json else ", ".join(f"{k}: {v}" for k, v in found.items())
        )

    return command


publish = _plain("publish", "Say everything retained again: state, announcement, own parts.")
pause = _plain("pause", "Open no further rounds; the open one runs to its end.")
resume = _plain("resume", "Open rounds again.")
stop = _plain("stop", "End the service; the run can go on later.")
