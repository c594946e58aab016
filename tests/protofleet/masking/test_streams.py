import hmac

import pytest

from protofleet.errors import FusionError
from protofleet.masking.streams import (
    BOXES,
    MASKS,
    Pair,
    agreed_key,
    derived,
    opened_box,
    public_of,
    sealed,
    stream,
)

# RFC 7748, section 6.1
ALICE = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
ALICE_PUBLIC = bytes.fromhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
BOB = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
BOB_PUBLIC = bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
SHARED = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")


def test_keys_are_those_of_rfc_7748():
    assert (public_of(ALICE), public_of(BOB)) == (ALICE_PUBLIC, BOB_PUBLIC)


def test_both_ends_agree_on_what_hkdf_makes_of_the_shared_secret():
    one = agreed_key(Pair(ALICE, ALICE_PUBLIC, BOB_PUBLIC), b"session", MASKS)
    assert one == agreed_key(Pair(BOB, BOB_PUBLIC, ALICE_PUBLIC), b"session", MASKS)
    # HKDF of one block by its definition: extract, then T(1) = HMAC(prk, info ‖ 1).
    prk = hmac.digest(b"session", SHARED, "sha256")
    info = MASKS + b"".join(sorted((ALICE_PUBLIC, BOB_PUBLIC)))
    assert one == hmac.digest(prk, info + b"\1", "sha256")
    assert one != agreed_key(Pair(ALICE, ALICE_PUBLIC, BOB_PUBLIC), b"session", BOXES)


def test_hkdf_is_that_of_rfc_5869():
    okm = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    salt, info = bytes(range(13)), bytes(range(0xF0, 0xFA))
    assert derived(b"\x0b" * 22, salt, info, 42) == bytes.fromhex(okm)


def test_the_stream_is_that_of_rfc_8439():
    first = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    assert stream(bytes(32), 32) == bytes.fromhex(first)  # appendix A.1, first vector


@pytest.mark.parametrize("key", [bytes(32), b"short"])
def test_a_key_that_is_none_is_refused(key):
    with pytest.raises(FusionError, match="a device's key for masks is none"):
        agreed_key(Pair(ALICE, ALICE_PUBLIC, key), b"session", MASKS)


@pytest.mark.parametrize("spoil", ["byte", "label", "key"])
def test_a_box_opens_for_whom_it_was_sealed_alone(spoil):
    box = sealed(SHARED, b"a share", b"from a to b")
    assert opened_box(SHARED, box, b"from a to b") == b"a share"
    key = ALICE if spoil == "key" else SHARED
    label = b"from b to a" if spoil == "label" else b"from a to b"
    with pytest.raises(FusionError, match="sealed by somebody else"):
        opened_box(key, bytes([box[0] ^ 1]) + box[1:] if spoil == "byte" else box, label)
