"""What a process of ours hands on to those that it starts."""

from __future__ import annotations

from collections.abc import Mapping

# The broker's password, its user, and all settings that say how the broker is reached: a URL may
# hold a password. No process that we start goes to the broker; the one that trains runs networks,
# libraries and perhaps a `module:function` of others.
SECRET = ("PROTOFLEET_MQTT_", "PROTOFLEET_BROKER_", "CREDENTIALS_DIRECTORY")


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what lets one in at the broker."""
    return {name: text for name, text in environ.items() if not name.startswith(SECRET)}
