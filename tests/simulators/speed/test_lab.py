"""Contenders take turns, each in a process of its own, and rounds of warming up are not counted."""

import os

import pytest

from protofleet.errors import FleetError
from simulators.speed import lab
from simulators.speed.lab import cifar_few_shot, fashion_cnn4, measure, variant


def counting(factor):
    """A contender whose accuracy is its round times this; it notes its process."""
    calls = []

    def round(number):
        calls.append(number)
        assert calls == list(range(1, number + 1))  # every round once, in order
        return factor * number

    return round


def process_of(_):
    pid = os.getpid()
    return lambda number: float(pid)


def silent():
    return lambda number: None


def dying():
    return lambda number: os._exit(3)


def test_accuracy_is_that_of_the_last_five_rounds_and_of_none_there_is_none():
    told = []
    contenders = {"one": (counting, (0.1,)), "ten": (counting, (1.0,)), "floor": (silent, ())}
    rows = {row.name: row for row in measure(contenders, 7, told.append)}
    assert rows["one"].accuracy == pytest.approx(0.5)  # of rounds 3 to 7
    assert rows["ten"].accuracy == pytest.approx(5)
    assert rows["floor"].accuracy is None
    assert told == [f"round {number}/7" for number in range(1, 8)]


def test_every_contender_has_a_process_of_its_own():
    rows = measure({"a": (process_of, (0,)), "b": (process_of, (0,))}, 1, lambda words: None)
    pids = {row.accuracy for row in rows}
    assert len(pids | {float(os.getpid())}) == 3


def test_a_contender_that_dies_fails_the_table():
    with pytest.raises(FleetError, match="a contender's process died"):
        measure({"a": (silent, ()), "b": (dying, ())}, 2, lambda words: None)


def test_a_variant_changes_how_and_not_what_is_computed():
    for cell in (cifar_few_shot(), fashion_cnn4()):
        fast = variant(cell, compile=True, layout="channels-last")
        assert (fast.run, fast.partition, fast.training) == (
            cell.run,
            cell.partition,
            cell.training,
        )
        assert fast.numerics != cell.numerics
    assert lab.WARM_UP < 12  # the command's default number of rounds
