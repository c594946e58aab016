"""What systemd wants to hear from a service of `Type=notify`: that it is ready, alive, and about to
stop.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


class Notifier:
    """Says nothing where nobody listens."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._place = environ.get("NOTIFY_SOCKET", "")
        ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        micros = environ.get("WATCHDOG_USEC", "0") if ours else "0"
        self.every = (
            int(micros) / 3e6 if micros.isdigit() else 0.0
        )  # three signs of life in the time that is allowed
        self._last = float("-inf")

    def say(self, words: str) -> None:
        """For example `READY=1`."""
        if not self._place:
            return
        place = "\0" + self._place[1:] if self._place.startswith("@") else self._place
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.sendto(words.encode(), place)
        except OSError:
            return

    def alive(self, now: float) -> None:
        """A sign of life, if one is due."""
        if self.every and now - self._last >= self.every:
            self._last = now
            self.say("WATCHDOG=1")
