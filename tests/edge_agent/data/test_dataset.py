"""One pool of samples: what it may hold, and how rows are chosen from it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.data.dataset import DataSet, input_of, rows_by_class, stratified
from protofleet.contract import Input
from protofleet.errors import DataError
from protofleet.util.seeds import generator


def test_stratified_takes_a_share_of_each_class_and_never_the_last() -> None:
    y = np.repeat([0, 1, 2, 5], [1, 2, 8, 40])
    kept, taken = stratified(y, 0.25, generator("test"))
    assert sorted(np.concatenate([kept, taken]).tolist()) == list(range(51))
    assert np.bincount(y[taken], minlength=6).tolist() == [0, 1, 2, 0, 0, 10]
    assert np.bincount(y[stratified(y, 1.0, generator("test"))[0]]).tolist() == [1, 1, 1, 0, 0, 1]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_rows_by_class_are_every_row_once_in_order(labels: list[int]) -> None:
    y = np.array(labels)
    rows = rows_by_class(y, 5)
    assert len(rows) == 5
    assert sorted(np.concatenate(rows).tolist()) == list(range(len(y)))
    for label, group in enumerate(rows):
        assert (y[group] == label).all()
        assert (np.diff(group) > 0).all()


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (np.zeros((2, 4, 5, 3), np.uint8), Input("image", (4, 5, 3), (0.5,) * 3, (0.5,) * 3)),
        (np.zeros((2, 7), np.float32), Input("vector", (7,))),
        (np.zeros((2, 7, 3), np.float32), Input("series", (7, 3))),
    ],
)
def test_what_a_network_is_fed_with_follows_from_type_and_shape(
    x: np.ndarray, expected: Input
) -> None:
    assert input_of("own", x) == expected


def test_published_constants_come_before_the_default() -> None:
    kind = input_of("own", np.zeros((2, 4, 4, 1), np.uint8), (0.1307,), (0.3081,))
    assert (kind.mean, kind.std) == ((0.1307,), (0.3081,))


def test_a_set_that_contradicts_itself_cannot_be_made() -> None:
    x, kind = np.zeros((3, 2), np.float32), Input("vector", (2,))
    for y, n_train, words in (
        (np.array([0, 1]), 1, "3 samples but 2 labels"),
        (np.array([0, 1, 1]), 0, "no sample to train on"),
        (np.array([0, 1, 1]), 4, "no sample to train on"),
        (np.array([0, 1, 2]), 2, "labels from 0 to 2, but 2 classes"),
        (np.array([-1, 0, 1]), 2, "labels from -1 to 1, but 2 classes"),
    ):
        with pytest.raises(DataError, match=words):
            DataSet("own", ("a", "b"), kind, x, y, n_train)
