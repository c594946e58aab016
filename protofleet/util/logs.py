"""One line a happening, to stderr: UTC time, level, words, and the keys that matter. No settings,
never secrets.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Literal


def utc_now() -> datetime:
    """The wall clock, as logs show it."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Log:
    """Where lines go and how they look; the keys of a call stand at the end of its line."""

    stream: IO[str]
    form: Literal["text", "json"] = "text"
    clock: Callable[[], datetime] = utc_now

    def info(self, words: str, **keys: object) -> None:
        """Something happened as it should."""
        self._write("info", words, keys)

    def warning(self, words: str, **keys: object) -> None:
        """Something that the owner may want to look after."""
        self._write("warning", words, keys)

    def error(self, words: str, **keys: object) -> None:
        """Something that keeps us from our work."""
        self._write("error", words, keys)

    def _write(self, level: str, words: str, keys: dict[str, object]) -> None:
        when = self.clock().strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        words = " ".join(words.split())
        if self.form == "json":
            line = json.dumps({"time": when, "level": level, "message": words, **keys}, default=str)
        else:
            line = " ".join([when, f"{level:<7}", words, *(f"{k}={v}" for k, v in keys.items())])
        try:
            self.stream.write(line + "\n")
            self.stream.flush()
        except (OSError, ValueError):
            return  # whoever read our lines has left; the work goes on
