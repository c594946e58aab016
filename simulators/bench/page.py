"""The page of results."""

from __future__ import annotations

from pathlib import Path


def page(asked: int, out: Path, beside: Path | None) -> str:
    """Not yet."""
    return ""
