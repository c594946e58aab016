"""A site between its devices and the fleet above: what is heard there it says here, and what its
devices come to it says there.
"""

# Theory of operation
#
#     fleet above  <--- sums, counts, who is here ---  site  <--- contributions, counts ---  devices
#                  ---- classes, total, bundle ----->        ---- the same, as its own --->
#
# Downward a site is a coordinator like any other, with the whole of `coordinator.core`: it takes
# contributions in, journals and receipts them, forgets devices. Upward it is one member, like a
# device: it says who it is, contributes, counts, and is answered. Between the two lies one journal
# and one rule: what is said upward is made of what the journal holds, and of nothing else. So there
# is nothing to repair, whenever it dies:
#
#   dies                                   the next life
#   after a device's contribution is       makes the same sum of the journal, and says it
#     journalled, before it is said above
#   after it is said, before the receipt   says it again: the same bytes, answered as before
#   after the receipt, before it is noted  the same
#   at any instant above                   is answered by the next life there
#
# Offline. Nothing waits for the line: devices contribute, count against the newest total that is
# known here, and classify with the newest classes. When it is back, one message says what all of it
# comes to. What the fleet above said last is kept beside the journal (`above/`), and is held to
# nothing but its own form: the fleet above retains it, and says it again.
#
#   heard above        done
#   round              held to what this site's run was agreed to be; another is trouble, and
#                      nothing is said upward until it is the same again. Of a method of rounds:
#                      the same round opens here, and its cut goes up as one upload
#   train              what came of a round: the state that devices go on from
#   stable, proto      the classes that its devices are shown
#   stable, bundle     fetched, and brought to all of its devices, as `coordinator freeze` does
#   total, proto       what its devices count against
#   receipt            `deliveries`
#   anything of a      nothing: it is of a life that was overruled
#     lower epoch
#
# Trees. A site may speak for sites as well as for devices: its ledger has their sums, and its own
# sum is of all of them. Names of devices go all the way up, for what is drawn by name.

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import protofleet
from coordinator.core import Core
from coordinator.errors import JournalError
from coordinator.ledger.above import Above
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.versions import CountTotal
from coordinator.relay import statement
from coordinator.relay.agreement import FleetAgreement
from coordinator.relay.deliveries import COUNTS, ROUND, SUMS, SiteDeliveries, TakenBook
from coordinator.relay.member import SiteMember
from coordinator.relay.statement import SiteVoice
from coordinator.relay.uplink import Uplink
from coordinator.rounds.following import RoundAbove
from protofleet import wire
from protofleet.errors import FleetError, FusionError, WireError
from protofleet.exchange import contributed, published
from protofleet.exchange.lots import read_lots
from protofleet.exchange.published import STABLE
from protofleet.exchange.state import GlobalState
from protofleet.mqtt.blobs.descriptor import BlobDescriptor
from protofleet.mqtt.link import events as broker
from protofleet.mqtt.link.events import Publication, Will
from protofleet.mqtt.topics import TopicParts, Topics
from protofleet.settings.fields import from_plain, to_plain
from protofleet.util.files import OWN_FILE, own_folder, write_whole
from protofleet.util.logs import Log
from protofleet.wire import Envelope, Message, epochs
from protofleet.wire.codes import RoundPhase, UploadStatus

RELAYED = "relayed"  # what the journal calls what the fleet above has taken
SITE = "site"  # and its name, of a journal that is one
ABOVE = "above"  # the folder with what it said last
LARGEST_TOTAL = 64 << 20


@dataclass(frozen=True)
class SiteTerms:
    """Who a site is above, and what its run was agreed to be."""

    fleet: str
    name: str
    boot: str
    agreement: FleetAgreement
    folder: Path
    interval: float = 1.0  # seconds from one sum to the next: devices come in swarms

    @property
    def topics(self) -> Topics:
        """Of the fleet above."""
        return Topics(self.fleet)


