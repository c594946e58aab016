"""Devices that are let in and say what no device says."""

import pytest

from protofleet import registry
from simulators.faults.case import Attempt
from simulators.faults.cases import liars
from simulators.faults.verdict import PromiseBroken

(CASE,) = liars.CASES


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(liars, "ADMITTED", 12)
    monkeypatch.setattr(registry, "names", lambda: ["local", "fedproto", "gfpl", "fedmps"])


def test_every_promise_is_kept(few, tmp_path):
    words = CASE.run(Attempt(tmp_path, 0, "embedded"))
    assert " admitted in " in words
    assert " 0 crashes" in words
    assert int(words.split()[0]) >= 36


def test_what_comes_out_of_the_core_is_a_promise_broken_and_names_the_method(
    few, tmp_path, monkeypatch
):
    def breaks(*_):
        raise KeyError("round")

    monkeypatch.setattr(liars.extremes, "fuzz", breaks)
    with pytest.raises(PromiseBroken, match="fedproto: KeyError: 'round'"):
        CASE.run(Attempt(tmp_path, 0, "embedded"))


def test_a_long_run_is_of_more_than_twenty_thousand():
    methods = len(registry.names()) - 1  # one of them sends nothing
    assert CASE.soak / 3 * methods * liars.ADMITTED > 20_000
