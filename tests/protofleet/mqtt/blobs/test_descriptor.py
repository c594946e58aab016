"""Descriptors and ranges from outside are checked, and say what they stand for."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet import wire
from protofleet.errors import BlobError
from protofleet.mqtt.blobs.descriptor import (
    BlobDescriptor,
    BlobLimits,
    descriptor_message,
    ranges_of,
    read_ranges,
)
from protofleet.mqtt.blobs.sender import OutgoingBlob

junk = st.recursive(
    st.none() | st.integers() | st.text(max_size=3), lambda x: st.lists(x, max_size=3), max_leaves=6
)


def expanded(ranges):
    return [i for first, last in ranges for i in range(first, last + 1)]


@given(st.sets(st.integers(0, 200)), st.integers(1, 20))
def test_ranges_say_the_same_as_the_numbers(numbers, most):
    runs = ranges_of(sorted(numbers), most)
    assert len(runs) <= most
    assert expanded(runs) == sorted(numbers)[: len(expanded(runs))]
    assert len(runs) == most or set(expanded(runs)) == numbers
    assert read_ranges([list(run) for run in runs], 201) == runs


@given(junk, st.integers(1, 10))
def test_ranges_from_outside_are_checked(value, count):
    try:
        runs = read_ranges(value, count)
    except BlobError:
        return
    assert all(0 <= first <= last < count for first, last in runs)
    assert len(expanded(runs)) == len(set(expanded(runs)))


@given(st.dictionaries(st.sampled_from(["digest", "size", "chunk"]), junk | st.just("ab" * 32)))
def test_descriptors_from_outside_are_checked(body):
    try:
        descriptor = BlobDescriptor.from_body(body)
    except BlobError:
        return
    assert descriptor.chunks <= 65_536


@pytest.mark.parametrize(
    ("size", "chunk"),
    [(10**9, 300), (2, 1), (0, 300), (300, 0), (-1, 300), (True, 300), (2**80, 2**20)],
)
def test_descriptors_that_would_cost_too_much_are_refused(size, chunk):
    with pytest.raises(BlobError):
        BlobDescriptor.from_body({"digest": "ab" * 32, "size": size, "chunk": chunk})


def test_a_descriptor_travels_in_the_envelope_of_what_it_stands_for():
    envelope = wire.Envelope("upload", "orchard", agent="a", round=3, base="cd" * 32)
    blob = OutgoingBlob(b"x" * 5000, 1000)
    message = wire.decode(descriptor_message(envelope, blob.descriptor))
    assert (message.envelope.t, message.envelope.agent, message.envelope.round) == ("slip", "a", 3)
    assert message.body["of"] == "upload"
    assert BlobDescriptor.from_body(message.body) == blob.descriptor
    assert blob.descriptor.digest == sha256(b"x" * 5000).hexdigest()


@given(st.integers(1, 10**6), st.integers(256, 10**5))
def test_the_chunks_lengths_add_up_to_the_size(size, chunk):
    descriptor = BlobDescriptor("ab" * 32, size, chunk)
    lengths = [descriptor.length(index) for index in range(descriptor.chunks)]
    assert sum(lengths) == size
    assert set(lengths[:-1]) <= {chunk}
    assert 0 < lengths[-1] <= chunk
    assert expanded(descriptor.whole()) == list(range(descriptor.chunks))


def test_a_chunk_and_its_header_fit_the_packet_and_a_packet_has_room_for_a_chunk():
    limits = BlobLimits(packet=4096)
    assert limits.fits(bytes(3072))
    assert not limits.fits(bytes(3073))
    with pytest.raises(BlobError, match="1280 or more"):
        BlobLimits(packet=1279)
