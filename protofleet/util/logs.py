"""One line a happening, to stderr: UTC time, level, words, and the keys that matter. No settings,
never secrets, and nothing that a terminal obeys.
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


def printable(text: str) -> str:
    """The text as a terminal or a log may show it: what is not a letter, sign or space, a line's
    end and ESC among it, is escaped. Devices and the coordinator write what others read.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode()
        for c in text
    )


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
            document = {"time": when, "level": level, "message": words, **keys}
            # Of ASCII alone, where DEL is what JSON itself leaves as it is.
            line = json.dumps(document, default=str).replace("\x7f", "\\u007f")
        else:
            pairs = (f"{name}={value}" for name, value in keys.items())
            line = printable(" ".join([when, f"{level:<7}", words, *pairs]))
        try:
            self.stream.write(line + "\n")
            self.stream.flush()
        except (OSError, ValueError):
            return  # whoever read our lines has left; the work goes on
