"""Servers of slides stop and come back at the address they had."""

import urllib.request

import pytest

from edge_agent.cameras import origins
from edge_agent.cameras.player import StreamPlayer
from simulators.streams.servers import (
    MjpegServer,
    RtspServer,
    free_port,
    has_ffmpeg,
    has_gstreamer,
    serving_slides,
)
from simulators.streams.slides import painted
from tests.linking import eventually


def _answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read(4096)
    except OSError:
        return b""


@pytest.mark.skipif(not has_ffmpeg(), reason="ffmpeg is not installed")
def test_mjpeg_is_served_again_to_the_next_viewer():
    server = MjpegServer(painted(4), fps=None)
    with serving_slides(server):
        for _ in range(2):
            eventually(lambda: b"image/jpeg" in _answers(server.url))
    assert server.frames > 0
    assert _answers(server.url) == b""


@pytest.mark.skipif(not has_gstreamer(), reason="GStreamer's RTSP server is not installed")
def test_rtsp_comes_back_at_its_port(tmp_path):
    pytest.importorskip("av")
    server = RtspServer(painted(4), tmp_path, codec="mjpeg")
    ports = set()
    for _ in range(2):
        with serving_slides(server):
            ports.add(server.port)
            (origin,) = origins.parse([server.url])
            player = StreamPlayer(origin)
            assert player.next().image.shape == (240, 320, 3)
            player.close()
    assert len(ports) == 1


def test_a_free_port_is_one():
    assert 1024 <= free_port() < 65536
