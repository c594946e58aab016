"""The fleet's extractor on a device: fetched, tested, and what this device has to say through it
made and brought to the ledger.

The bundle lies at `fleet.pfb` in the device's directory, for `edge-agent infer` too; it is replaced
by one that passed its self-test and by no other.
"""

# Theory of operation
#
# The channel `stable` retains two things: a state, whose lineage says whether it belongs to an
# extractor for all and names that extractor's bundle, and a slip for the bundle's bytes. A third is
# on the channel `total`: the sums, against which a device counts. Testing a bundle, embedding
# samples and counting need onnxruntime, all samples or a large matrix, so they are done by a
# process of its own, `edge-agent summarise`; the daemon stays small and polls for its end. It does
# not even unpack what came: that, too, is done by a process that has next to nothing
# (`inference.sandbox`), which `summarise` starts before it opens a bundle that waits for its test.
#
#   fleet.pfb               the bundle that is in use: it passed its self-test
#   fleet-<name>.pfb        one that was fetched and waits for its test
#   *.state.cbor            beside either: the channel's state, for `edge-agent infer`
#   *.total.cbor            beside it: the newest total that was fetched
#   *.enrolled/             beside it: classes that were enrolled here (`updates.enrolment`)
#   *.contributed/          beside it: features, contribution, counts (`contributing.statement`)
#
#   what happens                           what is done
#   the channel names another bundle       what waits is removed, it is fetched (unless it is in
#                                          use, or waits for its test already)
#   its last chunk came                    fleet-<name>.pfb
#   a bundle waits, or samples changed     the process is started
#   it ended well                          its contribution is offered (`deliver`)
#   it failed, the bundle waits still      the self-test failed: the bundle is never fetched again;
#                                          after MANY the next ones wait for their test
#   it failed, the bundle is in use        nothing to say: tried again later and later
#   a class was enrolled here              its contribution is offered, too
#   the fleet has a budget                 the bundle is fetched and tested, and nothing is said
#                                          here: rounds ask for it (`contributing.answering`)
#   the state asks this device to count    the total is fetched, the process counts, the counts are
#                                          offered; once a total, and only after the device's own
#                                          contribution was taken
#   another one is rolled out to this      it is tried beside the one in use (`candidate`), and is
#     device                               in use once it passed; then as above
#   the channel names the one before       it lies beside as `previous.pfb`, and is in use at once
#   the channel has none any more          the one in use becomes `previous.pfb`
#   a byte of fleet.pfb is damaged         it is removed, and fetched anew
#   a class was enrolled, or things        the total is fetched: a row of the class takes it, and
#     were seen, no total here             to tell which unknown ones are alike, and from drift
#
# The process moves the bundle over `fleet.pfb` as soon as the self-test has passed, before it reads
# the samples; hence a bundle that waits still tells which of the two failed. The daemon learns what
# is in use from the file alone, so a crash at any point leaves nothing to repair.
#
# Who counts: a share of the devices that the state names, drawn from the total's hash and the
# device's name, so that nobody has to be chosen, and others are another time.

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from edge_agent.config import Config
from edge_agent.contributing import statement
from edge_agent.daemon.deliver import COUNTS, FIRST_WAIT, LONGEST_WAIT, OWN, Deliveries
from edge_agent.daemon.outbound import Outbound
from edge_agent.daemon.summing import LedgerSums
from edge_agent.daemon.transfers import Transfers
from edge_agent.trials.candidate import Candidate
from edge_agent.trials.progress import ChannelState, Course
from edge_agent.updates import cache
from edge_agent.updates.fetch import Fetch, Fetched
from edge_agent.worker.process import ChildProcess, Start, last_words, report_of
from protofleet import wire
from protofleet.errors import LinkBusy, TrustError, WireError
from protofleet.exchange import archive, gathered, published
from protofleet.exchange.archive import LARGEST_BUNDLE
from protofleet.exchange.published import STABLE, About
from protofleet.exchange.rollouts import CANARY
from protofleet.member import membership
from protofleet.mqtt.blobs.descriptor import BlobDescriptor
from protofleet.mqtt.blobs.receiver import Blob, device_receiver
from protofleet.mqtt.topics import TopicParts
from protofleet.trust.listing import BundleList
from protofleet.trust.sequence import DAEMON
from protofleet.util.files import OWN_FILE, write_whole
from protofleet.util.logs import Log

