"""What a program brings itself: sets, rows, networks."""

import numpy as np
import pytest
import torch
from torch import nn

from protofleet.errors import DataError, UsageError
from simulators.run import supplied
from simulators.run.partitions import PartitionOptions

Y = np.arange(40) % 4


def colours(channels=3):
    return np.random.default_rng(0).random((40, channels, 8, 8), np.float32)


class Pairs(torch.utils.data.Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), int(Y[i])


def test_tensors_arrays_and_datasets_of_the_same_images_are_the_same_set():
    x = colours()
    whole = [
        supplied.data_set(each, (), 0, in_order=True)
        for each in (
            (torch.from_numpy(x), torch.from_numpy(Y)),
            (np.moveaxis(x, 1, -1), Y.tolist()),
            (np.rint(255 * np.moveaxis(x, 1, -1)).astype(np.uint8), Y),
            Pairs(x),
        )
    ]
    for each in whole:
        assert each.input.shape == (8, 8, 3)
        assert np.array_equal(each.x, whole[0].x)
        assert np.array_equal(each.y, Y)


def test_test_samples_are_those_that_were_brought_as_such():
    x = np.random.default_rng(1).normal(size=(40, 5))
    data = supplied.data_set((x[:30], Y[:30], x[30:], Y[30:]), "abcd", 0, in_order=False)
    assert (data.n_train, data.classes, data.input.kind) == (30, ("a", "b", "c", "d"), "vector")
    assert np.allclose(data.x, x)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (3, "a int"),
        ((1, 2, 3), "3 arrays"),
        ((colours() * 3, Y), "from 0 to 1"),
        ((np.zeros((40, 5)), Y[:3]), "40 samples but 3 labels"),
        ([1, 2, 3, 4, 5], "5 arrays"),
        (Pairs(colours()[:, 0, 0]), None),
    ],
)
def test_what_is_no_set_is_one_clear_line(data, words):
    if words is None:
        assert supplied.data_set(data, (), 0, in_order=False).input.kind == "vector"
        return
    if isinstance(data, tuple) and data[0].__class__ is np.ndarray and data[0].ndim == 4:
        data = (np.moveaxis(data[0], 1, -1), data[1])
    with pytest.raises((UsageError, DataError), match=words):
        supplied.data_set(data, (), 0, in_order=False)


def test_devices_hold_the_rows_that_were_chosen_for_them():
    data = supplied.data_set((np.zeros((40, 5)), Y), (), 0, in_order=True)
    shards = supplied.shards([range(20), range(20, 36)], data, 0, PartitionOptions())
    for shard, rows in zip(shards, (range(20), range(20, 36)), strict=True):
        assert sorted(np.concatenate([shard.train, shard.validation, shard.test])) == list(rows)
    for rows, words in (
        ([range(20), range(19, 30)], "held twice"),
        ([[0, 99]], "beyond"),
        ([[0.5, 1.5]], "whole numbers"),
    ):
        with pytest.raises(UsageError, match=words):
            supplied.shards(rows, data, 0, PartitionOptions())


def test_a_module_is_where_all_begin_and_a_function_makes_new_ones():
    module = nn.Linear(5, 3)
    name, networks = supplied.networks(module)
    made = networks[name]()
    assert name == "Linear"
    assert made is not module
    assert torch.equal(made.weight, module.weight)
    assert supplied.networks("lenet") == ("lenet", {})
    assert supplied.networks(lambda: nn.Linear(5, 3))[0] == "own"
    with pytest.raises(UsageError, match="a torch module"):
        supplied.networks(3)
