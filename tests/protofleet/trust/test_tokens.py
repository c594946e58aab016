from dataclasses import replace

import pytest

from protofleet.errors import UsageError
from protofleet.trust import tokens
from protofleet.trust.tokens import Invitation

TOKEN = Invitation(
    "orchard",
    "camera-07",
    False,
    bytes(range(32)),
    bytes(32),
    "mqtts://broker:8883",
    "mqtts://broker:8884",
    1_800_000_000,
)


def test_a_token_is_one_line_that_reads_back():
    text = tokens.as_text(TOKEN)
    assert text.isascii()
    assert len(text) < 400
    assert len(text.split()) == 1
    assert tokens.of_text(f"  {text}\n") == TOKEN
    assert len(TOKEN.id) == 16


def test_a_damaged_token_is_one_clear_line():
    text = tokens.as_text(TOKEN)
    for other in ("", "camera-07", text[:-3], text + "AAAA", text.replace("pf1.", "pf2."), "pf1.A"):
        with pytest.raises(UsageError, match="coordinator invite"):
            tokens.of_text(other)
    with pytest.raises(UsageError, match="device name"):
        tokens.of_text(tokens.as_text(replace(TOKEN, name="../camera")))
    with pytest.raises(UsageError, match="damaged"):
        tokens.of_text(tokens.as_text(replace(TOKEN, seed=b"short")))