POLL = 0.2  # seconds between looks at the process
LOOK = 1.0  # seconds between looks for classes that were enrolled
# Bytes of what a channel has; a thousand classes of 1,280 numbers are three times less, and sums
# over 4,096 numbers are half of it.
LARGEST_STATE, LARGEST_TOTAL = 8 << 20, 32 << 20
TOTAL = "total"  # the channel of the sums
MANY = 3  # bundles that failed, one after the other: further ones wait for their test
SPOKEN_BY = ("minimum", "changed", "rank")  # what the fleet's settings say of contributions
NOTHING = About("none", ())


@dataclass(frozen=True)
class _ChannelWord:
    """What a channel said last: the message, what is in it, and of which run."""

    payload: bytes
    state: ChannelState
    run: str


class Adoption:
    """`uploads` carries contributions where they are large, as it does uploads."""

    def __init__(
        self,
        config: Config,
        outbound: Outbound,
        uploads: Transfers,
        log: Log,
        clock: Callable[[], float],
        start: Start,
        sums: LedgerSums | None = None,
    ) -> None:
        self._sums = sums  # where what is said to a ledger may have to be masked
        self._config, self._outbound, self._log = config, outbound, log
        self._clock, self._start = clock, start
        self.deliveries = Deliveries(config, outbound, uploads, log, clock)
        if sums is not None:
            sums.offer = self.deliveries.offer
        folder = config.data_dir
        self.file = folder / cache.DAEMON
        spool = folder / "bundle-spool"
        self._receiver = device_receiver(
            outbound.topics, config.id, spool, outbound, clock, LARGEST_BUNDLE, LARGEST_STATE
        )
        member = membership.of_folder(folder)
        # Of a fleet by invitation, which may say which bundles there are.
        self._listing = None if member is None else BundleList(member.listing(DAEMON))
        listed = None if self._listing is None else self._listing.check
        self._fetch = Fetch(self._receiver, listed)
        self._in_use = archive.name_of(self.file)
        self.candidate = Candidate(config, self.file, outbound, log, clock, start)
        self._channels: dict[str, _ChannelWord] = {}
        self._about, self._run = NOTHING, ""  # of what is followed
        before = cache.read(cache.state_file(self.file))
        self._lineage = "" if before is None else before.bank.about.lineage  # of what is in use
        self._state = b""
        self._rules: tuple[str, ...] = ()  # the fleet's, as flags
        self._speech_due = False  # of the samples as they are, by the bundle that the channel names
        self._total: tuple[TopicParts, wire.Message] | None = None  # announced, and how
        self._total_here = ("", "")  # what was fetched: its digest, and which total it is
        self._counting, self._counted = "", ""  # totals: being counted against, and of no use
        self._process: ChildProcess | None = None
        self._tested = ""  # the bundle that the process tests, and may have moved already
        self._counts = ("", ("", ""))  # which total it counts against, and the file that it reads
        self._enrolled_at, self._enrolled_stamp, self._enrolled = 0.0, 0, 0
        self._uses_total = False  # for a class of its own, or for what was seen here
        self._remarked = ""  # what was said last of samples that are not in it
        self._next_at, self._wait = 0.0, FIRST_WAIT
        self._bad, self._test_at = 0, 0.0  # bundles in a row that failed, and when to try another

    @property
    def bundles(self) -> tuple[str, str]:
        """The bundle in use, and the one that the channel names."""
        return self._in_use or "", self._named

    @property
    def _named(self) -> str:
        """The bundle that the channel names."""
        return self._about.bundle

    @property
    def _new(self) -> Path:
        """Where a bundle waits for its test."""
        return self.candidate.waiting_file(self._named)

    @property
    def ready(self) -> bool:
        """Whether what the fleet sees through is here."""
        return self._fits

    @property
    def _fits(self) -> bool:
        """Whether the bundle in use is the one that the channel names."""
        return bool(self._named) and self._in_use == self._named

    def take_in(self, place: TopicParts, payload: bytes) -> None:
        """What comes over the link; most of it is for others, too. One of our errors if it cannot
        be used.
        """
        try:
            if self._config.agent.take_bundle:
                self._take_in(place, payload)
        except OSError as error:
            self._log.warning(f"the fleet's bundle finds no room on the disk: {error.strerror}")

    def _take_in(self, place: TopicParts, payload: bytes) -> None:
        match place.kind, place.rest:
            case "proto", (channel_name,) if channel_name in (STABLE, CANARY):
                if payload:
                    self._blob_complete(self._state_blob(place, payload))
                else:
                    self._channels.pop(channel_name, None)
                    self._none_said(channel_name)
            case "rollout", _:
                self.candidate.take_plan(payload)
                self._fetch.allow()
                self._steer()
            case "proto", (channel_name,) if channel_name == TOTAL:
                self._total_announced(place, payload)
            case "bundle", (channel_name,) if channel_name in (STABLE, CANARY):
                self._follow_fetch(lambda: self._fetch.announced(place, payload))
            case "listing", _ if payload and self._listing is not None:
                self._listing.take(payload)
                self._follow_fetch(self._fetch.again)
            case "own_chunk", _:
                self._blob_complete(self._receiver.chunk(place, payload))
            case "receipt", _ if payload and self.deliveries.due is not None:
                self.deliveries.receipt(wire.decode(payload))
                self._want_total()  # what was taken may be counted now
            case "round", _ if payload:
                self._settings(wire.decode(payload))

    def _state_blob(self, place: TopicParts, payload: bytes) -> Blob | None:
        """The channel's state; None while a large one is still on its way."""
        message = _slip(payload)
        size = len(payload) if message is None else BlobDescriptor.from_body(message.body).size
        if size > LARGEST_STATE:
            raise WireError(f"classes of {size} bytes, at most {LARGEST_STATE} are due")
        if message is None:
            return Blob(place, payload)
        owner = None if place.rest == (STABLE,) else CANARY
        return self._receiver.announce(place, message, owner)

    def _total_announced(self, place: TopicParts, payload: bytes) -> None:
        """A total is fetched by those alone who need it."""
        message = _slip(payload) if payload else None
        self._total = None if message is None else (place, message)
        if payload and message is None:
            self._total_came(payload)
        self._want_total()

    def _settings(self, message: wire.Message) -> None:
        hyper = message.body.get("hyper")
        if message.envelope.method != "fleet" or not isinstance(hyper, Mapping):
            return
        numbers = {name: hyper.get(name) for name in SPOKEN_BY}
        words = [(f"--{name}", str(n)) for name, n in numbers.items() if type(n) is int]
        words += [("--covariance", "off")] if hyper.get("covariance") == "off" else []
        rules = tuple(word for pair in words for word in pair)
        if rules != self._rules:
            self._rules, self._speech_due = rules, bool(self._named) and self._speaks
            self._enrolled_stamp = 0  # they say of classes that were enrolled, too, what goes out

    def due(self, *, connected: bool) -> float:
        """When to look again; never, if nothing goes on."""
        if self._process is not None or self.candidate.busy:
            return self._clock() + POLL
        times = [self._start_at] if self._ready else []
        times.append(self.candidate.due)
        if self._fits:
            times.append(self._clock() + LOOK)
        if connected:
            times += [at for at in (self._receiver.due, self.deliveries.due) if at is not None]
        return max(min(times, default=float("inf")), self._clock() + POLL)

    @property
    def _ready(self) -> bool:
        """Whether there is something to be done by a process."""
        return bool(self._named) and (
            self._new.exists() or (self._fits and (self._speech_due or bool(self._counting)))
        )

    @property
    def _start_at(self) -> float:
        return max(self._next_at, self._test_at) if self._new.exists() else self._next_at

    def connected(self) -> None:
        """What was not answered is worth another try."""
        self._receiver.connected()
        self.deliveries.connected()
        self.candidate.connected()
        self._retry_now()

    def samples_changed(self) -> None:
        """There may be something else to say now."""
        self._speech_due = self._speaks
        self._retry_now()

    def look(self, *, may_send: bool) -> None:
        """Do what is due."""
        if self._process is not None:
            self._check_process(self._process)
        elif self._ready and self._clock() >= self._start_at and not self.candidate.busy:
            self._start_process()
        else:
            self._look_at_candidate()
        if self._fits and self._clock() >= self._enrolled_at:
            self._enrolled_at = self._clock() + LOOK
            if self._speaks:
                self._offer_enrolled()
            self._look_for_use()
        if may_send:
            with suppress(LinkBusy):
                self._receiver.ask_due()
                if self._sums is None or self._sums.may_speak(self._run):
                    self.deliveries.look()

    def stop(self) -> None:
        """The daemon leaves."""
        self.candidate.stop()
        if self._process is not None:
            self._process.terminate()

    def report(self, run: str, epoch: int, *, may_send: bool) -> None:
        """Say what this device runs, if that is news."""
        if self._config.agent.take_bundle:
            self.candidate.report(self._in_use, run, epoch, may_send=may_send)

    def _look_at_candidate(self) -> None:
        """What is rolled out to this device; it may change what is in use."""
        candidate, stable = self.candidate, self._channels.get(STABLE)
        if stable is None or not self._config.agent.take_bundle:
            return  # what the fleet has is not known yet
        at_rest, wants = self._fits or not self._named, candidate.wants
        try:
            changed = candidate.look(self._in_use, self._trial_states(stable), at_rest=at_rest)
        except OSError as error:
            self._log.warning(f"what is rolled out finds no room: {error.strerror}")
            return
        if changed:
            self._in_use = archive.name_of(self.file)
            self._steer()
        if candidate.wants != wants:
            self._refetch()

    def _trial_states(self, stable: _ChannelWord) -> tuple[bytes, bytes]:
        """The classes for what is in use, and for the candidate; empty: its own."""
        plan, canary = self.candidate.plan, self._channels.get(CANARY)
        state = self._state
        if plan.state:
            fits = canary is not None and canary.state.digest == plan.state
            return state, canary.payload if canary is not None and fits else b""
        if plan.lineage == stable.state.about.lineage:
            return state, stable.payload
        fits = canary is not None and canary.state.about.lineage == plan.lineage
        return state, canary.payload if canary is not None and fits else b""

    def _blob_complete(self, blob: Blob | None) -> None:
        if blob is None:
            return
        file = blob.file
        if file is not None and blob.parts.rest == (TOTAL,):
            self._total_fetched(file)
        elif file is not None:
            self._follow_fetch(lambda: self._fetch.whole(file))
        else:
            self._state_came(str(blob.parts.rest[0]), blob.payload)

    def _state_came(self, channel: str, payload: bytes) -> None:
        state = published.read(payload)
        word = ChannelState(state.bank.about, state.digest)
        self._channels[channel] = _ChannelWord(payload, word, state.envelope.run or "")
        self._steer()

    def _none_said(self, channel: str) -> None:
        """A channel has nothing any more."""
        if channel == STABLE:
            self._channels[STABLE] = _ChannelWord(b"", ChannelState(NOTHING, ""), self._run)
        self._steer()

    def _steer(self) -> None:
        """Follow whose word counts here by now."""
        stable, canary = self._channels.get(STABLE), self._channels.get(CANARY)
        if stable is None:
            return
        course = self.candidate.course(
            self._in_use, self._lineage, stable.state, None if canary is None else canary.state
        )
        word = stable if course.source == "stable" else canary
        if course.source == "own" or word is None:
            word = self._own_word(course)
        about = word.state.about
        if about.lineage.startswith("extractor:") and course.bundle:
            about = replace(about, bundle=course.bundle)
        else:
            about = NOTHING
        self._follow(word.payload, about, word.run)

    def _own_word(self, course: Course) -> _ChannelWord:
        """What was said last of the bundle that this device stays with."""
        if self._named == course.bundle:
            return _ChannelWord(self._state, ChannelState(self._about, ""), self._run)
        before = cache.read(cache.state_file(self.file))
        if before is None:
            return _ChannelWord(b"", ChannelState(NOTHING, ""), self._run)
        about, run = before.bank.about, before.envelope.run or ""
        payload = cache.state_file(self.file).read_bytes()
        return _ChannelWord(payload, ChannelState(about, before.digest), run)

    def _follow(self, payload: bytes, about: About, run: str) -> None:
        before, total, self._state = (self._named, self._run), self._about.total, payload
        if about.bundle != self._named:
            self._clear()
        self._about, self._run = about, run
        self._change_back()
        if before != (self._named, self._run):
            self._speech_due = bool(self._named) and self._speaks
            folder = statement.folder_of(self.file, about.lineage) if self._named else None
            self.deliveries.under(folder, run)
            self._enrolled_stamp = self._enrolled = 0
            self._retry_now()
        if self._fits:
            self._lineage = about.lineage
            if self._state:
                write_whole(cache.state_file(self.file), self._state, mode=OWN_FILE)
        self._refetch()
        if about.total != total:
            self._counting = ""
            self.deliveries.withdraw(COUNTS)
        self._want_total()

    def _change_back(self) -> None:
        """What was in use before is, again; and nothing is where the fleet has no extractor."""
        if self._in_use == self._named:
            return
        if self.candidate.restore(self._named):
            self._in_use = self._named
        elif self._in_use and not self._named and self._is_withdrawn:
            self.file.replace(self.candidate.previous)
            self._log.warning(
                "the fleet has no extractor any more: this device's bundle is set aside",
                bundle=self._in_use[:16],
                file=self.candidate.previous.name,
            )
            self._in_use = ""

    @property
    def _is_withdrawn(self) -> bool:
        """Whether the fleet says that it has no bundle, and not merely none for this device."""
        stable = self._channels.get(STABLE)
        return stable is not None and not stable.state.about.bundle

    def _refetch(self) -> None:
        """Fetch what is to be used here, or else what is to be tried."""
        here = self._fits or self._new.exists() or self._tested == self._named
        wish = self.candidate.wants if here or not self._named else self._named
        self._follow_fetch(lambda: self._fetch.want(wish))

    def _follow_fetch(self, fetching: Callable[[], Fetched | None]) -> None:
        try:
            fetched = fetching()
        except TrustError as error:  # the rest of what was said is taken all the same
            self._log.warning(f"the bundle that the channel names is not fetched: {error}")
            return
        if fetched is None:
            return
        # Nothing of it is read here: it may be anything, and its test is a process of its own.
        size = fetched.file.stat().st_size
        fetched.file.replace(self.candidate.waiting_file(fetched.name))
        self.candidate.wants = ""
        self._fetch.want("")
        self._log.info("the fleet's bundle came", bundle=fetched.name[:16], bytes=size)

    @property
    def _speaks(self) -> bool:
        """Whether devices say what they have by themselves."""
        return not self._about.by_rounds

    def _asks_us(self) -> bool:
        """Whether the state asks this device to count against its total, and it has not yet."""
        total, done = self._about.total, (self._counted, self.deliveries.taken(COUNTS))
        if not (total and self._fits and self.deliveries.taken(OWN)) or total in done:
            return False
        if self._counts[0] == total or self.deliveries.offers(COUNTS, total):
            return False  # it is at it
        return drawn(total, self._config.id) < self._about.asked

    def _want_total(self) -> None:
        """Fetch what was announced, if it is of use here."""
        asked_us = self._asks_us()
        needs_one = self._uses_total and not cache.total_file(self.file).exists()
        if self._total is None:
            pass
        elif asked_us or needs_one:
            place, message = self._total
            base, digest = message.envelope.base, str(message.body.get("digest"))
            if base in (None, self._about.total) and digest != self._total_here[0]:
                if BlobDescriptor.from_body(message.body).size > LARGEST_TOTAL:
                    raise WireError(f"a total of more than {LARGEST_TOTAL} bytes")
                self._blob_complete(self._receiver.announce(place, message, TOTAL))
                return
        usable = self._total_here[0] and self._total_here[1] in ("", self._about.total)
        if asked_us and usable and not self._counting:
            self._counting = self._about.total
            self._retry_now()

    def _total_came(self, payload: bytes) -> None:
        write_whole(cache.total_file(self.file), payload, mode=OWN_FILE)
        envelope = wire.unseal(payload)[0]
        self._total_here = (sha256(payload).hexdigest(), envelope.base or "")
        self._want_total()

    def _total_fetched(self, file: Path) -> None:
        """The same as a file, which is not read here: who counts against it looks whose it is."""
        file.replace(cache.total_file(self.file))
        if self._total is not None:
            message = self._total[1]
            self._total_here = (str(message.body.get("digest")), message.envelope.base or "")
        self._want_total()

    def _offer_enrolled(self) -> None:
        """Classes that were enrolled on this device, if they have enough photos."""
        stamp = cache.enrolled_stamp(self.file)
        if stamp == self._enrolled_stamp:
            return
        self._enrolled_stamp = stamp
        rules = dict(_pairs(self._rules))
        minimum, even = int(rules.get("--minimum", "5")), rules.get("--covariance") == "off"
        classes = cache.enrolled(self.file, self._about.lineage)
        self._enrolled = len(classes)
        if classes and self._sums is not None and self._sums.is_masked(self._run):
            self._log.warning("classes that were enrolled stay here: sums are masked")
            return
        for each_class in classes:
            if each_class.photos >= minimum:
                message = each_class.contributed.evened() if even else each_class.message
                # Whoever enrolled it need not know what this device is called, and where.
                name, fleet = self._config.id, self._config.fleet.name
                message = wire.readdressed(message, name, fleet, self._run)
                self.deliveries.offer(f"class/{each_class.label}", message)

    def _look_for_use(self) -> None:
        """Whether the sums are of use on this device since the last look."""
        before = self._uses_total
        self._uses_total = self._enrolled > 0 or cache.recent_folder(self.file).exists()
        if self._uses_total and not before:
            self._want_total()

    def _start_process(self) -> None:
        """Test what came, say what is to be said, and count."""
        config, bundle = self._config, self._new if self._new.exists() else self.file
        words = [sys.executable, "-m", "edge_agent", "summarise", "--json", *self._rules]
        words += ["--id", config.id, "--fleet", config.fleet.name, "--run", self._run]
        words += ["--bundle", str(bundle)]
        if bundle != self.file:
            words += ["--to", str(self.file), "--name", self._named]
            self._tested = self._named
        elif self._counting:
            words += ["--total", str(cache.total_file(self.file))]
            self._counts, self._counting = (self._counting, self._total_here), ""
        # By flags and not by the daemon's file: its settings may have come from the environment.
        words += ["--set", f"limits.nice={config.limits.nice}"]
        for name, setting in vars(config.data).items():
            if setting != "":
                words += ["--set", f"data.{name}={setting}"]
        self._speech_due = False
        self._process = self._start(words)

    def _check_process(self, process: ChildProcess) -> None:
        code = process.poll()
        if code is None:
            return
        self._process, self._tested = None, ""
        report, (counting, file) = report_of(process), self._counts
        self._counts = ("", ("", ""))
        words = last_words(process) or f"the process ended with {code}"
        if code and self._new.exists():
            self._clear()
            self._fetch.refuse()
            self._bad += 1
            if self._bad >= MANY:
                wait = FIRST_WAIT * 2.0 ** min(self._bad - MANY, 10)
                self._test_at = self._clock() + min(LONGEST_WAIT, wait)
            self._log.warning(f"the fleet's bundle cannot be used: {words}")
            return
        self._bad, self._test_at = 0, 0.0
        self._in_use = archive.name_of(self.file)
        if code and counting:
            self._counted, self._speech_due = counting, True  # the next total may be of use
            self._log.warning(f"no counts for the fleet: {words}")
        elif code and report.get("damaged"):
            self._log.error(f"this device's bundle is damaged, and fetched anew: {words}")
            self.file.unlink(missing_ok=True)
            self._in_use, self._speech_due = "", True
            self._fetch.allow()
            self._refetch()
        elif code:
            self._speech_due = self._speaks
            self._retry_later()
            self._log.warning(f"nothing to say through the fleet's extractor: {words}")
        elif self._fits:
            self._clear()
            if counting and report.get("total") != counting and self._total_here == file:
                self._total_here = ("", "")  # of another total than the one that the state names
            self._offer(report, counting)
            self._retry_now()

    def _offer(self, report: Mapping[str, Any], counting: str) -> None:
        """What the process left."""
        folder = statement.folder_of(self.file, self._about.lineage)
        self._remark(report)
        with suppress(OSError):
            write_whole(cache.state_file(self.file), self._state, mode=OWN_FILE)
            # New and of no sample: all of it was taken back.
            if (report.get("samples") or report.get("new")) and self._speaks:
                message = (folder / statement.CONTRIBUTION).read_bytes()
                self._say(OWN, message, gathered.contributing(self._about.lineage))
            if counting and report.get("total") == counting == self._about.total:
                message = (folder / statement.COUNTS).read_bytes()
                self._say(COUNTS, message, gathered.counting(counting), counting)
        self._want_total()

    def _say(self, name: str, message: bytes, purpose: str, mark: str = "") -> None:
        """Bring it to the ledger; or that there is such a message, where sums are masked."""
        said: bytes | None = message
        if self._sums is not None and self._sums.is_masked(self._run):
            said = self._sums.ready(self._run, purpose, message)
        if said is not None:
            self.deliveries.offer(name, said, mark)

    def _remark(self, report: Mapping[str, Any]) -> None:
        """What was read, and once what is not in it."""
        samples, classes = report.get("samples", 0), report.get("classes", ())
        if report.get("new"):
            self._log.info("to be contributed", samples=samples, classes=len(classes))
        notices = "; ".join(report.get("notices", ()))
        if notices and notices != self._remarked:
            self._log.warning(notices)
        self._remarked = notices

    def _clear(self) -> None:
        """Nothing waits for its test any more."""
        for path in (self._new, cache.state_file(self._new)):
            path.unlink(missing_ok=True)

    def _retry_now(self) -> None:
        self._next_at, self._wait = 0.0, FIRST_WAIT

    def _retry_later(self) -> None:
        self._next_at, self._wait = self._clock() + self._wait, min(LONGEST_WAIT, 2 * self._wait)


def drawn(total: str, agent: str) -> float:
    """A number from 0 to 1 that belongs to this device and this total."""
    return int(sha256(f"{total}:{agent}".encode()).hexdigest()[:16], 16) / 2.0**64


def _slip(payload: bytes) -> wire.Message | None:
    """The message, if it stands for one too large for a packet."""
    envelope, body = wire.unseal(payload)
    if envelope.t != "slip":
        return None
    return wire.Message(envelope, wire.decode_body(envelope, body), sha256(body).hexdigest())


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(words[::2], words[1::2], strict=True))
