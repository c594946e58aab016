"""How a device reaches its broker: settings in words, and the address they make."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edge_agent.config import BrokerSection
from protofleet.mqtt.address import Address


def address(told: BrokerSection, environ: Mapping[str, str]) -> Address:
    """Where the broker is, with what it takes to get in."""

    def file(text: str) -> Path | None:
        return Path(text) if text else None

    return Address.parse(
        told.url,
        credentials_file=file(told.credentials),
        environ=environ,
        ca=file(told.ca),
        cert=file(told.cert),
        key=file(told.key),
    )
