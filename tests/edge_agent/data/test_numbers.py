"""A sample in a file of numbers is read in its extractor's sizes, or one line says what it is."""

import os

import numpy as np
import pytest

from edge_agent.data.images import find, read
from edge_agent.data.numbers import LARGEST
from protofleet.contract import Input
from protofleet.errors import DataError

VECTOR, SERIES = Input("vector", (3,)), Input("series", (2, 3))
TIB = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,), }"
WHOLE = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_vectors_and_series_are_found_and_read(tmp_path):
    (tmp_path / "line.csv").write_text("0,1,2\n")
    (tmp_path / "lines.csv").write_text("0\n1\n2\n")
    (tmp_path / "moments.csv").write_text("0,1,2\n3,4,5\n")
    np.save(tmp_path / "moments.npy", WHOLE)
    (tmp_path / "photo.png").touch()
    names = ["line.csv", "lines.csv", "moments.csv", "moments.npy"]
    assert [path.name for path in find([tmp_path], SERIES)] == names
    assert [path.name for path in find([tmp_path])] == ["photo.png"]
    for name in names[:2]:
        assert read(tmp_path / name, VECTOR).tolist() == [0, 1, 2]
    for name in names[2:]:
        assert (read(tmp_path / name, SERIES) == WHOLE).all()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"0,1\n"),
        ("a.csv", b"0,x,2\n"),
        ("a.csv", b"0,nan,2\n"),
        ("a.csv", b""),
        ("a.csv", b"\xff\xfe"),
        ("a.csv", b"0,1,2\n3,4\n"),
        ("a.npy", b"\x93NUMPY"),
        ("a.npy", b"0" * 100),
        ("a.npy", b"\x93NUMPY\1\0" + len(TIB).to_bytes(2, "little") + TIB),
        ("pipe.csv", None),
        ("a.csv", b"1" * (LARGEST + 1)),
        ("absent.csv", None),
    ],
)
def test_what_is_no_sample_is_one_line(name, content, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    elif name == "pipe.csv":
        os.mkfifo(tmp_path / name)
    with pytest.raises(DataError) as refused:
        read(tmp_path / name, VECTOR)
    assert "\n" not in str(refused.value)
