"""The picture of the moment, at a steady rate, into a pipeline of the test's."""

import time
from types import SimpleNamespace

import pytest

from simulators.streams.rtsp_script import Show


@pytest.fixture
def pushed():
    return []


def shown(pushed, fps=1000.0, slot=1e9):
    gst = SimpleNamespace(
        SECOND=10**9,
        Buffer=SimpleNamespace(new_wrapped=lambda data: SimpleNamespace(data=data)),
    )
    show = Show(gst, [b"a", b"b"], fps, slot)
    source = SimpleNamespace(emit=lambda name, buffer: pushed.append((name, buffer)))
    return show, source


def test_the_clock_chooses_and_each_buffer_has_its_length(pushed):
    show, source = shown(pushed)
    show.push(source, 0)
    ((name, buffer),) = pushed
    assert name == "push-buffer"
    assert buffer.data == [b"a", b"b"][int(time.time() / 1e9) % 2]
    assert buffer.duration == 10**6


def test_it_waits_for_the_moment_of_each(pushed):
    show, source = shown(pushed, fps=50.0)
    began = time.monotonic()
    for _ in range(6):
        show.push(source, 0)
    assert time.monotonic() - began >= 0.1
