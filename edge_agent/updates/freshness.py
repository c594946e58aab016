"""Whether somebody left something new beside a bundle: a daemon the fleet's classes, a person a
class of their own.
"""

from __future__ import annotations

from pathlib import Path

from edge_agent.updates import cache
from protofleet.util.files import Stamp, stamp_of


class Freshness:
    """Whether what lies beside a bundle is still what it was."""

    def __init__(self, bundle: Path) -> None:
        self._paths = (
            cache.state_file(bundle),
            cache.enrolled_folder(bundle),
            cache.total_file(bundle),
        )
        self._stamps = self._now()

    def changed(self) -> bool:
        """Since the last time this was asked."""
        before, self._stamps = self._stamps, self._now()
        return before != self._stamps

    def _now(self) -> list[Stamp | None]:
        return [stamp_of(path) for path in self._paths]
