"""Whether somebody left something new beside a bundle: a daemon the fleet's classes, a person a
class of their own.
"""

from __future__ import annotations

from pathlib import Path

from edge_agent.inference.classifier import Classifier
from edge_agent.updates import cache
from edge_agent.updates.uses import AnswerCount
from protofleet.exchange import archive
from protofleet.util import files
from protofleet.util.files import Stamp, stamp_of


class Freshness:
    """Whether what lies beside a bundle is still what it was."""

    def __init__(self, bundle: Path) -> None:
        self._bundle = bundle
        self._paths = (
            bundle,
            cache.state_file(bundle),
            cache.enrolled_folder(bundle),
            cache.total_file(bundle),
        )
        self._stamps = self._now()

    def changed(self) -> bool:
        """Since the last time this was asked."""
        before, self._stamps = self._stamps, self._now()
        return before != self._stamps

    def settle(self, classifier: Classifier, uses: AnswerCount) -> None:
        """Use what is there now, and count it as a start where it is another bundle."""
        # Before it is loaded: what ends this process then has been counted.
        uses.begin(archive.name_of(self._bundle))
        cache.settled(classifier, self._bundle)
        uses.ready()

    def _now(self) -> list[Stamp | None]:
        return [stamp_of(path) for path in self._paths]


def kept_by_daemon(bundle: Path) -> bool:
    """Whether a daemon that runs keeps this bundle: what it puts there is what the fleet wants of
    this device, which a channel alone does not say.
    """
    place = bundle.parent
    return bundle.name == cache.DAEMON and (place / "lock").exists() and not files.free(place)
