"""Waking whoever waits for sockets."""

import selectors

import pytest

from protofleet.mqtt.link.waker import Waker


@pytest.fixture
def waker():
    made = Waker()
    yield made
    made.close()


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
