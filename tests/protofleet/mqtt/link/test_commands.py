"""What a link makes of a broker that hung up before it answered."""

from pathlib import Path

import pytest

from protofleet.mqtt.address import Address
from protofleet.mqtt.link.commands import unanswered

GUESS = "client certificate"


@pytest.mark.parametrize(
    ("address", "guessed"),
    [
        (Address("mqtt", "h", 1), False),
        (Address("mqtts", "h", 1), True),
        (Address("wss", "h", 1), True),
        (Address("mqtts", "h", 1, cert=Path("c"), key=Path("k")), False),
    ],
)
def test_a_certificate_is_guessed_at_where_one_could_be_missing(address, guessed):
    ended = unanswered(address, "reset by peer")
    assert (ended.early, ended.refused, ended.greeted) == (True, False, None)
    assert "reset by peer" in ended.reason
    assert (GUESS in ended.reason) == guessed
