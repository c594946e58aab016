"""`edge-agent status`: how a device is getting on, from what its daemon left on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from edge_agent.cli.common import device_options, settings
from edge_agent.daemon.status import alive, read
from protofleet.errors import FleetError


@click.command()
@device_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def status(file: Path | None, as_json: bool, **flags: Any) -> None:
    """Print what the daemon does, how far it is, and what waits in its outbox."""
    from edge_agent.store import Store

    config = settings(file, flags)
    found = read(config.data_dir)
    if not found:
        raise FleetError(
            f"{config.data_dir}: no device has run here yet", "edge-agent run starts one"
        )
    found["running"] = found.get("doing") != "stopped" and alive(found.get("pid"))
    store = Store(config.data_dir, create=False)
    try:
        found["outbox"] = store.counts(str(found.get("run", "")))
        found["trained"] = store.standing(str(found.get("run", "")))[0]
    finally:
        store.close()
    click.echo(json.dumps(found, indent=1) if as_json else "\n".join(_lines(found)))


def _lines(found: dict[str, Any]) -> list[str]:
    doing = found["doing"] if found["running"] else "not running"
    link = (
        "connected"
        if found["running"] and found["connected"]
        else f"not connected {found['trouble']}".strip()
    )
    run, method = found["run"] or "none yet", found["method"] or "no method"
    rows = {
        "device": f"{found['agent']} in fleet {found['fleet']}: {doing}",
        "broker": f"{found['broker']}: {link}",
        "run": f"{run}, {method}, round {found['round']} {found['phase']}",
        "trained": f"up to round {found['trained']}",
        "outbox": ", ".join(f"{n} {what}" for what, n in sorted(found["outbox"].items()))
        or "empty",
        "samples": f"{found['samples']} of {len(found['classes'])} classes",
        "accuracy": ", ".join(f"{name} {value:.4f}" for name, value in found["accuracy"])
        or "not measured yet",
        "today": f"{found['bytes_today'] / 1e6:.2f} MB over the link",
    }
    if found["refusal"]:
        rows["refuses"] = found["refusal"]
    return [f"{name:<9} {value}" for name, value in rows.items()]
