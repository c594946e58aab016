"""Chunks on disk: any order, any loss, any lie; bounded in size and age, over restarts."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protofleet.errors import BlobError
from protofleet.mqtt.blobs.descriptor import BlobDescriptor
from protofleet.mqtt.blobs.sender import OutgoingBlob
from protofleet.mqtt.blobs.store import BlobStore

payloads = st.binary(min_size=1, max_size=4000)
chunks = st.integers(256, 700)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path, clock):
    return BlobStore(tmp_path / "store", largest=10_000, total=20_000, expiry=60, clock=clock)


@pytest.fixture(scope="session")
def stores(tmp_path_factory):
    """A store of its own for each example."""

    def make():
        return BlobStore(
            tmp_path_factory.mktemp("store"), largest=2**20, total=2**21, expiry=60, clock=Clock()
        )

    return make


def expanded(ranges):
    return [i for first, last in ranges for i in range(first, last + 1)]


@given(payloads, chunks, st.data())
@settings(max_examples=60)
def test_chunks_in_any_order_and_number_make_the_payload(stores, payload, chunk, data):
    blob = OutgoingBlob(payload, chunk)
    incoming = stores().open("a", blob.descriptor)
    every = list(range(blob.descriptor.chunks))
    order = data.draw(
        st.permutations(every + data.draw(st.lists(st.sampled_from(every), max_size=5)))
    )
    there: set[int] = set()
    for index in order:
        assert incoming.complete == (len(there) == len(every))
        assert expanded(incoming.missing()) == [i for i in every if i not in there]
        assert incoming.add(index, blob.chunk(index)) == (index not in there)
        there.add(index)
    assert incoming.payload() == payload
    assert incoming.missing() == []


@given(payloads.filter(lambda p: len(p) > 300), chunks, st.data())
@settings(max_examples=30)
def test_a_wrong_byte_is_never_handed_out_and_can_be_made_good(stores, payload, chunk, data):
    blob = OutgoingBlob(payload, chunk)
    incoming = stores().open("a", blob.descriptor)
    bad = data.draw(st.integers(0, blob.descriptor.chunks - 1))
    for index in range(blob.descriptor.chunks):
        piece = bytearray(blob.chunk(index))
        piece[0] ^= index == bad
        incoming.add(index, bytes(piece))
    assert incoming.payload() is None
    assert incoming.missing() == blob.descriptor.whole()
    for index in range(blob.descriptor.chunks):
        incoming.add(index, blob.chunk(index))
    assert incoming.payload() == payload


def test_chunks_that_cannot_be_ours_are_turned_away(store):
    blob = OutgoingBlob(os.urandom(1000), 300)
    incoming = store.open("a", blob.descriptor)
    for index, piece in [
        (-1, b"x" * 300),
        (4, b"x" * 300),
        (0, b"x" * 299),
        (0, b"x" * 301),
        (3, b"x" * 300),
        (0, b""),
    ]:
        assert not incoming.add(index, piece)
    assert incoming.missing() == [(0, 3)]


def test_a_transfer_goes_on_in_the_next_process(tmp_path, clock):
    blob = OutgoingBlob(os.urandom(5000), 500)

    def process():
        return BlobStore(tmp_path, largest=10_000, total=20_000, expiry=60, clock=clock)

    first = process().open("a", blob.descriptor)
    for index in (0, 1, 5):
        first.add(index, blob.chunk(index))
    second = process()
    incoming = second.open("a", blob.descriptor)
    assert incoming.missing() == [(2, 4), (6, 9)]
    for index in expanded(incoming.missing()):
        incoming.add(index, blob.chunk(index))
    assert incoming.payload() is not None
    second.close("a", blob.descriptor.digest)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", [b"", b"\1" * 9, b"\1" * 11, b"\2" * 10])
def test_damaged_marks_start_it_again(tmp_path, clock, damage):
    blob = OutgoingBlob(os.urandom(5000), 500)
    store = BlobStore(tmp_path, largest=10_000, total=20_000, expiry=60, clock=clock)
    store.open("a", blob.descriptor).add(0, blob.chunk(0))
    next(tmp_path.glob("*.marks")).write_bytes(damage)
    again = BlobStore(tmp_path, largest=10_000, total=20_000, expiry=60, clock=clock)
    assert again.open("a", blob.descriptor).missing() == [(0, 9)]


def test_the_store_is_bounded_in_size_and_the_stalest_goes_first(store, clock, tmp_path):
    with pytest.raises(BlobError, match="10001 bytes"):
        store.open("a", OutgoingBlob(bytes(10_001), 1000).descriptor)
    descriptors = [OutgoingBlob(os.urandom(8000), 1000).descriptor for _ in range(3)]
    for number, descriptor in enumerate(descriptors):
        clock.now = number
        store.open("a", descriptor)
        assert store.size <= 20_000
    assert store.find("a", descriptors[0].digest) is None
    assert store.find("a", descriptors[2].digest) is not None
    assert len(list((tmp_path / "store").iterdir())) == 4
    assert store.find("b", descriptors[2].digest) is None  # another's chunks are not ours


def test_what_nobody_adds_to_is_forgotten(store, clock, tmp_path):
    blob = OutgoingBlob(bytes(8000), 1000)
    store.open("a", blob.descriptor)
    clock.now = 59
    store.sweep()
    store.find("a", blob.descriptor.digest).add(0, blob.chunk(0))
    clock.now = 118
    store.sweep()
    assert store.find("a", blob.descriptor.digest) is not None
    clock.now = 120
    store.sweep()
    assert store.find("a", blob.descriptor.digest) is None
    assert list((tmp_path / "store").iterdir()) == []


def test_what_an_earlier_process_left_counts_and_goes(tmp_path, clock):
    old = BlobStore(tmp_path, largest=10_000, total=20_000, expiry=60, clock=clock)
    for _ in range(2):
        old.open("a", OutgoingBlob(os.urandom(9000), 1000).descriptor)
    new = BlobStore(tmp_path, largest=10_000, total=20_000, expiry=60, clock=clock)
    new.open("a", OutgoingBlob(os.urandom(9000), 1000).descriptor)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.parcel")) <= 20_000
    new.sweep()
    assert len(list(tmp_path.glob("*.parcel"))) == 1


def test_the_files_of_the_first_version_are_found_again(store, tmp_path):
    """The names are on devices' disks: a transfer goes on over an update."""
    store.open("train", BlobDescriptor("ab" * 32, 5000, 1000))
    base = "49d4edc428dca845111a598bf743967c"
    assert {path.name for path in (tmp_path / "store").iterdir()} == {
        f"{base}.parcel",
        f"{base}.marks",
    }


def test_the_same_bytes_cut_in_another_way_start_again(store):
    first, second = (OutgoingBlob(bytes(5000), chunk).descriptor for chunk in (1000, 500))
    store.open("a", first).add(0, bytes(1000))
    assert store.open("a", second).missing() == [(0, 9)]
    assert store.size == 5000


def test_however_small_they_are_there_are_only_so_many(store, clock, monkeypatch, tmp_path):
    monkeypatch.setattr("protofleet.mqtt.blobs.store.MOST", 3)
    for number in range(9):
        clock.now = float(number)
        store.open(f"camera-{number}", OutgoingBlob(bytes([number]), 300).descriptor)
    assert len(list((tmp_path / "store").glob("*.parcel"))) == 3
    assert store.find("camera-8", OutgoingBlob(b"\x08", 300).descriptor.digest) is not None
