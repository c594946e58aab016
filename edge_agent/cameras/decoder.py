"""Frames of a stream or a device, decoded in a process of its own: what a camera sends may be
anything.

`python -m edge_agent.cameras.decoder PID` reads a line on its standard input that says what to
open, and from then on a byte for each frame that is asked for; frames leave on its standard
output. The one line of its standard error says why it ended.
"""

# Theory of operation
#
# The process reads its source all the time, whether or not anybody asks, so that nothing waits in
# a buffer; a frame that nobody asked for is dropped. Who asks gets the first frame that arrives
# after the question, and there is one question at a time: no queue of frames is anywhere.
#
#   a packet arrives      asked                          not asked
#   of a codec whose      decoded, scaled, handed on     dropped as it is (a camera's 25 JPEGs a
#   frames stand alone                                   second cost next to nothing)
#   of any other          decoded, scaled, handed on     decoded: the next ones build on it
#   late by BEHIND        dropped, and all after it, up to a key frame that is not: a device that
#                         decodes slower than its camera sends sees fewer frames, not older ones
#
# A frame's moment is when its packet arrived, less what that lagged behind (`StreamClock`); a
# decoder that hands out frames later, in another order, does not make them younger.
#
# What of the process is bounded, and against what:
#
#   memory (data)       MEMORY             pictures of any size, headers without end
#   pixels              MOST_PIXELS        the same, in words
#   files               none written; read only those of the system and of Python, before the first
#                       frame is decoded no more than Python's (`landlock`)
#   connections         none further, once the stream is open: what is decoded can reach nobody
#   formats, codecs     those of cameras   ffmpeg reads two hundred, playlists of files among them
#   environment         no passwords; the address, which may hold one, comes on standard input
#   time                its parent's: who asks and gets nothing ends it
#   life                its parent's

from __future__ import annotations

import json
import os
import re
import resource
import select
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from edge_agent.cameras.frames import SIDE, StreamClock, head_of
from edge_agent.data.files import MOST_PIXELS
from edge_agent.inference.sandbox import confine, room
from protofleet.util import landlock
from protofleet.util.processes import die_with_parent

MEMORY = 512 << 20  # bytes of data; 4K of H.264 with all its references takes 210 MB
OPENING, READING = 15.0, 10.0  # seconds without a byte
BEHIND, CAUGHT_UP = 0.5, 0.25  # seconds of lag
BUFFER = 256 << 10  # bytes that a connection may hold that were not read yet
PENDING = 64  # packets whose frames the decoder has not handed out
FORMATS = {"rtsp": "rtsp", "mjpeg": "mpjpeg", "device": "v4l2"}
PROTOCOLS = {"rtsp": "rtsp,rtp,srtp,udp,tcp,tls,crypto", "mjpeg": "http,https,tcp,tls,httpproxy"}
CODECS = "mjpeg,h264,hevc,mpeg4,vp8,vp9,av1,libdav1d,rawvideo,yuv4"
ALONE = frozenset({"mjpeg", "rawvideo"})  # whose frames build on no other
# What names of hosts, certificates and time zones are read from.
_SYSTEM = ("/etc", "/lib", "/lib64", "/usr/lib", "/usr/share", "/run/systemd/resolve")


def options(kind: str) -> dict[str, str]:
    """What ffmpeg is told of a source of this kind."""
    common = {
        "codec_whitelist": CODECS,
        "fflags": "nobuffer",
        "max_streams": "8",
        "probesize": str(1 << 20),
        "analyzeduration": "500000",
    }
    if kind != "device":
        common["protocol_whitelist"] = PROTOCOLS[kind]
        common["format_whitelist"] = f"{FORMATS[kind]},sdp,rtp"
    if kind == "rtsp":
        # By the connection that it has: through any firewall, and nothing is lost on the way.
        return {**common, "rtsp_transport": "tcp", "allowed_media_types": "video"}
    if kind == "mjpeg":
        return {**common, "recv_buffer_size": str(BUFFER), "user_agent": "protofleet"}
    return common


