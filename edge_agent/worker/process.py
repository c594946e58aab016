"""A process that the daemon starts for work that needs onnxruntime, all samples or a stranger's
bytes: it is polled, and its words are read when it is over.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Protocol

from protofleet.util.processes import without_secrets


class ChildProcess(Protocol):
    """As much of a process as is needed."""

    @property
    def stdout(self) -> IO[bytes] | None: ...

    @property
    def stderr(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None: ...

    def terminate(self) -> None: ...


Start = Callable[[Sequence[str]], ChildProcess]


def launched(words: Sequence[str]) -> ChildProcess:
    """A process whose words are read when it is over."""
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=without_secrets(os.environ),
    )


def report_of(process: ChildProcess) -> Mapping[str, Any]:
    """What the process printed: one JSON document; empty if it printed none."""
    try:
        document = json.loads(b"" if process.stdout is None else process.stdout.read())
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def last_words(process: ChildProcess) -> str:
    """The last line of its errors; empty if there is none."""
    errors = b"" if process.stderr is None else process.stderr.read()
    lines = errors.decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else ""
