"""The extractor that the coordinator froze, on a device of the live fleet: fetched, tested, and its
class means sent.

The bundle lies at `fleet.pfb` in the device's directory, for `edge-agent infer` too; it is replaced
by one that passed its self-test and by no other.
"""

# Theory of operation
#
# The channel `stable` retains two things: a state, whose lineage says whether it belongs to a
# frozen extractor and names that extractor's bundle, and a slip for the bundle's bytes. Testing a
# bundle and making means need onnxruntime and all samples, so both are done by a process of its
# own, `edge-agent summarise`; the daemon stays small and polls for its end. It does not even unpack
# what came: that, too, is done by a process that has next to nothing (`inference.sandbox`), which
# `summarise` starts before it opens a bundle that waits for its test.
#
#   fleet.pfb           the bundle that is in use: it passed its self-test
#   fleet-<name>.pfb    one that was fetched and waits for its test
#   *.state.cbor        beside either: the channel's state, for `edge-agent infer`
#   means.cbor          the message with this device's class means
#
#   what happens                           what is done
#   the channel names another bundle       what waits is removed, the means are void, it is fetched
#                                          (unless it is in use, or waits for its test already)
#   its last chunk came                    fleet-<name>.pfb
#   a bundle waits, or means are due       the process is started
#   it ended well                          its means are offered at once
#   it failed, the bundle waits still      the self-test failed: the bundle is never fetched again
#   it failed, the bundle is in use        no means: tried again later and later
#   a receipt for the means                accepted or not, they are not offered any more
#   a new connection                       offered again: the coordinator may have forgotten
#   the samples changed                    means are due again
#
# The process moves the bundle over `fleet.pfb` as soon as the self-test has passed, before it reads
# the samples; hence a bundle that waits still tells which of the two failed. The daemon learns what
# is in use from the file alone, so a crash at any point leaves nothing to repair.
#
# Means travel on the upload topic as round 0 of no run, which no training has, and large ones in
# chunks like any upload.

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Protocol

from edge_agent.config import Config
from edge_agent.daemon.inbound import read_ranges
from edge_agent.daemon.outbound import Outbound
from edge_agent.daemon.transfers import Transfers
from edge_agent.protocol.actions import SendChunks
from edge_agent.updates import cache
from edge_agent.updates.fetch import Fetch, Fetched
from protofleet import wire
from protofleet.errors import LinkBusy, WireError
from protofleet.exchange import archive, published
from protofleet.exchange.archive import LARGEST_BUNDLE
from protofleet.exchange.published import STABLE
from protofleet.mqtt.blobs.receiver import Blob, device_receiver
from protofleet.mqtt.topics import TopicParts
from protofleet.util.files import OWN_FILE, write_whole
from protofleet.util.logs import Log
from protofleet.util.processes import without_secrets
from protofleet.wire.codes import UploadStatus

POLL = 0.2  # seconds between looks at the process
# Of the prototypes that a channel has; a thousand classes of 1,280 numbers are three times less.
LARGEST_STATE = 8 << 20
FIRST_WAIT, LONGEST_WAIT = 10.0, 600.0  # seconds to the next attempt, twice as long each time


