"""Commands that ask the running service through the socket in its data directory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, cast

import click

from coordinator.config import DEFAULT, ServeSection, data_dir_of
from coordinator.service.control import ask
from protofleet.errors import FleetError
from protofleet.util import files
from protofleet.util.logs import printable

END = 30.0  # seconds for a service to end: what it still has to say goes to the broker first
F = Callable[..., Any]


def where(command: F) -> F:
    """The options of every command that asks the running service."""

    @wraps(command)
    def with_place(config: Path | None, data_dir: Path | None, **others: Any) -> Any:
        return command(data_dir=place(config, data_dir), **others)

    options = (
        click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout."),
        click.option(
            "--config",
            type=click.Path(path_type=Path),
            help="Whose coordinator: its settings. By default ./fleet.toml, if it is there.",
        ),
        click.option(
            "--data-dir",
            type=click.Path(path_type=Path),
            envvar="PROTOFLEET_SERVE_DATA_DIR",
            help="The running coordinator's. By default as the settings have it.",
        ),
    )
    for option in options:
        with_place = option(with_place)
    return cast(F, with_place)


def place(file: Path | None, data_dir: Path | None) -> Path:
    """The data directory: what was said, else what the settings say, as `serve` would have it."""
    if data_dir is not None:
        return data_dir
    file = DEFAULT if file is None and DEFAULT.exists() else file
    if file is None:
        return Path(ServeSection.data_dir)
    return data_dir_of(file)


@click.command()
@where
@click.option("--watch", is_flag=True, help="A live table, until Ctrl-C.")
def status(data_dir: Path, as_json: bool, watch: bool) -> None:
    """Round, devices, accuracy, bytes, refusals."""
    if not watch:
        document = ask(data_dir, "status")
        if as_json:
            click.echo(json.dumps(document, indent=1))
            return
        for line in status_lines(document):
            click.echo(line)
        return
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        while True:
            live.update("\n".join(status_lines(ask(data_dir, "status"))), refresh=True)
            time.sleep(1.0)


def status_lines(status: dict[str, Any]) -> list[str]:
    """The status as a person reads it."""
    ledger = status.get("ledger")
    if ledger is not None and status["phase"] == "ledger":
        rows = _common(status) | ledger_rows(ledger) | _traffic(status)
        return [*_lines(rows), *_alerts(status)]
    rows = _common(status) | _round_rows(status) | _traffic(status)
    beside = {} if ledger is None else ledger_rows(ledger)
    # Rounds have a state of their own.
    rows |= {("its state" if n == "state" else n): row for n, row in beside.items()}
    return [*_lines(rows), *_alerts(status)]


def _alerts(status: dict[str, Any]) -> list[str]:
    """What is wrong and what to do, a line each."""
    rows = status.get("alerts", [])
    return [printable(f"{'! wrong':<10} {row['sentence']} {row['suggestion']}") for row in rows]


def _lines(rows: dict[str, str]) -> list[str]:
    return [printable(f"{name:<10} {value}") for name, value in rows.items()]


def _common(status: dict[str, Any]) -> dict[str, str]:
    fleet, run, method, epoch = (status[key] for key in ("fleet", "run", "method", "epoch"))
    online = f"{status['agents_online']} online of {status['agents_known']}"
    return {
        "fleet": f"{fleet}, run {run}, {method}, epoch {epoch}",
        "broker": "connected" if status["connected"] else "not connected",
        "devices": online + _trouble(status),
        **_site(status.get("site")),
    }


def _site(site: dict[str, Any] | None) -> dict[str, str]:
    """How a site stands with the fleet above, as a person reads it."""
    if site is None:
        return {}
    line = "connected" if site["connected"] else "not connected"
    has = f"has {', '.join(site['taken'])}" if site["taken"] else "has nothing yet"
    waits = f", {site['waiting']} on their way" if site["waiting"] else ""
    trouble = f"; {site['trouble']}" if site["trouble"] else ""
    return {"above": f"{site['up']} as {site['site']}, {line}: {has}{waits}{trouble}"}


def _traffic(status: dict[str, Any]) -> dict[str, str]:
    refused = ", ".join(f"{n} {code}" for code, n in sorted(status["refused"].items()))
    dropped = ", ".join(f"{n} {kind}" for kind, n in sorted(status.get("dropped", {}).items()))
    last = status.get("last_refusals", [])[-1:]
    why = "".join(f"; last {refusal['agent']}: {refusal['words']}" for refusal in last)
    accuracy = ", ".join(f"{k} {100 * v:.2f} %" for k, v in status["accuracy"].items())
    unasked = "not asked for, as it would tell of samples" if status.get("budget") else ""
    return {
        "accuracy": accuracy or unasked or "not reported yet",
        "refused": (refused or "none") + why,
        "dropped": dropped or "nothing",
    }


def ledger_rows(ledger: dict[str, Any]) -> dict[str, str]:
    """What devices contributed, as a person reads it."""
    sums = f"{ledger['samples']} samples of {ledger['classes']} classes"
    sums += f" by {ledger['devices']} devices"
    by = ledger["calibrated_by"]
    sure = f"by {by} samples that were held out" if by else "not yet: devices are to count"
    rows = {
        "extractor": ledger["lineage"][:26],
        "ledger": f"version {ledger['version']}: {sums}",
        "sure": sure + (", of an earlier total" if by and not ledger["current"] else ""),
        **({"held out": ledger["held_out"]} if ledger.get("held_out") else {}),
        "state": ledger["state_sha256"][:16],
        "suspects": "; ".join(ledger["suspects"]) or "none",
        "drift": _drift(ledger["drift"]),
    }
    if ledger["waiting"]:
        rows["waiting"] = f"{', '.join(ledger['waiting'])}: coordinator classes admit NAME"
    if ledger["doubted"]:
        rows["doubted"] = f"{', '.join(ledger['doubted'])}: most others contradict them, not heard"
    if ledger["misjudging"]:
        names = ", ".join(ledger["misjudging"])
        rows["misjudging"] = f"{names}: what they count is far from what most count, not used"
    if ledger["trouble"]:
        rows["trouble"] = f"no newer classifier can be made: {ledger['trouble']}"
    return rows


def _drift(devices: list[dict[str, Any]]) -> str:
    """What changed; else how many devices said anything."""
    changed = [device["sentence"] for device in devices if device["changed"]]
    shares = [device["unknown"] for device in devices]
    usual = f"none of {len(devices)}, at most {100 * max(shares, default=0.0):.0f} % unknown"
    return "; ".join(changed) or (usual if devices else "nobody reported yet")


def _round_rows(status: dict[str, Any]) -> dict[str, str]:
    rounds, seconds = status["rounds"], status["seconds_left"]
    of = f" of {rounds}" if rounds else ""
    deadline = "" if seconds is None else f", {seconds:.0f} s to the deadline"
    answered = f"{status['answered']} of {status['asked']} answered{deadline}"
    missing = status["missing"][:8] + ["..."] * (len(status["missing"]) > 8)
    size = f"{status['upload_bytes'] / 1e6:.2f} MB"
    verdict = status.get("verdict")
    return {
        "round": f"{status['round']}{of}, {status['phase']}: {answered}",
        "missing": ", ".join(missing) or "nobody",
        "uploads": f"{status['uploads']} ({size}), {status['duplicates']} sent again",
        "late": str(status["late"]),
        "state": f"of round {status['state_round']}, {status['state_sha256'][:16]}",
        **({"extractor": verdict} if verdict else {}),
        **_budget(status.get("budget")),
    }


def _budget(budget: dict[str, Any] | None) -> dict[str, str]:
    """What of it is spent, as a person reads it."""
    if budget is None:
        return {}
    spent = f"ε {budget['spent']:.3f} of {budget['epsilon']:g} at δ {budget['delta']:g} is spent"
    left = budget["publications_left"]
    more = f"{left} publications left" if left else "nothing more is published"
    return {"budget": f"{spent}, of one {budget['unit']}; {more}"}


@click.command()
@where
def agents(data_dir: Path, as_json: bool) -> None:
    """Every device: there or not, what it holds, how well it classifies."""
    document = ask(data_dir, "agents")
    if as_json:
        click.echo(json.dumps(document, indent=1))
        return
    for device in document["agents"]:
        accuracy = ", ".join(f"{k} {100 * v:.1f} %" for k, v in device["accuracy"].items())
        holds = f"{device.get('samples', '?')} samples of {len(device.get('classes', []))} classes"
        name, presence = f"{device['agent']:<20}", f"{_presence(device):<14}"
        columns = (name, presence, holds, accuracy, *_says(device), *_in_ledger(device))
        # What a device says of itself is its own; a terminal must not obey it.
        click.echo(printable("  ".join(column for column in columns if column)))


def _says(device: dict[str, Any]) -> list[str]:
    """What a device is, runs, leaves out and was refused."""
    words = [f"version {device['version']}"] if device.get("version") else []
    words += [f"runs {device['runs'][:12]}"] if device.get("runs") else []
    refused = f"refused: {device['refused']}" if device.get("refused") else ""
    return [*words, device["declines"], device.get("notice", ""), refused]


def _in_ledger(device: dict[str, Any]) -> list[str]:
    """What a device contributed, and what is odd about it."""
    if "contributed" not in device:
        return []
    classes = ", ".join(f"{name} {n}" for name, n in device["contributed"].items())
    words = [f"contributed {classes or 'nothing'}"]
    if device["unsaid"]:
        words.append(f"says nothing of {', '.join(device['unsaid'])} (too few samples)")
    if device["drift"] is not None:
        words.append(_seen(device["drift"]))
    words += ["not heard: most others contradict it"] * device["doubted"]
    words += ["its counts are not used: far from what most count"] * device["misjudging"]
    return [*words, *device["suspects"]]


def _seen(drift: dict[str, Any]) -> str:
    """A device's two numbers, or what they say."""
    if drift["changed"]:
        return str(drift["sentence"])
    words = f"of its last {drift['samples']} {100 * drift['unknown']:.0f} % unknown"
    far = drift["distance"]
    return words + ("" if far is None else f", {far:.2f} deviations from its labelled ones")


