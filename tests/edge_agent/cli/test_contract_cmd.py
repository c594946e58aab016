"""`edge-agent contract`: a coordinator's settings, read off a device's samples."""

import tomllib

from protofleet.contract import Input
from protofleet.settings.fields import from_plain


def test_contract_prints_what_the_coordinator_is_to_be_told(call):
    found = tomllib.loads(call("contract", "--data", "digits").stdout)["contract"]
    assert found["classes"] == list("0123456789")
    assert from_plain(Input, found["input"]) == Input("image", (8, 8, 1), (0.5,), (0.5,))
