from types import SimpleNamespace

import pytest

from protofleet.errors import TrustError
from protofleet.trust import cose, keys, sealing
from protofleet.trust.sealing import Gate, Signer, Unsealed
from protofleet.trust.sequence import Numbers, Sequence

TOPIC = "pf/1/orchard/d/camera-07/up/3"
MESSAGE = b"\xa1\x61\x74\x63ack"


class Book(SimpleNamespace):
    def keys(self, speaker):
        return self.known.get(speaker, {})

    def required(self, speaker):
        return self.strict


@pytest.fixture
def signer(tmp_path):
    return Signer(keys.new(), Sequence(tmp_path))


def book(signer, *, strict=True, speaker="camera-07"):
    public = signer.key.public_key()
    return Book(known={speaker: {keys.name(keys.raw(public)): public}}, strict=strict)


def gate(signer, **how):
    return Gate(book(signer, **how), Numbers())


def test_what_is_sealed_is_opened_and_proved_again(signer):
    data = signer.seal(TOPIC, MESSAGE)
    opened = gate(signer).open("camera-07", TOPIC, "upload", data)
    assert opened.message == MESSAGE
    assert len(data) - len(MESSAGE) == len(opened.proof.signature) < 110
    again = sealing.taken_apart(opened.proof.signature + opened.message)
    sealing.check(again, signer.key.public_key(), TOPIC)


@pytest.mark.parametrize(
    ("speaker", "topic", "change", "words"),
    [
        ("camera-07", TOPIC[:-1] + "4", lambda data: data, "does not hold"),
        ("camera-07", TOPIC.replace("orchard", "meadow"), lambda data: data, "does not hold"),
        ("camera-07", TOPIC, lambda data: data[:-1] + b"x", "does not hold"),
        ("camera-07", TOPIC, lambda data: data[-len(MESSAGE) :], "not signed"),
        ("camera-08", TOPIC, lambda data: data, "is not that of camera-08"),
        ("camera-08", TOPIC, lambda data: MESSAGE, "not signed"),
        ("camera-07", TOPIC, lambda data: data[:30], "end too early"),
    ],
)
def test_what_is_not_what_was_said_there_is_refused(signer, speaker, topic, change, words):
    data = signer.seal(TOPIC, MESSAGE)
    with pytest.raises(TrustError, match=words):
        gate(signer).open(speaker, topic, "upload", change(data))


def test_what_was_said_before_the_last_word_is_refused(signer):
    door = gate(signer)
    first, second = (signer.seal(TOPIC, MESSAGE) for _ in range(2))
    for data in (first, first, second):
        door.open("camera-07", TOPIC, "upload", data)
    with pytest.raises(TrustError, match="said before"):
        door.open("camera-07", TOPIC, "upload", first)
    assert door.numbers.fresh


def test_a_number_is_remembered_only_with_a_signature_that_holds(signer, tmp_path):
    forger = Signer(keys.new(), Sequence(tmp_path / "far", wall=lambda: 1e12))
    door = gate(signer)
    named = keys.name(keys.raw(signer.key.public_key()))
    headers = {cose.KEY_ID: named, sealing.HASHED: sealing.SHA256, sealing.NUMBER: 2**60}
    forged = cose.sign(forger.key, headers, TOPIC.encode(), bytes(32), detached=True) + MESSAGE
    with pytest.raises(TrustError, match="does not hold"):
        door.open("camera-07", TOPIC, "upload", forged)
    assert door.open("camera-07", TOPIC, "upload", signer.seal(TOPIC, MESSAGE)).proof


def test_who_has_no_key_may_speak_where_that_is_accepted(signer):
    door = gate(signer, strict=False)
    assert door.open("camera-08", TOPIC, "upload", MESSAGE) == Unsealed(MESSAGE)
    # Who has one may not, as a signature could be taken off on the way.
    with pytest.raises(TrustError, match="not signed"):
        door.open("camera-07", TOPIC, "upload", MESSAGE)
    sealed = signer.seal(TOPIC, MESSAGE)
    assert door.open("camera-08", TOPIC, "upload", sealed) == Unsealed(MESSAGE)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({}, "of what, or by whom"),
        ({cose.KEY_ID: b"k", sealing.HASHED: -43, sealing.NUMBER: 1}, "of what, or by whom"),
        ({cose.KEY_ID: b"k", sealing.HASHED: sealing.SHA256}, "no number"),
    ],
)
def test_other_signatures_are_not_those_of_messages(signer, headers, words):
    data = cose.sign(signer.key, headers, b"", bytes(32), detached=True) + MESSAGE
    with pytest.raises(TrustError, match=words):
        sealing.taken_apart(data)
    with pytest.raises(TrustError, match="more in it"):
        sealing.taken_apart(cose.sign(signer.key, headers, b"", bytes(32)))
