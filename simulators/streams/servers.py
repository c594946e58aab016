"""Servers of slides: MJPEG by ffmpeg, RTSP by GStreamer, each a process that may be cut and started
again at the same address.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from protofleet.errors import DataError
from simulators.streams.slides import HEIGHT, SLOT, WIDTH, Slides

PYTHON = "/usr/bin/python3"  # the system's, which has its GStreamer
PATIENCE = 20.0  # seconds


def free_port() -> int:
    """One that nobody listens at just now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def has_ffmpeg() -> bool:
    """Whether MJPEG can be served here."""
    return shutil.which("ffmpeg") is not None


@cache
def has_gstreamer() -> bool:
    """Whether RTSP can be served here."""
    needed = "import gi; gi.require_version('GstRtspServer', '1.0')"
    plugins = "from gi.repository import Gst; Gst.init(None)"
    elements = "; assert all(map(Gst.ElementFactory.find, ['x264enc', 'rtph264pay', 'appsrc']))"
    try:
        words = [PYTHON, "-c", f"{needed}; {plugins}{elements}"]
        return not subprocess.run(words, capture_output=True, timeout=60, check=False).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


@dataclass
class MjpegServer:
    """`http://127.0.0.1:PORT/slides` by ffmpeg, which serves one viewer; it is started again for
    the next one. Without a rate it sends as fast as the viewer reads.
    """

    slides: Slides
    fps: float | None = 25.0
    port: int = field(default_factory=free_port)
    frames: int = 0  # that were sent, to all viewers
    _process: subprocess.Popen[bytes] | None = None
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}/slides"

    def start(self) -> None:
        """Serve, one viewer after the other."""
        self._stopped.clear()
        self._thread = threading.Thread(target=self._serve, name="mjpeg", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Cut the line in the middle of whatever it is."""
        self._stopped.set()
        if self._process is not None:
            self._process.kill()
        if self._thread is not None:
            self._thread.join(PATIENCE)

    def _serve(self) -> None:
        rate = f"{self.fps or 25:g}"
        command = ["ffmpeg", "-nostdin", "-loglevel", "quiet", "-fflags", "nobuffer"]
        command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{WIDTH}x{HEIGHT}"]
        command += ["-probesize", "32", "-r", rate, "-i", "-", "-q:v", "3", "-threads", "1"]
        command += ["-f", "mpjpeg", "-flush_packets", "1", "-listen", "1", self.url]
        while not self._stopped.is_set():
            self._process = process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
            )
            with suppress(OSError):
                self._feed(process)
            process.kill()
            process.wait()

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        pictures = [picture.tobytes() for picture in self.slides.pictures]
        moment = time.monotonic()
        while not self._stopped.is_set():
            process.stdin.write(pictures[self.slides.at(time.time())])
            self.frames += 1
            if self.fps is not None:
                moment = max(moment + 1 / self.fps, time.monotonic() - 1)
                self._stopped.wait(max(0.0, moment - time.monotonic()))


@dataclass
class RtspServer:
    """`rtsp://127.0.0.1:PORT/slides` by GStreamer, for any number of viewers."""

    slides: Slides
    folder: Path
    fps: float = 25.0
    codec: str = "h264"
    port: int = 0
    frames: int = 0  # that were sent, to all viewers
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it is, once it was started."""
        return f"rtsp://127.0.0.1:{self.port}/slides"

    def start(self) -> None:
        """Serve; at the same port as before."""
        file = self.slides.write(self.folder / "slides.rgb")
        count = len(self.slides.labels)
        words = [file, count, WIDTH, HEIGHT, self.fps, SLOT, self.codec, self.port]
        script = Path(__file__).with_name("rtsp_script.py")
        self._process = subprocess.Popen(
            [PYTHON, str(script), *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.strip().isdigit():
            raise DataError("GStreamer's RTSP server does not start")
        self.port = int(line)
        threading.Thread(target=self._count, args=(self._process,), daemon=True).start()

    def _count(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        before = 0
        for line in process.stdout:
            number = int(line)
            # It counts from the start again for the next viewer.
            self.frames += number - before if number > before else number
            before = number

    def stop(self) -> None:
        """Cut the line."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def serving_slides(server: MjpegServer | RtspServer) -> Iterator[MjpegServer | RtspServer]:
    """As long as the block lasts."""
    server.start()
    try:
        yield server
    finally:
        server.stop()
