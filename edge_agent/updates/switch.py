"""What becomes of a state that the fleet publishes: used, refused, or used with another bundle that
it takes to do so.

What is in use is replaced only by what stands: a state that fits, or a whole bundle that passed its
self-test. What replaced it is then on disk, too, for the next start.
"""

# Theory of operation
#
# A channel says two things, in any order and again with every connection, because both are
# retained: a state (prototypes of one lineage, and the name of the bundle they are for) and which
# bundle it has. A state is of use only together with an extractor of its lineage:
#
#   the state that came                what happens
#   of the lineage in use              used at once
#   of a bundle on disk                that bundle and the state, at once and whole
#   neither, and it names a bundle     the state waits, the bundle is fetched (`fetch.Fetch`)
#   neither, and nothing to fetch      one line in the log; what is in use stays
#   damaged, or it does not fit        one line in the log; what is in use stays
#
#   the bundle that came               what happens
#   its state waits, it stands         bundle and state, at once and whole; both are kept on disk
#   it fails (hash, graph, self-test)  refused once by its digest, not fetched again; the old stays
#   no state waits for it any more     nothing
#
# That it stands is found out in a process of its own (`inference.sandbox`) before this one opens
# it: whoever may write to the channel may name a bundle that takes a machine down.
#
# A newer state takes the place of one that waits, whatever becomes of it: only the newest counts.
# A state that is used ends the fetching, for then the bundle in use is the right one.
#
# The order of things is: first the classifier, then the disk. If the device goes down in between,
# it starts with the older state and hears the newer one again; the other way round the disk would
# hold what never passed its test. A disk that is full costs the next start, not this one.
#
# Whether it was waited for: a command that classifies once waits for the fleet's first word. Every
# method answers True when that word is final (used, or of no use), and False while a bundle is yet
# to come.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edge_agent.inference import sandbox
from edge_agent.inference.bundle import Bundle, open_bundle
from edge_agent.inference.classifier import Classifier, Mismatch
from edge_agent.updates import cache
from edge_agent.updates.fetch import Fetch, Fetched
from protofleet.errors import FleetError, WireError
from protofleet.exchange import published
from protofleet.exchange.published import Published
from protofleet.mqtt.topics import TopicParts
from protofleet.trust.listing import BundleList
from protofleet.util.files import write_whole
from protofleet.util.logs import Log


@dataclass(frozen=True, eq=False)
class _ReceivedState:
    """A state, and the message it came in."""

    state: Published
    payload: bytes


class BundleSwitch:
    """A classifier that keeps up with a channel. Every method says whether something came of it
    that was waited for.
    """

    def __init__(
        self,
        classifier: Classifier,
        bundle: Path,
        fetch: Fetch | None,
        log: Log,
        listing: BundleList | None = None,
    ) -> None:
        self._classifier, self._bundle, self._fetch, self._log = classifier, bundle, fetch, log
        self._listing = listing
        self._waiting: _ReceivedState | None = None
        self._remarked = ""  # what was said last of prototypes that are of no use

    @property
    def fetching(self) -> bool:
        """Whether a bundle is on its way."""
        return self._fetch is not None and self._fetch.under_way

    def state(self, payload: bytes) -> bool:
        """The channel's prototypes: used if they fit, or with a bundle on disk, else their bundle
        is fetched.
        """
        try:
            received = _ReceivedState(published.read(payload), payload)
            lineage = received.state.bank.about.lineage
            self._waiting = None
            if lineage in self._classifier.bundle.manifest.lineages:
                cache.take(self._classifier, self._bundle, received.state)
                self._used(received)
                return True
            other = cache.fitting(self._bundle, lineage)
            if other is not None:
                return self._change(other, received)
            self._remark(received)
        except (WireError, Mismatch) as error:
            self._log.warning(f"the fleet's prototypes cannot be used: {error}")
            return True
        name = received.state.bank.about.bundle
        if self._fetch is None or not name:
            return True
        self._waiting, fetch = received, self._fetch
        return self._after(lambda: fetch.want(name))

    def announced(self, parts: TopicParts, payload: bytes) -> bool:
        """The channel's bundle, by its descriptor."""
        fetch = self._fetch
        return fetch is not None and self._after(lambda: fetch.announced(parts, payload))

    def listing(self, payload: bytes) -> bool:
        """Which bundles the fleet has; what it did not have before it may have now."""
        if self._listing is None:
            return False
        self._listing.take(payload)
        return self._fetch is not None and self._after(self._fetch.again)

    def whole(self, file: Path) -> bool:
        """The bundle, put together."""
        fetch = self._fetch
        return fetch is not None and self._after(lambda: fetch.whole(file))

    def _after(self, step: Callable[[], Fetched | None]) -> bool:
        """A step of the fetching, and the change if it was the last."""
        try:
            fetched = step()
        except FleetError as error:
            self._log.warning(f"the fleet's bundle cannot be used: {error}")
            return True
        if fetched is None:
            return False
        try:
            return self._waiting is not None and self._tried(fetched, self._waiting)
        finally:
            fetched.file.unlink(missing_ok=True)

    def _tried(self, fetched: Fetched, received: _ReceivedState) -> bool:
        try:
            sandbox.tried(fetched.file, fetched.name)
            bundle = open_bundle(fetched.file)
        except FleetError as error:
            self._refuse(error)
            return True
        return self._change(bundle, received, fetched.file)

    def _refuse(self, error: FleetError) -> None:
        self._waiting = None
        self._log.warning(f"the fleet's bundle cannot be used: {error}")
        if self._fetch is not None:
            self._fetch.refuse()

    def _change(self, bundle: Bundle, received: _ReceivedState, file: Path | None = None) -> bool:
        """The other bundle with this state, at once and whole; the one in use stays if that cannot
        be. `file` is one that was fetched.
        """
        bank = cache.with_enrolled(self._bundle, received.state.bank)
        self._waiting = None
        try:
            self._classifier.change(bundle, bank, received.state.digest)
        except FleetError as error:
            if file is None:
                self._log.warning(f"the fleet's bundle cannot be used: {error}")
            else:
                self._refuse(error)
            return True
        self._log.info(
            "another bundle",
            bundle=bundle.digest[:16],
            lineage=received.state.bank.about.lineage[:60],
        )
        if file is not None:
            self._keep(cache.fleet_file(self._bundle), file.read_bytes())
        self._used(received)
        return True

    def _used(self, received: _ReceivedState) -> None:
        if self._fetch is not None:
            self._fetch.want("")
        self._remarked = ""
        self._keep(cache.state_file(self._bundle), received.payload)
        self._log.info(
            "new prototypes",
            state=received.state.digest[:16],
            classes=len(self._classifier.loaded.labels),
        )

    def _remark(self, received: _ReceivedState) -> None:
        """Say once why these prototypes are of no use as things stand."""
        about = received.state.bank.about
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
            f"the fleet's prototypes are of {about.lineage[:60]}, "
            f"this bundle is of {own[:60]}; {will}"
        )

    def _keep(self, path: Path, data: bytes) -> None:
        try:
            write_whole(path, data)
        except OSError as error:
            self._log.warning(f"{path} cannot be written: {error.strerror}")
