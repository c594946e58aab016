"""Arrays come out as numpy wrote them, or not at all."""

import io
import zipfile

import numpy as np
import pytest

from protofleet.errors import WireError
from protofleet.exchange import npz

ARRAYS = {
    "scalar": np.array(3.5),
    "row": np.arange(7, dtype=np.int64),
    "turned": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "none": np.zeros((0, 4), np.float16),
    "": np.ones(3, np.float32),
}


def of(*entries):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in entries:
            packed.writestr(name, data)
    return out.getvalue()


def header(text, data=b"", version=b"\1\0"):
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text.encode() + data


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_wrote_is_read(save):
    out = io.BytesIO()
    save(out, **ARRAYS)
    arrays = npz.read(out.getvalue())
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert np.array_equal(arrays[name], array)


TIB = "{'descr': '<f8', 'fortran_order': False, 'shape': (137438953472,), }"
OBJECT = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
PROGRAM = "{'descr': '<f4', 'fortran_order': False, 'shape': (9**9**9,), }"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        of(("a.npy", b"")),
        of(("a.npy", header(TIB))),
        of(("a.npy", header(TIB, bytes(800)))),
        of(("a.npy", header(OBJECT, b"\x80\x04."))),
        of(("a.npy", header(PROGRAM))),
        of(("a.npy", header(TIB.replace("137438953472,", "1,")))),
        of(("a.npy", header(TIB.replace("137438953472,", "1," * 9), bytes(8)))),
        of(("a.npy", header("(" * 9000))),
        of(("a.npy", header(TIB, version=b"\7\0"))),
        of(("a.npy", bytes(70 << 20))),
    ],
)
def test_what_it_did_not_is_refused(data):
    with pytest.raises(WireError, match="no arrays"):
        npz.read(data)
