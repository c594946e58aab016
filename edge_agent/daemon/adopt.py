"""The extractor that the coordinator froze, on a device of the live fleet: fetched, tested, and its
class means sent.

The bundle lies at `fleet.pfb` in the device's directory, for `edge-agent infer` too; it is replaced
by one that passed its self-test and by no other. Testing and summarising are a process of their
own, so that the daemon stays small.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from edge_agent.config import Config
from edge_agent.daemon.inbound import read_ranges
from edge_agent.daemon.outbound import Outbound
from edge_agent.daemon.transfers import Blob, Transfers
from edge_agent.protocol.actions import SendChunks
from edge_agent.updates import cache
from edge_agent.updates.fetch import Fetch, Fetched
from protofleet import wire
from protofleet.errors import LinkBusy
from protofleet.exchange import archive, published
from protofleet.exchange.archive import LARGEST_PARCEL, BundleError
from protofleet.exchange.published import STABLE
from protofleet.mqtt.topics import TopicParts
from protofleet.util.files import write_whole
from protofleet.util.logs import Log

NAP = 0.2  # seconds between looks at a process
AGAIN, LONGEST = 10.0, 600.0  # seconds to the next attempt, twice as long each time


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
        voice: Outbound,
        uploads: Transfers,
        log: Log,
        clock: Callable[[], float],
        start: Start,
    ) -> None:
        self._config, self._voice, self._uploads, self._log = config, voice, uploads, log
        self._clock, self._start = clock, start
        folder = config.data_dir
        self.file, self._means = folder / "fleet.pfb", folder / "means.cbor"
        self._transfers = Transfers(
            voice.topics, config.id, folder / "bundle-spool", voice, clock, LARGEST_PARCEL
        )
        self._fetch = Fetch(self._transfers)
        self._held = archive.name_of(self.file)
        self._named = ""  # by the channel
        self._state = b""  # the channel's own
        self._stale = False  # means are to be made, of what the channel names
        self._process: ChildProcess | None = None
        self._offer: bytes | None = None  # means that have no receipt yet
        self._sent: bytes | None = None
        self._due, self._wait = 0.0, AGAIN

    @property
    def _new(self) -> Path:
        """Where a bundle waits for its test."""
        return self.file.with_name(f"fleet-{self._named[:16] or 'none'}.pfb")

    def heard(self, place: TopicParts, payload: bytes) -> None:
        """What comes over the link; most of it is for others, too. One of our errors if it cannot
        be used.
        """
        try:
            if self._config.agent.take_bundle:
                self._heard(place, payload)
        except OSError as error:
            self._log.warning(f"the fleet's bundle finds no room on the disk: {error.strerror}")

    def _heard(self, place: TopicParts, payload: bytes) -> None:
        match place.kind, place.rest:
            case "proto", (channel_name,) if channel_name == STABLE and payload:
                slip = wire.unseal(payload)[0].t == "slip"
                self._whole(
                    self._transfers.slip(place, wire.decode(payload))
                    if slip
                    else Blob(place, payload)
                )
            case "bundle", (channel_name,) if channel_name == STABLE:
                self._came(lambda: self._fetch.announced(place, payload))
            case "own_chunk", (digest, number):
                self._whole(self._transfers.chunk(digest, int(number), payload))
            case "receipt", _ if self._offer is not None and payload:
                self._receipt(wire.decode(payload))

    def due(self, *, connected: bool) -> float:
        """When to look again; never, if nothing goes on."""
        if self._process is not None:
            return self._clock() + NAP
        times = [self._due] if self._ready or (connected and self._offer is not None) else []
        if connected and self._transfers.due is not None:
            times.append(self._transfers.due)
        return max(min(times, default=float("inf")), self._clock() + NAP)

    @property
    def _ready(self) -> bool:
        """Whether there is a bundle to test or to make means with."""
        return bool(self._named) and (
            self._new.exists() or (self._stale and self._held == self._named)
        )

    def connected(self) -> None:
        """The coordinator may have forgotten what it was sent."""
        self._transfers.connected()
        self._offer = self._offer or self._sent
        self._soon()

    def samples_changed(self) -> None:
        """The means are others now."""
        self._stale = True
        self._soon()

    def look(self, *, may_send: bool) -> None:
        """Do what is due."""
        if self._process is not None:
            self._ended(self._process)
        elif self._ready and self._clock() >= self._due:
            self._begin()
        if may_send:
            with suppress(LinkBusy):
                self._transfers.push()
                if self._offer is not None and self._clock() >= self._due:
                    self._send(self._offer)

    def stop(self) -> None:
        """The daemon leaves."""
        if self._process is not None:
            self._process.terminate()

    def _whole(self, whole: Blob | None) -> None:
        if whole is None:
            return
        if whole.place.kind == "bundle":
            self._came(lambda: self._fetch.whole(whole.payload))
            return
        about = published.read(whole.payload).bank.about
        name = about.bundle if about.lineage.startswith("extractor:") else ""
        self._state = whole.payload
        if name != self._named:
            self._clear()
            self._named, self._stale, self._offer, self._sent = name, bool(name), None, None
            self._soon()
        if name and name == self._held:
            write_whole(cache.state_file(self.file), self._state)
        self._came(
            lambda: self._fetch.want("" if name == self._held or self._new.exists() else name)
        )

    def _came(self, fetching: Callable[[], Fetched | None]) -> None:
        try:
            found = fetching()
        except BundleError as error:
            self._log.warning(f"the fleet's bundle cannot be used: {error}")
            return
        if found is not None:
            write_whole(self._new, found.data)
            self._fetch.want("")
            self._log.info(
                "the fleet's bundle came", bundle=found.bundle.digest[:16], bytes=len(found.data)
            )

    def _begin(self) -> None:
        """Test what came, and make the means."""
        config = self._config
        words = [
            sys.executable,
            "-m",
            "edge_agent",
            "summarise",
            "--id",
            config.id,
            "--fleet",
            config.fleet.name,
        ]
        words += [
            "--bundle",
            str(self._new if self._new.exists() else self.file),
            "--to",
            str(self.file),
        ]
        words += ["--out", str(self._means), "--set", f"limits.nice={config.limits.nice}"]
        for name, value in vars(config.data).items():
            if value != "":
                words += ["--set", f"data.{name}={value}"]
        with suppress(OSError):  # then the prototypes that came with it say which classes there are
            write_whole(
                cache.state_file(self._new if self._new.exists() else self.file), self._state
            )
        self._stale = False
        self._process = self._start(words)

    def _ended(self, process: ChildProcess) -> None:
        code = process.poll()
        if code is None:
            return
        self._process = None
        said = (
            process.stderr.read().decode(errors="replace").strip()
            if process.stderr is not None
            else ""
        )
        words = (
            said.splitlines()[-1].removeprefix("error: ")
            if said
            else f"the process ended with {code}"
        )
        if code and self._new.exists():
            self._clear()
            self._fetch.refuse()
            self._log.warning(f"the fleet's bundle cannot be used: {words}")
            return
        self._held = archive.name_of(self.file)
        if code:
            self._stale = True
            self._later()
            self._log.warning(f"no class means of the fleet's extractor: {words}")
        elif self._held == self._named:
            self._clear()
            with suppress(OSError):
                write_whole(cache.state_file(self.file), self._state)
                self._offer = self._means.read_bytes()
            self._soon()

    def _clear(self) -> None:
        """Nothing waits for its test any more."""
        for path in (self._new, cache.state_file(self._new)):
            path.unlink(missing_ok=True)

    def _send(self, offer: bytes) -> None:
        payload = self._uploads.outgoing("", 0, offer)
        if payload is not None and self._voice.say(
            self._voice.topics.upload(self._config.id, 0), payload
        ):
            self._later()

    def _receipt(self, message: wire.Message) -> None:
        """The coordinator's answer, if it is to our means."""
        body, offer = message.body, self._offer
        parcel = self._uploads.digest("", 0)
        if (
            offer is None
            or body.get("round") != 0
            or body.get("digest") not in (wire.decode(offer).digest, parcel)
        ):
            return
        status = str(body.get("status"))
        if status == "missing":
            missing = read_ranges(body.get("missing", []), "receipt.body.missing")
            self._uploads.send_chunks(SendChunks("", 0, parcel, missing))
            return
        self._uploads.settled("", 0)
        self._sent, self._offer = offer, None
        if status == "accepted":
            self._log.info("class means taken", bundle=self._named[:16])
        else:
            self._log.warning(
                f"the coordinator does not take the class means: {body.get('words', '')}"
            )

    def _soon(self) -> None:
        self._due, self._wait = 0.0, AGAIN

    def _later(self) -> None:
        self._due, self._wait = self._clock() + self._wait, min(LONGEST, 2 * self._wait)


def launched(words: Sequence[str]) -> ChildProcess:
    """A process whose errors are read when it is over."""
    import subprocess

    return subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
