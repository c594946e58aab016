"""What is not said is what the field's rule leaves out, and costs what it costs."""

from dataclasses import replace

import numpy as np
import pytest

from edge_agent.contributing.rules import SpeechRules
from simulators.attacks import silence
from simulators.cross.cross import TASKS
from simulators.papers.cell import changed


@pytest.mark.parametrize(
    ("samples", "spoken"), [(0, 0), (4, 0), (5, 5), (9, 5), (10, 10), (27, 25)]
)
def test_of_samples_that_come_one_by_one_the_last_few_are_not_spoken_of(samples, spoken):
    rows = np.arange(samples)
    assert silence._spoken(rows, SpeechRules(5, 5)).tolist() == rows[:spoken].tolist()
    everything = silence._spoken(rows, SpeechRules(5, 1))
    assert len(everything) == (samples if samples >= 5 else 0)


@pytest.fixture
def digits(monkeypatch):
    task = TASKS[-1]
    small = changed(task.config, dataset="digits", limit=300)
    monkeypatch.setattr(silence, "TASKS", (replace(task, config=small),))


def test_every_way_is_measured_on_the_same_devices(digits):
    watched = []
    runs = silence.measure(["mnist"], 1, 2, 1, watched.append)
    assert watched == runs
    assert [run.way for run in runs] == list(silence.WAYS)
    by_way = {run.way: run for run in runs}
    assert by_way["everything"].spoken == 1
    assert by_way["off"].spoken == by_way["minimum"].spoken > by_way["one by one"].spoken > 0.5
    assert all(run.accuracy > 0.3 for run in runs)
    assert silence.measure(["fashion"], 1, 2, 1, watched.append) == []
