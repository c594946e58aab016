"""The long form: how often each case is tried, and what is left of one that failed."""

from pathlib import Path

import pytest

from simulators.faults import smalldisk, soak
from simulators.faults.case import Case
from simulators.faults.soak import AttemptResult, agenda, run, run_case, table


def kept(attempt):
    (attempt.folder / "file").touch()
    return "as it should"


def broken(attempt):
    (attempt.folder / "file").touch()
    raise ValueError("one line\n  and another")


BOTH = Case("both", kept, soak=12)
ONE = Case("one", kept, soak=3, brokers=("mosquitto",))
MOUNTS = Case("mounts", kept, root=True)


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """One with mosquitto and without root."""
    monkeypatch.setattr(soak, "startable_brokers", lambda: ["mosquitto", "embedded"])
    monkeypatch.setattr(smalldisk, "possible", lambda: False)


def test_the_embedded_broker_gets_a_third_and_a_case_that_cannot_be_played_none():
    tries = [(case.name, broker) for case, broker, _ in agenda([BOTH, ONE, MOUNTS], ())]
    assert tries.count(("both", "mosquitto")) == 12
    assert tries.count(("both", "embedded")) == 4
    assert tries.count(("one", "mosquitto")) == 3
    assert len(tries) == 19


def test_a_share_takes_at_least_one_seed_of_every_case():
    tries = [(case.name, broker, seed) for case, broker, seed in agenda([BOTH, ONE], (), 0.01)]
    assert tries == [("both", "mosquitto", 0), ("both", "embedded", 0), ("one", "mosquitto", 0)]
    assert [seed for _, _, seed in agenda([ONE], (7, 9))] == [7, 9]


def test_only_the_brokers_that_are_named():
    heard = []
    results = run([BOTH], ["embedded"], (0,), 1.0, heard.append)
    assert [(result.broker, result.failure) for result in results] == [("embedded", "")]
    assert heard == results


def test_what_a_failure_leaves_is_kept_and_what_a_success_leaves_is_not():
    result = run_case(Case("broken", broken), "embedded", 3)
    assert result.failure == "ValueError: one line and another"
    assert "one line" in (Path(result.folder) / "traceback").read_text()
    assert (Path(result.folder) / "file").exists()
    for path in Path(result.folder).iterdir():
        path.unlink()
    Path(result.folder).rmdir()
    good = run_case(BOTH, "embedded", 3)
    assert (good.words, good.failure, good.folder) == ("as it should", "", "")


def test_the_table_adds_up():
    results = [
        AttemptResult("a", "embedded", 0, 1.0, "fine"),
        AttemptResult("a", "embedded", 1, 2.0, "", "Stuck: there", "/left"),
        AttemptResult("b", "embedded", 0, 3.0, "fine"),
    ]
    lines = table(results).splitlines()
    assert [line.split() for line in lines[1:4]] == [
        ["a", "embedded", "2", "1", "3"],
        ["b", "embedded", "1", "0", "3"],
        ["in", "all", "3", "1", "6"],
    ]
    assert lines[5:] == [
        "Stuck: there",
        "  again: protofleet soak --case 'a' --broker embedded --seed 1",
        "  its files: /left",
    ]
