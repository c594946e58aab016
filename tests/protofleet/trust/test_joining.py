from datetime import UTC, datetime

import pytest

from protofleet.errors import TrustError
from protofleet.trust import certificates, joining, keys
from protofleet.trust.certificates import Authority
from protofleet.trust.joining import Admission, Declined

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TOPIC = "pf/1/orchard/j/0123456789abcdef/answer"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority.of_folder(tmp_path_factory.mktemp("trust"), "orchard", NOW)


def test_a_question_is_its_token_s_holder_s():
    token = keys.new()
    data = joining.ask(token, "ask", "camera-07", b"request")
    assert joining.read_ask(data, token.public_key(), "ask") == ("camera-07", b"request")
    for key, topic in ((keys.new(), "ask"), (token, "another")):
        with pytest.raises(TrustError, match="does not hold"):
            joining.read_ask(data, key.public_key(), topic)


def test_an_answer_is_the_authority_s_and_to_this_question(authority, tmp_path):
    certificate = authority.client("camera-07", keys.new().public_key(), NOW)
    admission = Admission("camera-07", certificate, authority.certificate, b"ring")
    data = joining.admitted(authority, TOPIC, b"question", admission)
    assert joining.read_answer(data, authority.fingerprint, TOPIC, b"question") == admission
    other = Authority.of_folder(tmp_path, "orchard", NOW)
    for fingerprint, topic, question, words in (
        (other.fingerprint, TOPIC, b"question", "another authority"),
        (authority.fingerprint, TOPIC[1:], b"question", "does not hold"),
        (authority.fingerprint, TOPIC, b"another", "another question"),
    ):
        with pytest.raises(TrustError, match=words):
            joining.read_answer(data, fingerprint, topic, question)
    # The authority's certificate in an answer that somebody else signed.
    forged = Authority(keys.new(), authority.certificate)
    with pytest.raises(TrustError, match="does not hold"):
        joining.read_answer(
            joining.admitted(forged, TOPIC, b"question", admission),
            authority.fingerprint,
            TOPIC,
            b"question",
        )


def test_a_no_is_said_in_words(authority):
    data = joining.declined(authority, TOPIC, b"question", "the invitation has expired")
    with pytest.raises(Declined, match="the invitation has expired"):
        joining.read_answer(data, authority.fingerprint, TOPIC, b"question")


def test_other_bytes_are_one_line(authority):
    for data in (b"", b"\xd2\x84\x40\xa0\x40\x40", b"x" * 99):
        with pytest.raises(TrustError):
            joining.read_answer(data, authority.fingerprint, TOPIC, b"question")
    assert certificates.fingerprint(b"") != authority.fingerprint
