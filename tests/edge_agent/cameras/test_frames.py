"""Frames between processes, and how far behind a stream is."""

import math

import pytest

from edge_agent.cameras.frames import HEAD, SIDE, StreamClock, head_of, read_head
from protofleet.errors import DataError


def test_a_head_is_read_as_it_was_written():
    data = head_of(640, 480, 12.5)
    assert len(data) == HEAD
    assert read_head(data, 13.0) == ((480, 640, 3), 12.5)


def test_no_decoder_makes_frames_of_the_future():
    assert read_head(head_of(1, 1, 99.0), 13.0)[1] == 13.0


@pytest.mark.parametrize(
    "data",
    [
        head_of(SIDE + 1, 1, 0.0),
        head_of(0, 5, 0.0),
        head_of(5, 0, 0.0),
        head_of(5, 5, math.nan),
        b"x" * HEAD,
    ],
)
def test_anything_else_is_refused(data):
    with pytest.raises(DataError):
        read_head(data, 0.0)


def followed(clock, timed=True):
    """Two seconds of a camera of 25 frames a second, from 10 on."""
    return [clock.lag(10 + n / 25, n / 25 if timed else None, 0.04) for n in range(50)]


@pytest.mark.parametrize("timed", [True, False])
def test_a_packet_that_was_waited_for_is_the_present(timed):
    assert followed(StreamClock(), timed) == [0.0] * 50


def test_packets_that_lay_there_are_late_by_what_their_own_time_fell_behind():
    clock = StreamClock()
    followed(clock)
    # Nobody read for three seconds: 75 packets are there at once.
    assert clock.lag(15.0, 2.04, None) == pytest.approx(3.0, abs=0.1)
    assert clock.lag(15.01, 4.96, None) == pytest.approx(0.05, abs=0.1)
    assert clock.lag(15.05, 5.0, 0.03) == 0.0  # nothing more lay there: whatever is read is new


def test_who_stood_still_while_waiting_does_not_take_what_lay_there_for_new():
    clock = StreamClock()
    followed(clock)
    assert clock.lag(14.0, 2.0, 2.0) == pytest.approx(2.0, abs=0.1)
    assert clock.lag(14.01, 2.04, None) > 1.9
    assert clock.lag(14.05, 4.0, 0.03) == 0.0
    plain = StreamClock()
    followed(plain, timed=False)
    assert plain.lag(14.0, None, 2.0) == pytest.approx(1.96, abs=0.1)
    assert plain.lag(14.01, None, None) == pytest.approx(1.96, abs=0.1)
    assert plain.lag(14.05, None, 0.03) == 0.0


def test_a_slow_camera_is_not_late_and_one_that_slows_down_is_learned():
    clock = StreamClock()
    assert [clock.lag(10 + n, None, 1.0) for n in range(9)] == [0.0] * 9
    clock = StreamClock()
    followed(clock, timed=False)
    lags = [clock.lag(12 + n, None, 1.0) for n in range(60)]
    assert lags[0] > 0.9
    assert lags[-1] == 0.0


def test_a_stream_that_begins_its_time_anew_is_not_late_for_ever():
    clock = StreamClock()
    clock.lag(10.0, 500.0, 0.04)
    assert clock.lag(10.1, 0.0, None) == 0.0
    assert clock.lag(10.2, 0.1, 0.04) == 0.0
    assert clock.lag(10.3, 400.0, None) == 0.0
