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


def test_a_packet_that_was_waited_for_is_the_present():
    clock = StreamClock()
    assert [clock.lag(10 + n, n / 2, True) for n in range(5)] == [0.0] * 5


def test_packets_that_lay_there_are_late_by_what_their_own_time_fell_behind():
    clock = StreamClock()
    clock.lag(10.0, 0.0, True)
    # Nobody read for three seconds: 75 packets are there at once.
    assert clock.lag(13.0, 0.04, False) == pytest.approx(2.96)
    assert clock.lag(13.01, 2.96, False) == pytest.approx(0.05)
    assert clock.lag(13.02, 3.0, True) == 0.0  # nothing more lay there: whatever is read is new


def test_a_stream_that_begins_its_time_anew_is_not_late_for_ever():
    clock = StreamClock()
    clock.lag(10.0, 500.0, True)
    assert clock.lag(10.1, 0.0, False) > 100
    assert clock.lag(10.2, 0.1, True) == 0.0
    assert clock.lag(10.3, 400.0, False) == 0.0
    assert clock.lag(11.0, None, False) == 0.0
