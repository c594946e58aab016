"""`edge-agent status`: how a device is getting on, from what its daemon left on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from edge_agent.cli.common import device_options, settings
from protofleet.util.logs import printable


@click.command()
@device_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def status(file: Path | None, as_json: bool, **flags: Any) -> None:
    """Print what the daemon does, how far it is, and what waits in its outbox."""
    from edge_agent.metrics.standing import standing

    document = standing(settings(file, flags).data_dir)
    click.echo(json.dumps(document, indent=1) if as_json else "\n".join(_lines(document)))


def _lines(status: dict[str, Any]) -> list[str]:
    doing = status["doing"] if status["running"] else "not running"
    link = (
        "connected"
        if status["running"] and status["connected"]
        else f"not connected {status['trouble']}".strip()
    )
    run, method = status["run"] or "none yet", status["method"] or "no method"
    ledger = status.get("ledger", {})  # a daemon of an earlier version did not say
    rows = {
        "device": f"{status['agent']} in fleet {status['fleet']}: {doing}",
        "broker": f"{status['broker']}: {link}",
        "run": f"{run}, {method}",
        **(_contributed(ledger) if any(ledger.values()) else _trained(status)),
        "samples": f"{status['samples']} of {len(status['classes'])} classes",
        "today": f"{status['bytes_today'] / 1e6:.2f} MB over the link",
    }
    if status["refusal"]:
        rows["refuses"] = status["refusal"]
    # Some of it is the coordinator's or the broker's own words.
    return [printable(f"{name:<9} {value}") for name, value in rows.items()]


def _trained(status: dict[str, Any]) -> dict[str, str]:
    """In a fleet with rounds."""
    outbox = sorted(status["outbox"].items())
    accuracy = status["accuracy"]
    return {
        "trained": f"up to round {status['trained']}; round {status['round']} {status['phase']}",
        "outbox": ", ".join(f"{n} {what}" for what, n in outbox) or "empty",
        "accuracy": ", ".join(f"{name} {value:.4f}" for name, value in accuracy)
        or "not measured yet",
    }


def _contributed(ledger: dict[str, list[str]]) -> dict[str, str]:
    """In a fleet with a ledger."""
    rows = {"ledger": f"has {_listed(ledger['taken'])}"}
    return {**rows, "to bring": _listed(ledger["due"])} if ledger["due"] else rows


def _listed(names: list[str]) -> str:
    words = {"own": "what this device's samples are like", "counts": "its counts of the total"}
    return ", ".join(words.get(name, name) for name in names) or "nothing of this device yet"