def _trouble(status: dict[str, Any]) -> str:
    """What is wrong with devices, as the end of a line."""
    gone, astray = status.get("agents_gone", 0), status.get("agents_astray", 0)
    words = f", {gone} gone" if gone else ""
    # Their word for it: of a coordinator whose life they follow, and it is not this one's.
    return words + (f", {astray} follow a higher epoch: start again" if astray else "")


def _presence(device: dict[str, Any]) -> str:
    if device["online"]:
        return f"silent {device['seen_seconds_ago']:.0f} s" if device.get("gone") else "online"
    return "left" if device["left"] else f"lost {device['seen_seconds_ago']:.0f} s ago"


@click.command()
@where
@click.option("--last", default=20, show_default=True, help="So many of the newest.")
def rounds(data_dir: Path, as_json: bool, last: int) -> None:
    """The newest rounds: asked, fused, how they closed, the state's hash."""
    document = ask(data_dir, "rounds", last=last)
    if as_json:
        click.echo(json.dumps(document, indent=1))
        return
    for row in document["rounds"]:
        closed = row["reason"] or "open"
        state = (row["state_sha256"] or "no new state")[:16]
        counts = f"asked {row['asked']:<5} uploads {row['uploads']:<5}"
        words = f"  failed: {row['failed']}" if row.get("failed") else ""
        click.echo(f"round {row['round']:<6} {counts} {closed:<10} {state}{words}")


