import base64
import json
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st

from protofleet.errors import TrustError
from protofleet.trust import cose

VECTORS = Path(__file__).parents[2] / "data/cose"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
TOPIC = b"pf/1/orchard/d/camera-07/up/3"
SIGNED = cose.sign(KEY, {cose.KEY_ID: b"k" * 8, -65537: 70_000}, TOPIC, b"content")


def vector(name):
    document = json.loads((VECTORS / f"{name}.json").read_text())
    what = document["input"]["sign0"]
    signed = bytes.fromhex(document["intermediates"]["ToBeSign_hex"])
    return (
        bytes.fromhex(document["output"]["cbor"]),
        bytes.fromhex(what.get("external", "")),
        signed,
        what["key"],
    )


def es256(key, signature, message):
    """The examples' other algorithm: what is signed is the same, whoever verifies it."""
    x, y = (int.from_bytes(base64.urlsafe_b64decode(key[n] + "="), "big") for n in "xy")
    numbers = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    public.verify(utils.encode_dss_signature(*numbers), message, ec.ECDSA(SHA256()))


def test_the_working_groups_ed25519_is_verified_and_made_again():
    data, aad, signed, key = vector("eddsa-sig-01")
    taken, end = cose.read(data)
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key["x_hex"]))
    assert end == len(data)
    assert cose.verify(taken, public, aad) == b"This is the content."
    assert cose.structure(taken.protected, aad, taken.payload) == signed
    private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(key["d_hex"]))
    ours, _ = cose.read(cose.sign(private, {3: 0}, aad, b"This is the content."))
    assert (ours.protected, ours.signature) == (taken.protected, taken.signature)


@pytest.mark.parametrize("name", ["Appendix_C_2_1", "sign-pass-01", "sign-pass-02"])
def test_what_is_signed_is_that_of_rfc_9052_and_its_examples(name):
    data, aad, signed, key = vector(name)
    taken, _ = cose.read(data)
    assert taken.unprotected.get(cose.KEY_ID) in (b"11", None)
    if name != "sign-pass-01":  # there the header that says so is an empty string
        assert taken.headers == {cose.ALGORITHM: -7}
    structure = cose.structure(taken.protected, aad, taken.payload)
    assert structure == signed
    es256(key, taken.signature, structure)
    with pytest.raises(TrustError, match="only EdDSA"):
        cose.verify(taken, KEY.public_key(), aad)


@pytest.mark.parametrize("name", [f"sign-fail-0{n}" for n in (1, 2, 3, 4, 6, 7)])
def test_what_the_examples_break_is_refused(name):
    data, aad, _, key = vector(name)

    def opened():
        taken, _ = cose.read(data)
        if taken.headers.get(cose.ALGORITHM) != -7:
            cose.verify(taken, KEY.public_key(), aad)
        es256(key, taken.signature, cose.structure(taken.protected, aad, taken.payload))

    with pytest.raises((TrustError, InvalidSignature)):
        opened()


def test_other_curves_and_untagged_bytes_are_refused():
    data, aad, _, _ = vector("eddsa-sig-02")  # Ed448
    with pytest.raises(TrustError, match="114 bytes where 64"):
        cose.verify(cose.read(data)[0], KEY.public_key(), aad)
    with pytest.raises(TrustError, match="no COSE_Sign1"):
        cose.read(vector("sign-pass-03")[0])


def test_a_content_may_travel_beside_its_signature():
    data = cose.sign(KEY, {}, TOPIC, b"content", detached=True)
    taken, end = cose.read(data + b"content")
    assert cose.verify(taken, KEY.public_key(), TOPIC, data[end:] or b"content") == b"content"
    for content in (None, b"other"):
        with pytest.raises(TrustError):
            cose.verify(taken, KEY.public_key(), TOPIC, content)
    with pytest.raises(TrustError, match="another is beside it"):
        cose.verify(cose.read(SIGNED)[0], KEY.public_key(), TOPIC, b"content")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (SIGNED[:40], "end too early"),
        (b"\xd2\x84\x5a\xff\xff\xff\xff", "end too early"),
        (b"\xd2\x84\x5f", "indefinite"),
        (b"\xd2\x84\x58\x04" + SIGNED[2:], "shortest form"),
        (b"\xd2\x84\x43\xa1\x01\x27\xbf", "indefinite"),
        (b"\xd2\x84\x45\xa2\x01\x27\x01\x27\xa0\xf6\x40", "one twice"),
        (b"\xd2\x84\x45\xa2\x04\x00\x01\x27\xa0\xf6\x40", "out of order"),
        (b"\xd2\x84\x45\xa2\x01\x27\x02\x00\xa0\xf6\x40", "critical"),
        (b"\xd2\x84\x44\xa1\x01\x27\x00\xa0\xf6\x40", "after the protected"),
        (b"\xd2\x84\x43\x83\x01\x27\xa0\xf6\x40", "no map"),
        (b"\xd2\x84\x59\x01\x2c" + bytes(300), "at most 256"),
        (b"\xd2\x84\x44\xa1\x61a\x01\xa0\xf6\x40", "no whole number"),
    ],
)
def test_other_bytes_are_one_clear_line(data, words):
    with pytest.raises(TrustError, match=words) as error:
        cose.read(data)
    assert "\n" not in str(error.value)


@given(at=st.integers(0, len(SIGNED) - 1), bit=st.integers(0, 7))
def test_any_changed_bit_is_noticed(at, bit):
    data = bytearray(SIGNED)
    data[at] ^= 1 << bit
    try:
        taken, end = cose.read(bytes(data))
    except TrustError:
        return
    if not taken.unprotected and end == len(data):
        with pytest.raises(TrustError):
            cose.verify(taken, KEY.public_key(), TOPIC)


@given(st.binary(max_size=120))
def test_no_bytes_do_anything_else(data):
    for bytes_in in (data, cose.HEAD + data):
        try:
            cose.read(bytes_in)
        except TrustError as error:
            assert "\n" not in str(error)  # noqa: PT017 - it may also be read
