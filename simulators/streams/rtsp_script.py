"""An RTSP server of slides by GStreamer, as a script for the system's own Python, which has `gi`:

    python3 rtsp_script.py PICTURES COUNT WIDTH HEIGHT FPS SLOT CODEC PORT

PICTURES holds COUNT pictures of raw RGB; which one is shown follows from the clock (`slides`). The
server is at rtsp://127.0.0.1:PORT/slides (0: any port); its first line of output is the port,
and each further one how many frames were shown to a viewer so far.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

CODECS = {
    "h264": "x264enc tune=zerolatency speed-preset=ultrafast key-int-max=50 bitrate=2000"
    " ! rtph264pay name=pay0 pt=96 config-interval=1",
    "mjpeg": "jpegenc quality=80 ! rtpjpegpay name=pay0 pt=26",
}


TOLD_EVERY = 100  # frames


class Show:
    """Pushes the picture of the moment whenever the pipeline wants one, at a steady rate."""

    def __init__(self, gst: Any, pictures: list[bytes], fps: float, slot: float) -> None:
        self._gst, self._pictures, self._fps, self._slot = gst, pictures, fps, slot
        self._number, self._began, self._pushed = 0, time.monotonic(), 0

    def push(self, source: Any, _length: int) -> None:
        """Called by GStreamer."""
        moment = self._began + self._number / self._fps
        pause = moment - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        elif pause < -1:  # nobody watched for a while
            self._began, self._number = time.monotonic(), 0
        data = self._pictures[int(time.time() / self._slot) % len(self._pictures)]
        buffer = self._gst.Buffer.new_wrapped(data)
        buffer.duration = int(self._gst.SECOND / self._fps)
        source.emit("push-buffer", buffer)
        self._number += 1
        self._pushed += 1
        if self._pushed % TOLD_EVERY == 0:
            print(self._pushed, flush=True)


def main() -> None:
    """Until it is ended."""
    import gi

    gi.require_version("Gst", "1.0")
    gi.require_version("GstRtspServer", "1.0")
    from gi.repository import GLib, Gst, GstRtspServer

    Gst.init(None)
    file, count, width, height, fps, slot, codec, port = sys.argv[1:]
    size = int(width) * int(height) * 3
    data = Path(file).read_bytes()
    pictures = [data[size * k : size * (k + 1)] for k in range(int(count))]
    server = GstRtspServer.RTSPServer(address="127.0.0.1", service=port)
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(
        "( appsrc name=slides is-live=true do-timestamp=true format=time max-bytes=1"
        f" caps=video/x-raw,format=RGB,width={width},height={height},framerate={int(float(fps))}/1"
        f" ! videoconvert ! video/x-raw,format=I420 ! {CODECS[codec]} )"
    )

    def configure(_factory: Any, media: Any) -> None:
        show = Show(Gst, pictures, float(fps), float(slot))
        source = media.get_element().get_by_name("slides")
        source.connect("need-data", show.push)

    factory.connect("media-configure", configure)
    server.get_mount_points().add_factory("/slides", factory)
    server.attach(None)
    print(server.get_bound_port(), flush=True)
    GLib.MainLoop().run()


if __name__ == "__main__":
    main()