@click.command()
@click.argument("round", type=int)
@where
def show(round: int, data_dir: Path, as_json: bool) -> None:
    """One round: every upload with its digest, and what happened."""
    document = ask(data_dir, "show", round=round)
    if as_json:
        click.echo(json.dumps(document, indent=1))
        return
    closed = document["reason"] or "open"
    click.echo(f"round {round} on the state of round {document['base_round']}, {closed}")
    for upload in document["uploads"]:
        cut = "" if upload["cut"] is None else f"fused in {upload['cut']}"
        digest = upload["digest"][:16]
        click.echo(printable(f"  {upload['agent']:<20} {upload['status']:<9} {digest}  {cut}"))
    for event in document["events"]:
        details = {k: v for k, v in event.items() if k not in ("kind", "at", "round")}
        click.echo(f"  {event['kind']} {json.dumps(details)}")


def _plain(name: str, help: str) -> click.Command:
    @click.command(name=name, help=help)
    @where
    def command(data_dir: Path, as_json: bool) -> None:
        answer = ask(data_dir, name)
        words = ", ".join(f"{key}: {value}" for key, value in answer.items())
        click.echo(json.dumps(answer) if as_json else words)

    return command


publish = _plain("publish", "Say everything retained again: state, announcement, own parts.")
pause = _plain("pause", "Open no further rounds; the open one runs to its end.")
resume = _plain("resume", "Open rounds again.")


@click.command()
@where
def stop(data_dir: Path, as_json: bool) -> None:
    """End the service, and wait until it has; the run can go on later."""
    answer = ask(data_dir, "stop")
    until = time.monotonic() + END
    # The lock is what a next start would meet; the last thing that a service does is to give it
    # back, and a process that is killed gives it back as well.
    while not files.free(data_dir):
        if time.monotonic() > until:
            raise FleetError(f"the coordinator at {data_dir} is still ending after {END:.0f} s")
        time.sleep(0.05)
    answer = {**answer, "stopped": True}
    click.echo(json.dumps(answer) if as_json else "stopped")
