"""Packages that only some uses need: a missing one is named in one line, with what installs it."""

from __future__ import annotations

from importlib.util import find_spec

from protofleet.errors import UsageError


def check_installed(package: str, extra: str, use: str) -> None:
    """Refuse this use where the package is not there."""
    if find_spec(package) is None:
        raise UsageError(f"{use} need the package {package}", f"pip install 'protofleet[{extra}]'")
