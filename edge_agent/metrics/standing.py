"""How a device stands, put together from what its processes left on disk: one document for
`edge-agent status`, for its page and for metrics.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edge_agent.daemon.status import alive, read
from edge_agent.store import Store
from edge_agent.updates import sight
from protofleet.errors import FleetError
from protofleet.member import membership

FLEET = "fleet.pfb"  # the fleet's bundle, in the device's directory


class NeverRun(FleetError):
    """Nothing of a daemon is there."""

    code = "never-run"


def standing(data_dir: Path) -> dict[str, Any]:
    """What the daemon said last, whether it runs, what waits in its outbox, and what was seen."""
    document = read(data_dir)
    if not document:
        raise NeverRun(f"{data_dir}: no device has run here yet", "edge-agent run starts one")
    # A daemon that was killed leaves a document that says it runs.
    document["running"] = document.get("doing") != "stopped" and alive(document.get("pid"))
    run = str(document.get("run", ""))
    store = Store(data_dir, create=False)
    try:
        # From the store and not from the document, which may be some seconds old.
        document["outbox"] = store.counts(run)
        document["trained"] = store.standing(run)[0]
    finally:
        store.close()
    outlook = sight.read(data_dir / FLEET)
    document["seen"] = None if outlook is None else asdict(outlook)
    document["disk_free_bytes"] = _free(data_dir)
    document["certificate_end"] = _certificate_end(data_dir)
    return document


def not_ready(data_dir: Path) -> str:
    """Why a device is of no use just now; empty: it is."""
    document = read(data_dir)
    if not document or document.get("doing") == "stopped" or not alive(document.get("pid")):
        return "the daemon does not run"
    if not document.get("connected"):
        return f"no connection to the broker {document.get('trouble', '')}".strip()
    return ""


def _free(data_dir: Path) -> int | None:
    with suppress(OSError):
        return shutil.disk_usage(data_dir).free
    return None


def _certificate_end(data_dir: Path) -> float | None:
    """When the device's certificate ends, as a time of the wall's clock."""
    member = membership.of_folder(data_dir)
    if member is None:
        return None
    from protofleet.errors import TrustError
    from protofleet.trust import certificates

    with suppress(TrustError):
        return certificates.of_pem(member.certificate).not_valid_after_utc.timestamp()
    return None
