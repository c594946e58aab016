"""What the process that decodes does between a question and a frame, with a container of the
test's.
"""

import os
from fractions import Fraction
from types import SimpleNamespace

import pytest

from edge_agent.cameras import decoder
from edge_agent.cameras.decoder import Question, frames, options, words_of


class Played:
    """A container whose packets are the test's: (pts in ms, waited for, key frame)."""

    def __init__(self, monkeypatch, packets, codec="h264", delay=0):
        self.streams = SimpleNamespace(video=[self])
        self.codec_context = SimpleNamespace(name=codec)
        self.format = SimpleNamespace(name="rtsp")
        self.packets, self.decoded, self._held, self._delay = packets, [], [], delay
        self._waits, self.now = 0, 0.0
        monkeypatch.setattr(decoder, "_waits", lambda: self._waits)
        monkeypatch.setattr(decoder.time, "monotonic", lambda: self.now)

    def demux(self, stream):
        for now, pts, waited, key in self.packets:
            self.now = now
            self._waits += waited
            yield SimpleNamespace(
                pts=pts,
                size=1,
                time_base=Fraction(1, 1000),
                is_keyframe=key,
                decode=lambda pts=pts: self._decode(pts),
            )

    def _decode(self, pts):
        self.decoded.append(pts)
        self._held.append(SimpleNamespace(pts=pts))
        return [self._held.pop(0)] if len(self._held) > self._delay else []


@pytest.fixture
def asking():
    """A question, and what asks it."""
    ours, theirs = os.pipe()
    question = Question(ours)
    yield question, lambda: os.write(theirs, b".")
    os.close(ours)
    os.close(theirs)


def steady(n, every=0.04):
    return [(k * every, round(1000 * k * every), True, k % 50 == 0) for k in range(n)]


def test_jpegs_that_nobody_asked_for_are_not_decoded(monkeypatch, asking):
    question, ask = asking
    played = Played(monkeypatch, steady(100), codec="mjpeg")
    assert not list(frames(played, question))
    assert not played.decoded
    played = Played(monkeypatch, steady(100), codec="mjpeg")
    ask()
    assert len(list(frames(played, question))) == 1
    assert played.decoded == [0]


def test_of_other_codecs_each_is_decoded_and_one_handed_on(monkeypatch, asking):
    question, ask = asking
    played = Played(monkeypatch, steady(100))
    ask()
    ((frame, at),) = list(frames(played, question))
    assert (frame.pts, at) == (0, 0.0)
    assert len(played.decoded) == 100


def test_a_decoder_that_hands_out_late_does_not_make_a_frame_younger(monkeypatch, asking):
    question, ask = asking
    played = Played(monkeypatch, steady(100), delay=10)
    ask()
    ((frame, at),) = list(frames(played, question))
    assert frame.pts == 0
    assert played.now > 3
    assert at == 0.0


def test_what_is_late_is_dropped_up_to_a_key_frame_that_is_not(monkeypatch, asking):
    question, ask = asking
    # Two seconds of packets lie there when somebody reads again.
    backlog = [(3.0, 40 * k, False, k % 50 == 0) for k in range(1, 76)]
    fresh = [(3.0 + 0.04 * k, 3000 + 40 * k, True, k == 5) for k in range(1, 10)]
    played = Played(monkeypatch, [(0.0, 0, True, True), *backlog, *fresh])
    handed = []
    for frame, at in frames(played, question):
        handed.append((frame.pts, at))
    assert not handed
    late = [pts for pts in played.decoded if pts and pts < 2500]
    assert not late
    assert 3200 in played.decoded
    played = Played(monkeypatch, [(0.0, 0, True, True), *backlog, *fresh])
    generator = frames(played, question)
    ask()
    assert next(generator)[0].pts == 0
    ask()
    frame, at = next(generator)
    assert played.now - at < decoder.BEHIND


def test_a_parent_that_has_gone_ends_it():
    ours, theirs = os.pipe()
    os.close(theirs)
    with pytest.raises(SystemExit):
        Question(ours).look()
    os.close(ours)


def test_ffmpeg_is_told_what_cameras_speak_and_nothing_else():
    for kind in ("rtsp", "mjpeg"):
        words = options(kind)
        assert "file" not in words["protocol_whitelist"].split(",")
        assert "hls" not in words["format_whitelist"].split(",")
        assert "h264" in words["codec_whitelist"].split(",")


def test_what_it_says_of_its_end_is_one_line_without_an_address():
    assert words_of(MemoryError()) == "it needs more than 512 MB of memory"
    words = words_of(ValueError("cannot open\n rtsp://me:secret@cam/s !"))
    assert words == "cannot open (address) !"
    assert words_of(OSError(5, "Immediate exit requested")) == "nothing came in time"
