"""What becomes of a state that the fleet publishes: used, refused, or used with another bundle that
it takes to do so.

What is in use is replaced only by what stands: a state that fits, or a whole bundle that passed its
self-test. What replaced it is then on disk, too, for the next start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edge_agent.inference.bundle import Bundle
from edge_agent.inference.classifier import Classifier, Mismatch
from edge_agent.updates import cache
from edge_agent.updates.fetch import Fetch, Fetched
from protofleet.errors import FleetError, WireError
from protofleet.exchange import published
from protofleet.exchange.published import Published
from protofleet.mqtt.topics import TopicParts
from protofleet.util.files import write_whole
from protofleet.util.logs import Log


@dataclass(frozen=True, eq=False)
class _Held:
    """A state as it came."""

    state: Published
    payload: bytes


class BundleSwitch:
    """A classifier that keeps up with a channel. Every method says whether something came of it
    that was waited for.
    """

    def __init__(self, classifier: Classifier, bundle: Path, fetch: Fetch | None, log: Log) -> None:
        self._classifier, self._bundle, self._fetch, self._log = classifier, bundle, fetch, log
        self._waiting: _Held | None = None
        self._remarked = ""

    @property
    def fetching(self) -> bool:
        """Whether a bundle is on its way."""
        return self._fetch is not None and self._fetch.under_way

    def state(self, payload: bytes) -> bool:
        """The channel's prototypes: used if they fit, or with a bundle on disk, else their bundle
        is fetched.
        """
        try:
            held = _Held(published.read(payload), payload)
            lineage = held.state.bank.about.lineage
            self._waiting = None
            if lineage in self._classifier.bundle.manifest.lineages:
                cache.take(self._classifier, self._bundle, held.state)
                self._used(held)
                return True
            other = cache.fitting(self._bundle, lineage)
            if other is not None:
                return self._change(other, held)
            self._remark(held)
        except (WireError, Mismatch) as error:
            self._log.warning(f"the fleet's prototypes cannot be used: {error}")
            return True
        name = held.state.bank.about.bundle
        if self._fetch is None or not name:
            return True
        self._waiting, fetch = held, self._fetch
        return self._came(lambda: fetch.want(name))

    def announced(self, place: TopicParts, payload: bytes) -> bool:
        """The channel's bundle, as a slip."""
        fetch = self._fetch
        return fetch is not None and self._came(lambda: fetch.announced(place, payload))

    def whole(self, data: bytes) -> bool:
        """The bundle's bytes, put together."""
        fetch = self._fetch
        return fetch is not None and self._came(lambda: fetch.whole(data))

    def _came(self, fetching: Callable[[], Fetched | None]) -> bool:
        try:
            found = fetching()
        except FleetError as error:
            self._log.warning(f"the fleet's bundle cannot be used: {error}")
            return True
        if found is None or self._waiting is None:
            return False
        return self._change(found.bundle, self._waiting, found.data)

    def _change(self, bundle: Bundle, held: _Held, data: bytes | None = None) -> bool:
        """The other bundle with this state, at once and whole; the one in use stays if that cannot
        be.
        """
        bank = cache.with_enrolled(self._bundle, held.state.bank)
        self._waiting = None
        try:
            self._classifier.change(bundle, bank, held.state.digest)
        except FleetError as error:
            self._log.warning(f"the fleet's bundle cannot be used: {error}")
            if self._fetch is not None and data is not None:
                self._fetch.refuse()
            return True
        self._log.info(
            "another bundle", bundle=bundle.digest[:16], lineage=held.state.bank.about.lineage[:60]
        )
        if data is not None:
            self._keep(cache.fleet_file(self._bundle), data)
        self._used(held)
        return True

    def _used(self, held: _Held) -> None:
        if self._fetch is not None:
            self._fetch.want("")
        self._remarked = ""
        self._keep(cache.state_file(self._bundle), held.payload)
        self._log.info(
            "new prototypes",
            state=held.state.digest[:16],
            classes=len(self._classifier.loaded.labels),
        )

    def _remark(self, held: _Held) -> None:
        """Say once why these prototypes are of no use as things stand."""
        about = held.state.bank.about
        if self._remarked == about.lineage + about.bundle:
            return
        self._remarked = about.lineage + about.bundle
        own = self._classifier.bundle.manifest.lineages[0]
        will = (
            f"the bundle {about.bundle[:16]} is fetched"
            if self._fetch and about.bundle
            else "those in use stay"
        )
        self._log.warning(
            f"the fleet's prototypes are of {about.lineage[:60]}, this bundle is of {own[:60]}; {will}"
        )

    def _keep(self, path: Path, data: bytes) -> None:
        try:
            write_whole(path, data)
        except OSError as error:
            self._log.warning(f"{path} cannot be written: {error.strerror}")