class ChildProcess(Protocol):
    """As much of a process as is needed."""

    @property
    def stderr(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None: ...

    def terminate(self) -> None: ...


Start = Callable[[Sequence[str]], ChildProcess]


class Adoption:
    """`uploads` carries the class means where they are large, as it does uploads."""

    def __init__(
        self,
        config: Config,
        outbound: Outbound,
        uploads: Transfers,
        log: Log,
        clock: Callable[[], float],
        start: Start,
    ) -> None:
        self._config, self._outbound, self._uploads, self._log = config, outbound, uploads, log
        self._clock, self._start = clock, start
        folder = config.data_dir
        self.file, self._means = folder / "fleet.pfb", folder / "means.cbor"
        spool = folder / "bundle-spool"
        self._receiver = device_receiver(
            outbound.topics, config.id, spool, outbound, clock, LARGEST_BUNDLE, LARGEST_STATE
        )
        self._fetch = Fetch(self._receiver)
        self._in_use = archive.name_of(self.file)
        self._named = ""  # by the channel
        self._state = b""  # the channel's own
        self._means_due = False  # of the samples as they are, by the bundle that the channel names
        self._process: ChildProcess | None = None
        self._offer: bytes | None = None  # means that have no receipt yet
        self._answered: bytes | None = None  # means that have one
        self._next_at, self._wait = 0.0, FIRST_WAIT

    @property
    def _new(self) -> Path:
        """Where a bundle waits for its test."""
        return self.file.with_name(f"fleet-{self._named[:16] or 'none'}.pfb")

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
            case "proto", (channel_name,) if channel_name == STABLE and payload:
                self._blob_complete(self._state_blob(place, payload))
            case "bundle", (channel_name,) if channel_name == STABLE:
                self._follow_fetch(lambda: self._fetch.announced(place, payload))
            case "own_chunk", _:
                self._blob_complete(self._receiver.chunk(place, payload))
            case "receipt", _ if self._offer is not None and payload:
                self._receipt(wire.decode(payload))

    def _state_blob(self, place: TopicParts, payload: bytes) -> Blob | None:
        """The channel's state; None while a large one is still on its way."""
        if len(payload) > LARGEST_STATE:
            raise WireError(f"prototypes of {len(payload)} bytes, at most {LARGEST_STATE} are due")
        envelope, body = wire.unseal(payload)
        if envelope.t != "slip":
            return Blob(place, payload)
        document, digest = wire.decode_body(envelope, body), sha256(body).hexdigest()
        return self._receiver.announce(place, wire.Message(envelope, document, digest))

    def due(self, *, connected: bool) -> float:
        """When to look again; never, if nothing goes on."""
        if self._process is not None:
            return self._clock() + POLL
        to_send = connected and self._offer is not None
        times = [self._next_at] if self._ready or to_send else []
        if connected and self._receiver.due is not None:
            times.append(self._receiver.due)
        return max(min(times, default=float("inf")), self._clock() + POLL)

    @property
    def _ready(self) -> bool:
        """Whether there is a bundle to test or to make means with."""
        return bool(self._named) and (
            self._new.exists() or (self._means_due and self._in_use == self._named)
        )

    def connected(self) -> None:
        """The coordinator may have forgotten what it was sent."""
        self._receiver.connected()
        self._offer = self._offer or self._answered
        self._retry_now()

    def samples_changed(self) -> None:
        """The means are others now."""
        self._means_due = True
        self._retry_now()

    def look(self, *, may_send: bool) -> None:
        """Do what is due."""
        if self._process is not None:
            self._check_process(self._process)
        elif self._ready and self._clock() >= self._next_at:
            self._start_process()
        if may_send:
            with suppress(LinkBusy):
                self._receiver.ask_due()
                if self._offer is not None and self._clock() >= self._next_at:
                    self._send(self._offer)

    def stop(self) -> None:
        """The daemon leaves."""
        if self._process is not None:
            self._process.terminate()

    def _blob_complete(self, blob: Blob | None) -> None:
        if blob is None:
            return
        file = blob.file
        if file is not None:
            self._follow_fetch(lambda: self._fetch.whole(file))
            return
        about = published.read(blob.payload).bank.about
        name = about.bundle if about.lineage.startswith("extractor:") else ""
        self._state = blob.payload
        if name != self._named:
            self._clear()
            self._named, self._means_due = name, bool(name)
            self._offer = self._answered = None
            self._retry_now()
        if name and name == self._in_use:
            write_whole(cache.state_file(self.file), self._state, mode=OWN_FILE)
        here = name == self._in_use or self._new.exists()
        self._follow_fetch(lambda: self._fetch.want("" if here else name))

    def _follow_fetch(self, fetching: Callable[[], Fetched | None]) -> None:
        fetched = fetching()
        if fetched is None:
            return
        # Nothing of it is read here: it may be anything, and its test is a process of its own.
        size = fetched.file.stat().st_size
        fetched.file.replace(self._new)
        self._fetch.want("")
        self._log.info("the fleet's bundle came", bundle=fetched.name[:16], bytes=size)

    def _start_process(self) -> None:
        """Test what came, and make the means."""
        config, bundle = self._config, self._new if self._new.exists() else self.file
        words = [sys.executable, "-m", "edge_agent", "summarise"]
        words += ["--id", config.id, "--fleet", config.fleet.name]
        words += ["--bundle", str(bundle), "--out", str(self._means)]
        if bundle is not self.file:
            words += ["--to", str(self.file), "--name", self._named]
        # By flags and not by the daemon's file: its settings may have come from the environment.
        words += ["--set", f"limits.nice={config.limits.nice}"]
        for name, setting in vars(config.data).items():
            if setting != "":
                words += ["--set", f"data.{name}={setting}"]
        with suppress(OSError):  # then the prototypes in the bundle say which classes there are
            write_whole(cache.state_file(bundle), self._state, mode=OWN_FILE)
        self._means_due = False
        self._process = self._start(words)

    def _check_process(self, process: ChildProcess) -> None:
        code = process.poll()
        if code is None:
            return
        self._process = None
        words = _last_words(process) or f"the process ended with {code}"
        if code and self._new.exists():
            self._clear()
            self._fetch.refuse()
            self._log.warning(f"the fleet's bundle cannot be used: {words}")
            return
        self._in_use = archive.name_of(self.file)
        if code:
            self._means_due = True
            self._retry_later()
            self._log.warning(f"no class means of the fleet's extractor: {words}")
        elif self._in_use == self._named:
            self._clear()
            with suppress(OSError):
                write_whole(cache.state_file(self.file), self._state, mode=OWN_FILE)
                self._offer = self._means.read_bytes()
            self._retry_now()

    def _clear(self) -> None:
        """Nothing waits for its test any more."""
        for path in (self._new, cache.state_file(self._new)):
            path.unlink(missing_ok=True)

    def _send(self, offer: bytes) -> None:
        payload = self._uploads.outgoing("", 0, offer)
        topic = self._outbound.topics.upload(self._config.id, 0)
        if payload is not None and self._outbound.say(topic, payload):
            self._retry_later()

    def _receipt(self, message: wire.Message) -> None:
        """The coordinator's answer, if it is to our means."""
        body, offer = message.body, self._offer
        if offer is None or body.get("round") != 0:
            return
        blob = self._uploads.digest("", 0)  # of the whole message, where it goes in chunks
        # Without a digest an answer could be to anything; it may have been to what is offered now.
        ours = {wire.decode(offer).digest, blob} - {""}
        if body.get("digest") not in ours:
            return
        status = body.get("status")
        if status == UploadStatus.MISSING:
            missing = read_ranges(body.get("missing", []), "receipt.body.missing")
            self._uploads.send_chunks(SendChunks("", 0, blob, missing))
            return
        self._uploads.settled("", 0)
        self._answered, self._offer = offer, None
        if status == UploadStatus.ACCEPTED:
            self._log.info("class means taken", bundle=self._named[:16])
        else:
            self._log.warning(
                f"the coordinator does not take the class means: {body.get('words', '')}"
            )

    def _retry_now(self) -> None:
        self._next_at, self._wait = 0.0, FIRST_WAIT

    def _retry_later(self) -> None:
        self._next_at, self._wait = self._clock() + self._wait, min(LONGEST_WAIT, 2 * self._wait)


def _last_words(process: ChildProcess) -> str:
    """The last line of its errors; empty if there is none."""
    errors = b"" if process.stderr is None else process.stderr.read()
    lines = errors.decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else ""


def launched(words: Sequence[str]) -> ChildProcess:
    """A process whose errors are read when it is over."""
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=without_secrets(os.environ),
    )
