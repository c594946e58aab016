"""Whole runs beside each other: the state, the time and the memory of each."""

import pytest

from protofleet.errors import UsageError
from simulators.scale.clustered import Contest, measure, minute, thousand


def test_each_has_its_state_and_what_it_took(small_lab):
    told = []
    one, two = measure(small_lab(rounds=2), [Contest("lab"), Contest("lab", 2)], told.append)
    assert one.state == two.state
    assert (one.name, two.name) == ("one process", "2 processes")
    assert one.accuracy == two.accuracy
    assert two.processes > one.processes
    assert two.memory > one.memory > 50_000_000
    assert told == [f"{run.name}: round {n}/2" for run in (one, two) for n in (1, 2)]


def test_what_is_wrong_is_said_in_its_own_words(small_lab, nobody_listens):
    pytest.importorskip("ray")
    with pytest.raises(UsageError, match="no cluster answers"):
        measure(small_lab(), [Contest("ray", None, nobody_listens)], lambda words: None)


def test_a_thousand_devices_and_a_minute():
    assert thousand().run.agents == 1000
    assert minute().run.rounds == 24


@pytest.fixture
def nobody_listens():
    return "127.0.0.1:1"
