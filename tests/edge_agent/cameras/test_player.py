"""A stream through a process that decodes it: what it shows, how old that is, and how it ends."""

import os
import signal
import time

import numpy as np
import pytest

from edge_agent.cameras import origins, player
from edge_agent.cameras.player import SourceLost, StreamPlayer
from simulators.streams.servers import (
    MjpegServer,
    RtspServer,
    has_ffmpeg,
    has_gstreamer,
    serving_slides,
)
from simulators.streams.slides import painted
from tests.streaming import HEAD, camera, jpeg, part, plain, steady

pytest.importorskip("av")


@pytest.fixture
def opened():
    """Players that are closed in the end."""
    players = []

    def play(url):
        (origin,) = origins.parse([url])
        players.append(StreamPlayer(origin))
        return players[-1]

    yield play
    for each in players:
        each.close()


def watched(player):
    """For as long as there are frames."""
    while True:
        player.next()


def lost(opened, speak):
    """The line that such a camera ends in."""
    with camera(speak) as running, pytest.raises(SourceLost) as ended:
        watched(opened(running.url))
    assert "\n" not in str(ended.value)
    return str(ended.value)


def test_the_frame_that_is_handed_over_is_the_one_after_the_question(opened):
    shown = [10]
    with camera(steady(lambda: plain(shown[0]))) as running:
        seen = opened(running.url)
        first = seen.next()
        assert first.image.shape == (64, 64, 3)
        assert abs(float(first.image.mean()) - 10) < 4
        shown[0] = 200
        time.sleep(0.5)  # nobody asks, and what comes meanwhile is dropped
        frame = seen.next()
        assert abs(float(frame.image.mean()) - 200) < 4
        assert first.at < frame.at <= time.monotonic()


def test_a_stream_that_ends_says_so_and_leaves_no_process(opened):
    def once(connection):
        connection.sendall(HEAD + part(jpeg(plain(9))) * 3)

    with camera(once) as running:
        seen = opened(running.url)
        with pytest.raises(SourceLost, match=r"broke off|ended"):
            watched(seen)
        seen.close()
        assert not os.path.exists(f"/proc/{seen.pid}")


def huge(connection):
    """A JPEG that says it has 65,500 × 65,500 pixels."""
    data = jpeg(plain(9))
    at = data.index(b"\xff\xc0") + 5
    connection.sendall(HEAD + part(data[:at] + b"\xff\xdc\xff\xdc" + data[at + 4 :]) * 50)
    time.sleep(5)


def endless_header(connection):
    connection.sendall(HEAD + b"--frame\r\n")
    while True:
        connection.sendall(b"X-Nothing: " + b"a" * 1000 + b"\r\n")


def endless_part(connection):
    connection.sendall(HEAD + b"--frame\r\nContent-Type: image/jpeg\r\n\r\n\xff\xd8")
    while True:
        connection.sendall(b"a" * 100_000)


def garbage(connection):
    connection.sendall(os.urandom(100_000))


def garbage_parts(connection):
    connection.sendall(HEAD + b"".join(part(os.urandom(500)) for _ in range(200)))


def nothing(connection):
    time.sleep(10)


def elsewhere(connection):
    """A redirect to a file of this machine."""
    connection.sendall(b"HTTP/1.0 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n")


def playlist(connection):
    head = b"HTTP/1.0 200 OK\r\nContent-Type: application/vnd.apple.mpegurl\r\n\r\n"
    connection.sendall(head + b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n")


@pytest.mark.parametrize(
    "speak",
    [huge, endless_header, endless_part, garbage, garbage_parts, nothing, elsewhere, playlist],
)
def test_a_hostile_camera_ends_in_one_line(opened, speak, monkeypatch):
    monkeypatch.setattr(player, "OPENING", 2.0)
    monkeypatch.setattr(player, "SILENT", 2.0)
    assert "passwd" not in lost(opened, speak)


def test_a_decoder_that_says_something_else_is_not_believed(opened, monkeypatch):
    with camera(steady(lambda: plain(9))) as running:
        seen = opened(running.url)
        seen.next()
        monkeypatch.setattr(seen, "_read", lambda size, end: bytearray(b"x" * size))
        with pytest.raises(Exception, match="something else than frames"):
            seen.next()


def test_an_address_that_nobody_listens_at_is_one_line_without_a_password(opened):
    seen = opened("rtsp://me:secret@127.0.0.1:1/stream")
    with pytest.raises(SourceLost) as ended:
        seen.next()
    assert "secret" not in str(ended.value)
    assert "refused" in str(ended.value)


@pytest.mark.parametrize("kind", ["mjpeg", "rtsp"])
def test_the_real_servers_frames_are_of_now(opened, kind, tmp_path):
    """By the pictures themselves, and not by what the frame says of its age."""
    if kind == "mjpeg" and not has_ffmpeg():
        pytest.skip("ffmpeg is not installed")
    if kind == "rtsp" and not has_gstreamer():
        pytest.skip("GStreamer's RTSP server is not installed")
    slides = painted(8)
    server = MjpegServer(slides) if kind == "mjpeg" else RtspServer(slides, tmp_path)
    with serving_slides(server):
        seen = _patient(opened, server.url)
        # What a starved server holds back is in it, too, so it may be tried again; a queue of
        # frames would be old each time.
        rounds = (max(_ages(seen, slides)) for _ in range(5))
        assert any(oldest < 1.0 for oldest in rounds)


def _ages(seen, slides):
    """Of six frames, with a stop of the decoder before the fourth."""
    ages = []
    for look in range(6):
        if look == 3:  # a device that stood still sees nothing of what it missed
            os.kill(seen.pid, signal.SIGSTOP)
            time.sleep(1.7)
            os.kill(seen.pid, signal.SIGCONT)
        frame = seen.next()
        moment = time.time() - frame.age(time.monotonic())
        ages.append(slides.age(slides.labels[_nearest(slides, frame.image)], moment))
        time.sleep(0.2)
    return ages


def _patient(opened, url):
    """A player of a server that may not listen yet."""
    for _ in range(40):
        seen = opened(url)
        try:
            seen.next()
        except SourceLost:
            time.sleep(0.25)
        else:
            return seen
    raise AssertionError("the server does not answer")


def _nearest(slides, image):
    apart = slides.pictures.astype(np.float32) - image.astype(np.float32)
    return int(np.square(apart).mean((1, 2, 3)).argmin())