class Question:
    """Whether the parent asks for a frame, at the end of its pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self.open = descriptor, False

    def look(self) -> bool:
        """Whether one is open; a parent that has gone ends this process."""
        while select.select([self._descriptor], [], [], 0)[0]:
            if not os.read(self._descriptor, 1):
                sys.exit(0)
            self.open = True
        return self.open


def frames(container: Any, question: Question) -> Iterator[tuple[Any, float]]:
    """Decoded frames that were asked for, and when each was the present."""
    stream = container.streams.video[0]
    alone, clock = stream.codec_context.name in ALONE, StreamClock()
    arrivals: dict[int, float] = {}
    behind = False
    for packet, arrival, wait in _packets(container, stream):
        when = None if packet.pts is None else float(packet.pts * packet.time_base)
        # A JPEG's part of a page says no time of its own.
        lag = clock.lag(arrival, None if container.format.name == "mpjpeg" else when, wait)
        behind = lag > (CAUGHT_UP if behind else BEHIND) or (behind and not packet.is_keyframe)
        if behind:
            continue
        if not question.look() and alone:
            continue
        present = arrival - lag
        if packet.pts is not None:
            arrivals[packet.pts] = present
        for frame in packet.decode():
            moment = arrivals.pop(frame.pts, min(arrivals.values(), default=present))
            if question.open:
                question.open = False
                yield frame, moment
        while len(arrivals) > PENDING:
            del arrivals[min(arrivals)]


def _packets(container: Any, stream: Any) -> Iterator[tuple[Any, float, float | None]]:
    """Each packet, when it arrived, and how long it was waited for, if it was."""
    packets = container.demux(stream)
    while True:
        before, began = _waits(), time.monotonic()
        packet = next(packets, None)
        if packet is None or not packet.size:
            return
        arrival = time.monotonic()
        yield packet, arrival, arrival - began if _waits() > before else None


def _waits() -> int:
    """How often this thread let go of the processor because it had nothing to do."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _rgb(frame: Any) -> tuple[int, int, bytes]:
    width, height = frame.width, frame.height
    if width * height > MOST_PIXELS:
        raise ValueError(f"{width} × {height} pixels")
    scale = max(width, height) / SIDE
    if scale > 1:
        width, height = max(1, int(width / scale)), max(1, int(height / scale))
    flat = frame.reformat(width, height, "rgb24", interpolation="AREA" if scale > 1 else None)
    return width, height, flat.to_ndarray().tobytes()


def play(av: Any, kind: str, address: str) -> None:
    """Hand on what is asked for until the source ends."""
    with av.open(
        address,
        format=FORMATS[kind],
        options=options(kind),
        timeout=(OPENING, READING),
        metadata_errors="replace",
    ) as container:
        # From here on a picture that is a program has nothing to open and nobody to tell.
        landlock.close_files()
        if not container.streams.video:
            raise ValueError("there is no video in it")
        context = container.streams.video[0].codec_context
        if context.width * context.height > MOST_PIXELS:
            raise ValueError(f"{context.width} × {context.height} pixels")
        context.thread_type, context.thread_count = "NONE", 1
        context.options = {"max_pixels": str(MOST_PIXELS)}
        for frame, at in frames(container, Question(0)):
            width, height, pixels = _rgb(frame)
            sys.stdout.buffer.write(head_of(width, height, at))
            sys.stdout.buffer.write(pixels)
            sys.stdout.buffer.flush()
    raise ValueError("the stream ended")


def words_of(error: BaseException) -> str:
    """In one line, without the address, which may hold a password."""
    if isinstance(error, MemoryError):
        return f"it needs more than {MEMORY >> 20} MB of memory"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    words = {"Immediate exit requested": "nothing came in time"}
    words["Input/output error"] = "the stream broke off"
    text = words.get(text, text)
    return re.sub(r"\S+://\S+", "(address)", " ".join(text.split()))[:200]


def main() -> None:
    """Until the source ends, or the parent."""
    die_with_parent(int(sys.argv[1]))
    with suppress(OSError):  # where memory ends, this process does, and not who started it
        Path("/proc/self/oom_score_adj").write_text("1000")
    with open(0, "rb", buffering=0, closefd=False) as pipe:  # no question is read with it
        source = json.loads(pipe.readline())
    import av

    av.logging.set_level(av.logging.PANIC)
    if source["kind"] != "device":
        landlock.close_files(readable=_SYSTEM, network=True)
    confine(min(MEMORY, room(MEMORY)), None)  # of a small device no more than its share
    try:
        play(av, source["kind"], source["address"])
    except BrokenPipeError:
        os._exit(0)  # nobody asks any more
    except (Exception, MemoryError) as error:  # a decoder raises what it likes
        sys.exit(f"error: {words_of(error)}")


if __name__ == "__main__":
    main()
