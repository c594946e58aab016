"""A link waits longer the longer it is in vain, and begins anew once a connection worked."""

import random

from protofleet.mqtt.link.reconnect import STEADY, Reconnect, jittered


def test_back_off_is_jittered_and_between_1_and_60_seconds():
    backoff = jittered(random.Random(7))
    waits = [[backoff(attempt) for _ in range(200)] for attempt in range(20)]
    assert all(1 <= wait <= 60 for row in waits for wait in row)
    assert max(waits[0]) <= 2
    assert max(waits[19]) > 55
    assert len(set(waits[3])) == 200


def test_a_greeting_alone_is_no_success_and_a_steady_connection_is():
    reconnect = Reconnect(float)
    assert [reconnect.wait(lasted) for lasted in (0.0, 0.5, STEADY)] == [0, 1, 2]
    assert reconnect.wait(STEADY + 1) == 0
    assert reconnect.wait(0.0) == 1