class SiteRelay:
    """Driven by the service, in its thread: `look` with every turn."""

    def __init__(
        self,
        core: Core,
        uplink: Uplink,
        terms: SiteTerms,
        log: Log,
        member: SiteMember | None = None,
    ) -> None:
        self._core, self._uplink, self._terms, self._log = core, uplink, terms, log
        self._member = member  # of a fleet by invitation
        self._bundle: tuple[TopicParts, bytes] | None = None  # as it is announced
        self._deliveries = SiteDeliveries()
        self._run, self._epoch = "", -1  # of the fleet above
        self._differs = ""  # what it agreed on otherwise
        self._bad = ""  # a bundle that cannot be used: its digest
        self._fetch_again = False
        self._wanted = ""  # the bundle that is on its way: its name
        self._above = Above()  # as it is on disk
        # What the newest statements were made of.
        self._ledger: Ledger | None = None
        self._counted: tuple[CountTotal, str] | None = None
        self._cut = 0  # the newest round that was said
        self._say_at = 0.0
        self._seq = 0

    # a life

    def recover(self) -> None:
        """Stand where the journal and the folder are."""
        book = json.loads(self._core.journal.meta(RELAYED) or "{}")
        self._deliveries = SiteDeliveries(from_plain(TakenBook, book))
        self._run = self._deliveries.book.run
        self._ledger = self._counted = None
        self._above = self._read()
        self._core.keeper.follow(self._above)

    def start(self) -> None:
        """Look for the fleet above, for as long as it takes."""
        self._uplink.link.subscribe(self._uplink.filters)
        self._uplink.link.start()

    def stop(self) -> None:
        """Leave in good order: it is expected back."""
        farewell = Publication(
            self._terms.topics.state(self._terms.name), death(self._terms), retain=True
        )
        self._uplink.link.stop([farewell], patience=2.0)

    @property
    def document(self) -> dict[str, Any]:
        """How it stands with the fleet above, for people and programs."""
        offer, deliveries = self._deliveries.under_way, self._deliveries
        return {
            "up": str(self._uplink.link.address),
            "site": self._terms.name,
            "connected": self._uplink.link.connected,
            "run": self._run,
            "taken": sorted(deliveries.book.digests),
            "waiting": "" if offer is None else offer.name,
            "trouble": self._trouble,
        }

    @property
    def _trouble(self) -> str:
        if self._differs:
            return f"the fleet above agreed on another {self._differs} than this site's run has"
        return self._deliveries.trouble

    def look(self, now: float) -> list[Publication]:
        """What the fleet above said, for the devices; and what they came to, on its way."""
        arrivals, publications = [], list[Publication]()
        for event in self._uplink.link.poll(0.0):
            if isinstance(event, broker.Arrival):
                arrivals.append(event)
            else:
                self._handle(event)
        try:
            again, self._fetch_again = self._fetch_again, False
            publications += self._fetch(now) if again else []
            for place, payload, file in self._uplink.opened(arrivals):
                publications += self._heard(place, payload, file, now)
            self._keep()
            self._speak(now)
            if self._member is not None:
                self._member.renewal.look(connected=self._uplink.link.connected)
            self._uplink.push()
        finally:
            # What could not be written down is retained above, or asked for again.
            self._uplink.link.ack(*arrivals)
        return publications

    def _handle(self, event: broker.Event) -> None:
        link = self._uplink.link
        match event:
            case broker.Connected(_, protocol):
                self._log.info("the fleet above is reached", broker=link.address, mqtt=protocol)
                self._uplink.connected()
                self._deliveries.retry()
                self._birth()
            case broker.Lost(reason):
                self._log.warning(f"the fleet above is out of reach, trying on: {reason}")
            case broker.Refused(reason):
                self._log.error(f"the broker above refuses this site: {reason}")
            case broker.Denied(topic, reason):
                self._log.warning(f"the broker above does not allow {topic}: {reason}")

    def _birth(self) -> None:
        """Who is there; and that it is no device."""
        self._seq += 1
        terms = self._terms
        body = {
            "online": True,
            "version": protofleet.__version__,
            "wire": [wire.VERSION],
            "site": True,
        }
        head = Envelope("birth", terms.fleet, agent=terms.name, boot=terms.boot, seq=self._seq)
        if self._run:
            head = replace(head, run=self._run, epoch=max(self._epoch, 0))
        self._uplink.say(terms.topics.state(terms.name), wire.encode(head, body), retain=True)

    # what is heard

    def _heard(
        self, place: TopicParts, payload: bytes, file: Path | None, now: float
    ) -> list[Publication]:
        try:
            if file is not None:
                return self._heard_file(place, file, now)
            if place.kind in ("listing", "certificate"):
                return self._heard_as_member(place, payload, now)
            if not payload or self._is_current(wire.unseal(payload)[0]):
                return self._heard_word(place, payload, now)
        except (FleetError, OSError) as error:
            if isinstance(error, JournalError):
                raise
            self._log.warning(f"what the fleet above said cannot be used: {error}")
        return []

    def _heard_word(self, place: TopicParts, payload: bytes, now: float) -> list[Publication]:
        match place.kind, place.rest:
            case "round", _ if payload:
                return self._agreed(wire.decode(payload), now)
            case "shared_state", _ if payload:
                return self._state(wire.decode(payload), now)
            case "proto", (name,) if name == STABLE:
                return self._follow(replace(self._now, classes=_classes(payload)))
            case "proto", _:
                return self._follow(replace(self._now, total=_total(payload)))
            case "bundle", _ if payload:
                self._bundle = place, payload
                return self._fetch(now)
            case "receipt", _ if payload:
                self._receipt(wire.decode(payload).body, now)
        return []

    @property
    def _now(self) -> Above:
        return self._core.keeper.above or Above()

    def _is_current(self, envelope: Envelope) -> bool:
        """Whether it is of the newest life above that was heard."""
        epoch = envelope.epoch
        if envelope.fleet != self._terms.fleet or epoch is None:
            return False
        if epoch > self._epoch and epochs.is_credible(epoch, self._epoch):
            self._epoch = epoch
        return epoch == self._epoch

    def _agreed(self, message: Message, now: float) -> list[Publication]:
        """What the fleet above announces."""
        agreement = FleetAgreement.of(message)
        before, self._differs = self._differs, agreement.differs(self._terms.agreement)
        self._uplink.packet = agreement.packet or self._uplink.packet
        if self._differs and self._differs != before:
            self._log.error(
                f"{self._trouble}: nothing is said upward; another data directory is due"
            )
        if agreement.run != self._run:
            self._run = agreement.run
            self._birth()
        if not agreement.has_rounds or self._differs:
            return []
        envelope, body = message.envelope, message.body
        named, number = body.get("participants"), envelope.round or 0
        lots = read_lots(body, agreement.contract, number)
        is_open = body.get("phase") == RoundPhase.OPEN
        is_open = is_open and (
            named is None
            or self._terms.name in named
            or (lots is not None and lots.ask(self._terms.name))
        )
        above = RoundAbove(number, envelope.base or "", is_open)
        return self._core.follow_round(above, now)

    def _state(self, message: Message, now: float) -> list[Publication]:
        """What came of a round above."""
        state = GlobalState(message.body)
        if message.envelope.t != "global" or message.envelope.base != state.base:
            raise WireError("global: a state under its own hash is due")
        if self._differs or not self._terms.agreement.has_rounds:
            return []
        return self._core.follow_state(message.envelope.round or 0, state, now)

    def _follow(self, above: Above) -> list[Publication]:
        return [] if above == self._now else self._core.follow(above)

    def _heard_as_member(self, place: TopicParts, payload: bytes, now: float) -> list[Publication]:
        member = self._member
        if member is None or not payload:
            return []
        if place.kind == "certificate":
            member.renewal.take_in(payload)
            return []
        member.listing.take(payload)
        return self._fetch(now)  # what the list before did not have it may have now

    def _fetch(self, now: float) -> list[Publication]:
        """The bundle that is announced, where it is another one than the site's."""
        if self._bundle is None:
            return []
        place, payload = self._bundle
        message = wire.decode(payload)
        if message.envelope.t != "slip" or message.body.get("of") != "bundle":
            raise WireError("bundle: a slip for a bundle is due")
        descriptor = BlobDescriptor.from_body(message.body)
        self._wanted = str(message.body.get("bundle", ""))
        if self._wanted == self._core.catalogue.versions[-1].bundle:
            return []
        if descriptor.digest == self._bad:
            return []
        if self._member is not None:
            self._member.listing.check(descriptor.digest, descriptor.size)
        blob = self._uplink.fetch(place, payload)
        if blob is None or blob.file is None:
            return []
        return self._heard_file(blob.parts, blob.file, now)

    def _heard_file(self, place: TopicParts, file: Path, now: float) -> list[Publication]:
        try:
            if place.kind != "bundle":
                if file.stat().st_size > LARGEST_TOTAL:
                    raise WireError(f"a total of more than {LARGEST_TOTAL >> 20} MiB")
                return self._follow(replace(self._now, total=_total(file.read_bytes())))
            self._log.info("the fleet above has another bundle", bundle=self._wanted[:16])
            words = {"file": str(file), "by": "the fleet above"}
            _, said = self._core.classes("freeze", words, now)
            return said
        except JournalError:  # a full disk: once more, when it can be written
            self._fetch_again = place.kind == "bundle"
            raise
        except FleetError:
            self._bad = _digest_of(file)
            raise
        finally:
            file.unlink(missing_ok=True)

    def _receipt(self, body: Any, now: float) -> None:
        if body.get("status") == UploadStatus.MISSING:
            self._uplink.missing(body)
            return
        offer = self._deliveries.answered(body, self._uplink.digest, now)
        if offer is None:
            if words := self._deliveries.trouble:
                self._log.warning(f"the fleet above does not take it: {words}")
            return
        self._uplink.settled()
        with self._core.journal.commit():
            document = json.dumps(to_plain(self._deliveries.book))
            self._core.journal.set_meta(RELAYED, document)
        self._log.info(f"the fleet above has it: {offer.name}", bytes=len(offer.payload))

    # what is said

    def _speak(self, now: float) -> None:
        """Say what the journal has now, where that is news above."""
        keeper, deliveries = self._core.keeper, self._deliveries
        ledger, counted, lineage = (
            keeper.ledger,
            (keeper.tally, keeper.offered.total),
            keeper.ledger.lineage,
        )
        if not self._run or self._differs:
            return
        before = deliveries.book
        deliveries.under(self._run, lineage)
        if deliveries.book != before:
            self._ledger = self._counted = None
            self._cut = 0
        voice = SiteVoice(self._terms.fleet, self._terms.name, self._run)
        if self._core.awaits_state and self._cut != self._core.run_state.number:
            number, message = statement.upload(self._core, voice)
            self._cut = number
            deliveries.offer(ROUND, message, number)
        elif not self._core.awaits_state:
            deliveries.withdraw(ROUND)
        if lineage and ledger is not self._ledger and now >= self._say_at:
            self._ledger, self._counted, self._say_at = ledger, None, now + self._terms.interval
            # Of nothing at all is spoken once: where something was said before.
            if ledger.entries or SUMS in deliveries.book.digests:
                deliveries.offer(SUMS, statement.sums(ledger, voice))
        if lineage and ledger is self._ledger and counted != self._counted:
            self._counted = counted
            self._offer_counts(keeper.tally, ledger, voice)
        if self._uplink.link.connected and (offer := deliveries.due(now)) is not None:
            self._uplink.offer(offer.payload, offer.round)

    def _offer_counts(self, tally: CountTotal, ledger: Ledger, voice: SiteVoice) -> None:
        message = None
        if tally.total and tally.total == self._core.keeper.offered.total:
            message = statement.counted(tally, ledger, voice)
        if message is None:
            self._deliveries.withdraw(COUNTS)
        else:
            self._deliveries.offer(COUNTS, message)

    # what is kept

    def _read(self) -> Above:
        """What the fleet above said last, as far as it is whole."""
        folder, said = self._terms.folder / ABOVE, {}
        for name, check in (("classes", _classes), ("total", _total)):
            try:
                said[name] = check((folder / f"{name}.cbor").read_bytes())
            except (OSError, FleetError):
                said[name] = b""
        return Above(**said)

    def _keep(self) -> None:
        """Whatever changed of it, here or by an operator who forgot a device."""
        now = self._now
        if now == self._above:
            return
        folder = own_folder(self._terms.folder / ABOVE)
        try:
            for name in ("classes", "total"):
                file, data = folder / f"{name}.cbor", getattr(now, name)
                if not data:
                    file.unlink(missing_ok=True)
                elif data != getattr(self._above, name):
                    write_whole(file, data, mode=OWN_FILE)
            self._above = now
        except OSError as error:  # the next start asks for it anew
            self._log.warning(f"what the fleet above said finds no room: {error.strerror}")


def death(terms: SiteTerms) -> bytes:
    """What is said of a site that is out of reach, by itself or by its broker."""
    head = Envelope("birth", terms.fleet, agent=terms.name, boot=terms.boot, seq=0)
    return wire.encode(head, {"online": False, "reason": "lost"})


def will(terms: SiteTerms) -> Will:
    """What the broker above says when the line is cut."""
    return Will(terms.topics.state(terms.name), death(terms))


def _classes(payload: bytes) -> bytes:
    """A channel's state, if it can be read."""
    if payload:
        published.read(payload)
    return payload


def _total(payload: bytes) -> bytes:
    """A total, if it can be read."""
    if payload:
        try:
            contributed.read_spread(payload)
        except FusionError as error:
            raise WireError(error.words) from None
    return payload


def _digest_of(file: Path) -> str:
    from hashlib import sha256

    try:
        return sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""
