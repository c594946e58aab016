"""Answers to the daemon whose child this process is: it says them on the device's own connection,
under the device's own signature.

A line each on standard output, a number before it; a line on standard input for each says what
became of that number: `ok`, `later` or `no`.
"""

from __future__ import annotations

import queue
import time
from typing import BinaryIO

from edge_agent.cameras.saying.outlets import Unsaid, Unwelcome

OK, LATER, NO = "ok", "later", "no"
PATIENCE = 60.0  # seconds: longer than a daemon is ever busy with something else


class RelaySender:
    """One line at a time; `outcomes` are the lines that the daemon answers with, an empty one when
    it has left.
    """

    def __init__(self, out: BinaryIO, outcomes: queue.Queue[str]) -> None:
        self._out, self._outcomes, self._number = out, outcomes, 0

    def send(self, line: str) -> None:
        """Hand it over, and wait for what becomes of it."""
        self._number += 1
        try:
            self._out.write(f"{self._number} {line}\n".encode())
            self._out.flush()
        except OSError as error:
            raise Unsaid(f"the daemon does not listen ({error.strerror})") from None
        match self._outcome():
            case "ok":
                return
            case "no":
                raise Unwelcome("the fleet's broker does not allow it")
            case _:
                raise Unsaid("the fleet's broker is not reached")

    def idle(self) -> None:
        """Nothing is said unasked."""

    def close(self) -> None:
        """The daemon closes its ends."""

    def _outcome(self) -> str:
        end = time.monotonic() + PATIENCE
        while (remaining := end - time.monotonic()) > 0:
            try:
                number, _, words = self._outcomes.get(timeout=remaining).partition(" ")
            except queue.Empty:
                break
            # What became of one that was given up meanwhile is no answer to this one.
            if number in ("", str(self._number)):
                return words
        return LATER
