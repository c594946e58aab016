"""One source that is open: a process that decodes it, asked for a frame at a time."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import numpy as np

from edge_agent.cameras.frames import HEAD, Frame, read_head
from edge_agent.cameras.origins import Origin
from edge_agent.inference import sandbox
from protofleet.errors import DataError
from protofleet.util.extras import check_installed

OPENING, SILENT = 30.0, 15.0  # seconds: longer than the decoder's own patience
PIECE = 1 << 20  # bytes read at a time
LONGEST = 2000  # bytes of what a decoder says of its end


class SourceLost(DataError):
    """A camera that gives no frames, and why."""

    code = "no-frames"


class Player(Protocol):
    """A source that is open."""

    def next(self) -> Frame | None:
        """The first frame from now on, or None if nothing is there yet; `SourceLost` if there will
        be none.
        """

    def interrupt(self) -> None:
        """End a `next` that another thread waits for."""

    def close(self) -> None:
        """Let go of it."""


class StreamPlayer:
    """A stream or a device. Whatever its decoder does, `next` ends in time."""

    def __init__(self, origin: Origin) -> None:
        check_installed("av", "camera", "cameras")
        self._empty = sandbox.empty_folder(Path.cwd())
        self._patience = OPENING
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "edge_agent.cameras.decoder", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self._empty.name,
                env=sandbox.environment(self._empty.name),
                bufsize=0,
            )
        except OSError as error:
            self._empty.cleanup()
            raise SourceLost(f"no process for it: {error.strerror}") from None
        self._say(json.dumps({"kind": origin.kind, "address": origin.address}).encode() + b"\n")

    @property
    def pid(self) -> int:
        """Of the process that decodes."""
        return self._process.pid

    def next(self) -> Frame:
        """The first frame that arrives from now on."""
        self._say(b".")
        end = time.monotonic() + self._patience
        shape, at = read_head(bytes(self._read(HEAD, end)), time.monotonic())
        image = np.frombuffer(self._read(shape[0] * shape[1] * shape[2], end), np.uint8)
        self._patience = SILENT
        return Frame(image.reshape(shape), at)

    def interrupt(self) -> None:
        """End its process, and with it a `next` that waits."""
        self._process.kill()

    def close(self) -> None:
        """The same, and give back what it took."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        # One that is stuck in the kernel, in a device's driver for one, is reaped when it lets go.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)
        self._empty.cleanup()

    def _say(self, words: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(words)
        except OSError:
            raise self._ended() from None

    def _read(self, size: int, end: float) -> bytearray:
        assert self._process.stdout is not None
        pipe, data = self._process.stdout.fileno(), bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while len(data) < size:
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise SourceLost(f"no frame in {self._patience:g} s")
                piece = os.read(pipe, min(PIECE, size - len(data)))
                if not piece:
                    raise self._ended()
                data += piece
        return data

    def _ended(self) -> SourceLost:
        """Why the process did."""
        assert self._process.stderr is not None
        try:
            code = self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            return SourceLost("its decoder closed its pipe")
        words = os.read(self._process.stderr.fileno(), LONGEST).decode(errors="replace")
        lines = words.strip().splitlines()
        if code > 0 and lines:
            last = lines[-1].removeprefix("error: ")
            # It may hold what the camera says, and is going to be logged.
            return SourceLost("".join(c if c.isprintable() else "?" for c in last)[:200])
        return SourceLost(f"its decoder ended with {code}")
