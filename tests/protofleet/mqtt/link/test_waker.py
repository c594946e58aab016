"""Waking whoever waits for sockets."""

import selectors
import threading
import time

import pytest

from protofleet.mqtt.link.waker import Waker


@pytest.fixture
def waker():
    waker = Waker()
    yield waker
    waker.close()


def woken(waker):
    with selectors.DefaultSelector() as selector:
        selector.register(waker, selectors.EVENT_READ)
        return bool(selector.select(0))


def test_it_is_raised_until_it_is_cleared(waker):
    assert not woken(waker)
    waker.wake()
    assert woken(waker)
    waker.clear()
    assert not woken(waker)


def test_what_is_done_together_wakes_once_at_the_end_even_when_it_fails(waker):
    with waker.later():
        waker.wake()
        assert not woken(waker)
    assert woken(waker)
    waker.clear()
    with pytest.raises(KeyError), waker.later():
        raise KeyError("broken")
    assert woken(waker)
    waker.clear()
    waker.wake()
    assert woken(waker)


def test_a_thread_that_waits_is_woken_by_another(waker):
    timer = threading.Timer(0.05, waker.wake)
    before = time.monotonic()
    timer.start()
    waker.wait(30)
    assert time.monotonic() - before < 20
    assert not woken(waker)  # what it was woken by is cleared
    timer.join()


def test_however_often_it_is_raised_it_is_cleared_at_once(waker):
    for _ in range(100_000):  # more than the sockets between the ends hold
        waker.wake()
    waker.clear()
    assert not woken(waker)
    waker.wake()
    assert woken(waker)


def test_after_it_is_closed_nobody_is_hurt():
    waker = Waker()
    waker.close()
    waker.wake()
