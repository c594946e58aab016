import pytest

from protofleet.errors import WireError
from protofleet.masking.group import (
    Agreement,
    Boxes,
    MaskedSum,
    Parcel,
    PublicKeys,
    Readiness,
    Reveal,
    Roster,
    Survivors,
)
from protofleet.masking.letters import decode_letter, encode_letter
from protofleet.wire import strict
from protofleet.wire.limits import DEFAULT

KEYS = PublicKeys("d0", b"b" * 32, b"m" * 32, b"s" * 32)
KEY = bytes(32)
READY = {"t": "readiness", "device": "d", "purpose": "", "mark": ""}
LETTERS = [
    Readiness("d0", {"w": (3, 4), "a.b": ()}),
    Roster(bytes(16), {"d.0": PublicKeys("d.0", KEY, KEY, KEY, b"a voucher")}),
    Agreement(bytes(16), ("d0", "d1", "d2"), 0, "layout"),
    KEYS,
    Roster(bytes(16), {"d0": KEYS}),
    Boxes("d0", {"d1": b"box"}),
    Parcel(bytes(16), ("d0",), {"d1": b"box"}),
    MaskedSum("d0", b"numbers"),
    Survivors(bytes(16), ("d0", "d1")),
    Reveal("d0", {"d1": b"share"}, {}),
]


@pytest.mark.parametrize("letter", LETTERS, ids=lambda letter: type(letter).__name__)
def test_what_is_said_arrives(letter):
    assert decode_letter(encode_letter(letter)) == letter


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"t": "gossip"}, "none of readiness"),
        ([], "none of readiness"),
        ({"t": "maskedsum", "device": "d0"}, "device, numbers are due"),
        ({"t": "maskedsum", "device": "d0", "numbers": "text"}, "bytes is due"),
        ({"t": "maskedsum", "device": "d0", "numbers": b"", "more": 1}, "are due"),
        ({"t": "boxes", "device": "d0", "boxes": [b"box"]}, "a map is due"),
        ({"t": "boxes", "device": "d0", "boxes": {"d1": 5}}, "bytes is due"),
        ({"t": "survivors", "session": b"", "devices": [1]}, "a list of names"),
        (
            {"t": "publickeys", "device": "d", "box": b"", "mask": b"", "seed": b""}
            | {"voucher": b""},
            "32 bytes",
        ),
        (
            {"t": "publickeys", "device": "d", "box": KEY, "mask": KEY, "seed": KEY}
            | {"voucher": bytes(5000)},
            "at most 4096",
        ),
        (READY | {"shapes": {"w": [-1]}}, "the shape of a row"),
        (READY | {"shapes": {"w": [1] * 9}}, "the shape of a row"),
        ({"t": "roster", "session": b"", "keys": {"d": [b"", b""]}}, "three keys and a voucher"),
        (
            {"t": "agreement", "session": bytes(16), "devices": ["a"], "dropouts": 0}
            | {"layout": "", "purpose": ""},
            "3 devices at least",
        ),
    ],
)
def test_what_is_no_letter_is_refused_in_one_line(raw, words):
    with pytest.raises(WireError, match=words):
        decode_letter(strict.dump(raw, DEFAULT, "test"))
