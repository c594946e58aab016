"""Every codec carries the same upload, and its size is that of the bytes it makes."""

import numpy as np
import pytest

from simulators.speed.codec import CLASSES, DIM, RAW_BYTES, _codecs, _upload, bench_codec

UPLOAD = _upload()


@pytest.fixture(scope="module")
def rows():
    return {row.name: row for row in bench_codec(1, 1)}


@pytest.mark.parametrize("codec", _codecs(UPLOAD), ids=lambda codec: codec.name)
def test_what_went_in_comes_out_and_the_size_is_counted_exactly(codec, rows):
    data = codec.encode()
    decoded = codec.decode(data)
    vectors = decoded.body["protos"].vectors if codec.name == "protofleet" else decoded
    np.testing.assert_array_equal(vectors, UPLOAD.vectors)
    assert vectors.dtype == np.float32
    assert rows[codec.name].bytes == len(data)
    assert rows[codec.name].over_raw == len(data) - 2 * CLASSES * DIM


def test_ours_costs_a_few_hundred_bytes_over_the_numbers_themselves(rows):
    assert RAW_BYTES == 10_240
    assert 0 < rows["protofleet"].over_raw < 500
    assert rows["JSON"].bytes > 5 * rows["protofleet"].bytes
