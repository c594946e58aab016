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


def test_sessions_that_end_soon_again_and_again_are_said_to_have_a_rival():
    reconnect = Reconnect(float)
    words = [reconnect.explained("gone", lasted) for lasted in (30.0, 1.0, 2.0, None, 1.0)]
    assert [text == "gone" for text in words] == [True, True, False, True, True]
    assert "another process may use this name or login" in words[2]
