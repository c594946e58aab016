"""Devices that come late, and a class that one device alone has seen."""

from dataclasses import replace

import numpy as np

from simulators.cross import newcomers
from simulators.cross.cross import FLEET, config_of
from simulators.cross.cross_page import late_and_rare
from simulators.cross.newcomers import CASES, LATE, SHOTS, rare_class
from simulators.run.setup import prepare


def case(task, name):
    (finished_runs,) = (each for each in CASES if each.name == name)
    return replace(finished_runs, task=task)


def test_late_devices_have_few_samples_and_are_measured_as_they_come_and_later(ran, tmp_path):
    task, _, _ = ran
    late = case(task, "late")
    setup = prepare(config_of(task, FLEET, 0))
    dealt = late.deal(setup)
    for before, after in zip(setup.partition.shards[-LATE:], dealt.shards[-LATE:], strict=True):
        assert set(after.train) <= set(before.train)
        assert np.bincount(setup.data.y[after.train]).max() <= SHOTS
    assert dealt.shards[:-LATE] == setup.partition.shards[:-LATE]
    numbers = newcomers.run(late, FLEET, 0, tmp_path)
    assert list(numbers["prototype"]) == ["after 0", "after 1", "after 5"]
    assert newcomers.run(late, FLEET, 0, tmp_path) == numbers
    assert "| fleet | prototype" in "\n".join(late_and_rare([late], 1, tmp_path))


def test_the_rare_class_is_left_to_the_device_that_has_most_of_it(ran, tmp_path):
    task, _, _ = ran
    rare = case(task, "rare")
    setup = prepare(config_of(task, FLEET, 0))
    label, keeper = rare_class(setup.partition, setup.data.y, len(setup.data.classes))
    dealt = rare.deal(setup)
    holders = [s.agent for s in dealt.shards if (setup.data.y[s.train] == label).any()]
    assert holders == [keeper]
    tests = {s.agent: s.test for s in setup.partition.shards}
    assert all(np.array_equal(s.test, tests[s.agent]) for s in dealt.shards)
    numbers = newcomers.run(rare, FLEET, 0, tmp_path)["prototype_all_classes"]
    assert set(numbers) == {"the rare class", "the others"}
    assert all(0 <= value <= 1 for value in numbers.values())
