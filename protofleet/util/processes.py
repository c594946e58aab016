"""What a process of ours hands on to those that it starts, and that they end when it does."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Mapping

_PR_SET_PDEATHSIG = 1

# The broker's password, its user, and all settings that say how the broker is reached: a URL may
# hold a password. No process that we start goes to the broker; the one that trains runs networks,
# libraries and perhaps a `module:function` of others.
SECRET = ("PROTOFLEET_MQTT_", "PROTOFLEET_BROKER_", "CREDENTIALS_DIRECTORY")


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what lets one in at the broker."""
    return {name: text for name, text in environ.items() if not name.startswith(SECRET)}


def die_with_parent(parent: int) -> None:
    """End at once when whoever started this process does; a signal to all of a daemon's processes
    is the daemon's to answer.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # After the kernel was asked, since a parent that was gone before sends no signal any more.
    if os.getppid() != parent:
        sys.exit(0)
