import pytest

from protofleet.errors import TrustError
from protofleet.trust import keys, ring
from protofleet.trust.ring import Ring

AUTHORITY = keys.new()
RAW = tuple(keys.raw(keys.new().public_key()) for _ in range(2))
TOPIC = "pf/1/orchard/g/keys"


def test_a_ring_is_read_as_it_was_signed():
    data = ring.signed(Ring("orchard", 3, RAW), AUTHORITY, TOPIC)
    read = ring.read(data, AUTHORITY.public_key(), TOPIC, "orchard")
    assert read == Ring("orchard", 3, RAW)
    assert set(read.public()) == {keys.name(raw) for raw in RAW}


def test_a_ring_of_others_is_refused():
    data = ring.signed(Ring("orchard", 3, RAW), AUTHORITY, TOPIC)
    for key, topic, fleet, words in (
        (keys.new(), TOPIC, "orchard", "does not hold"),
        (AUTHORITY, "pf/1/meadow/g/keys", "orchard", "does not hold"),
        (AUTHORITY, TOPIC, "meadow", "another fleet"),
    ):
        with pytest.raises(TrustError, match=words):
            ring.read(data, key.public_key(), topic, fleet)


@pytest.mark.parametrize("known", [(), RAW * 3, (b"short",)])
def test_a_ring_has_one_to_four_keys(known):
    data = ring.signed(Ring("orchard", 3, known), AUTHORITY, TOPIC)
    with pytest.raises(TrustError, match="ring: "):
        ring.read(data, AUTHORITY.public_key(), TOPIC, "orchard")
