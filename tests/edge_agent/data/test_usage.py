"""What a run did with each sample is kept, and known again."""

from dataclasses import replace

import numpy as np
import pytest

from edge_agent.data.dataset import DataSet, input_of
from edge_agent.data.usage import NOBODYS, TESTED, TRAINED, Usage, unpacked
from protofleet.errors import DataError


def test_codes_come_back_and_belong_to_one_set():
    x = np.zeros((5, 2, 2, 1), np.uint8)
    data = DataSet("d", ("a", "b"), input_of("d", x), x, np.array([0, 1, 0, 1, 1]), 3)
    usage = unpacked(Usage.of(data, np.array([3, 0]), np.array([4])).packed())
    assert usage.codes.tolist() == [TRAINED, NOBODYS, NOBODYS, TRAINED, TESTED]
    assert usage.fits(data)
    # At another size it is the same set; with other labels, or more of them, it is none.
    small = np.zeros((5, 1, 1, 1), np.uint8)
    assert usage.fits(replace(data, x=small, input=input_of("d", small)))
    assert not usage.fits(replace(data, y=data.y[::-1].copy()))
    assert not usage.fits(replace(data, name="e"))
    with pytest.raises(DataError, match="not readable"):
        unpacked(b"nothing")
