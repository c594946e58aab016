"""A signal is remembered before anybody waits for it, and acted on once somebody does."""

import signal

import pytest

from protofleet.util.stopping import StopRequest


@pytest.fixture
def stop():
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield StopRequest()
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_came_early_is_done_at_once_and_what_comes_late_when_it_comes(stop, number):
    done = []
    stop.then(lambda: done.append("late"))
    assert (stop.requested, done) == (False, [])
    signal.raise_signal(number)
    assert (stop.requested, done) == (True, ["late"])
    stop.then(lambda: done.append("early"))
    assert done == ["late", "early"]
