"""How a broker is reached: one section of settings for devices and coordinator, and the address it
makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from protofleet.settings.fields import setting

if TYPE_CHECKING:
    from protofleet.mqtt.address import Address

FILES = ("credentials", "ca", "cert", "key")  # settings that name a file; empty: none


@dataclass(frozen=True)
class BrokerSection:
    """How the broker is reached."""

    url: str = setting(
        "mqtt://127.0.0.1:1883",
        "mqtt://, mqtts://, ws:// or wss://",
        flag="The broker, as mqtt://host:1883.",
        flag_name="broker",
    )
    credentials: str = setting(
        "",
        "a file with user name and password (two lines, or user:password)",
        flag="A file with user name and password.",
    )
    ca: str = setting(
        "",
        "a file with the authority that signed the broker's certificate",
        flag="A file with the authority that signed the broker's certificate.",
    )
    cert: str = setting("", "a file with this device's certificate, where the broker asks for one")
    key: str = setting("", "the file with its key")

    def address(self, environ: Mapping[str, str]) -> Address:
        """Where the broker is, with what it takes to get in; or `UsageError`."""
        # Every command's flags are made from this section, and few commands go to a broker.
        from protofleet.mqtt.address import Address

        paths = {name: Path(text) if (text := getattr(self, name)) else None for name in FILES}
        return Address.parse(
            self.url,
            credentials_file=paths["credentials"],
            environ=environ,
            ca=paths["ca"],
            cert=paths["cert"],
            key=paths["key"],
        )
