"""A zip from elsewhere unpacks to what it says and to no more, and says so beforehand."""

import io
import struct
import tracemalloc
import zipfile

import pytest

from protofleet.exchange import zipped


def packed(entries, method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, data in entries:
            file.writestr(name, data)
    return bytearray(out.getvalue())


def understated(data, size):
    """The same file, in which the first entry is said to unpack to no more than this."""
    struct.pack_into("<L", data, 22, size)
    struct.pack_into("<L", data, data.index(b"PK\1\2") + 24, size)
    return data


def with_locator(data):
    """A second, larger tail, which Python's own reader believes before the first."""
    end = data.index(b"PK\5\6")
    cd = struct.unpack_from("<2L", data, end + 12)
    second = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, *cd)
    return data[:end] + second + struct.pack("<4sLQL", b"PK\6\7", 0, end, 1) + data[end:]


def test_what_is_sound_is_read():
    file = zipped.of_bytes(bytes(packed([("a", b"x" * 5000), ("b", b"")])), 1 << 20)
    assert (file.names(), file.read("a"), file.read("b")) == (["a", "b"], b"x" * 5000, b"")
    with pytest.raises(KeyError):
        file.read("c")
    with pytest.raises(zipfile.BadZipFile, match="5000 bytes"):
        file.read("a", largest=4999)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK", "too short"),
        (packed([("a", b"x")]) + b"\0", "does not end"),
        (packed([("a", bytes(70 << 20))]), "unpack to 73400320"),
        (packed([(f"{n}", b"") for n in range(65)]), "65 entries"),
        (packed([("n" * 65000, b"")]), "1 entries in 65"),
        (packed([("a", b"x")], zipfile.ZIP_LZMA), "packed in a way of its own"),
        (packed([("a", b"x"), ("b", b"y")]).replace(b"b", b"a"), "two entries of one name"),
        (with_locator(packed([("a", b"x")])), "1 entries"),
    ],
)
def test_what_is_not_is_refused_before_anything_is_unpacked(data, words):
    with pytest.raises(zipfile.BadZipFile, match=words):
        zipped.of_bytes(bytes(data), 1 << 30)


def test_an_entry_is_unpacked_as_far_as_it_says_and_no_further():
    file = zipped.of_bytes(bytes(understated(packed([("a", bytes(64 << 20))]), 10)), 1 << 30)
    tracemalloc.start()
    with pytest.raises(zipped.UNREADABLE):
        file.read("a")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
