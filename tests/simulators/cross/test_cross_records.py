"""Records of the cross: what the tables look at survives, thinned out, under its own settings."""

import json
from itertools import pairwise

import pytest

from simulators.cross.cross_records import POINTS, read, write
from simulators.cross.paired import accuracy, bytes_a_device, rounds_to, within
from simulators.papers.cell import changed

ROUNDS = 250
DOCUMENT = {
    "rounds": [
        {
            "round": i,
            "accuracy": {"prototype": i / 1000, "head": i / 500, "other": 1.0} if i > 1 else {},
            "up_bytes": 10,
            "down_bytes": 2,
        }
        for i in range(1, ROUNDS + 1)
    ],
    "partition": {"agents": {"a": {}, "b": {}, "c": {}}},
    "final": {"each": {"prototype": 0.25, "head": 0.5, "other": 1.0}},
    "best": {"each": {"prototype": {"round": 250, "accuracy": 0.25}}},
}


@pytest.fixture
def stored(small_lab, tmp_path):
    path, config = tmp_path / "task" / "fleet" / "0.json", small_lab()
    write(path, config, DOCUMENT, ("prototype", "head"))
    return path, config


def test_what_tables_ask_of_a_run_is_what_its_record_says(stored):
    document = read(*stored)
    assert document["final"]["each"] == {"prototype": 0.25, "head": 0.5}
    for name, pick in (("prototype", "last"), ("prototype", "best"), ("head", "last")):
        assert accuracy(document, name, pick) == accuracy(DOCUMENT, name, pick)
    assert bytes_a_device(document) == bytes_a_device(DOCUMENT) == ROUNDS * 12 / 3
    numbers = [row["round"] for row in document["rounds"]]
    assert (numbers[0], numbers[-1]) == (1, ROUNDS)
    assert len(numbers) <= POINTS + 2
    assert document["rounds"][0]["accuracy"] == {}
    # As near as the rounds that were kept are to each other.
    step = max(b - a for a, b in pairwise(numbers))
    assert 0 <= rounds_to(document, "prototype", 0.1) - 100 < step
    assert within(document, "head", 400) == pytest.approx(0.2, abs=step / 500)


def test_a_record_of_other_settings_or_no_record_is_nothing(stored):
    path, config = stored
    assert read(path, changed(config, lr=0.5)) is None
    assert read(path.with_name("1.json"), config) is None
    whole = json.loads(path.read_text())
    for broken in ("{", "[]", json.dumps({**whole, "format": 2}), json.dumps({"format": 1})):
        path.write_text(broken)
        assert read(path, config) is None
