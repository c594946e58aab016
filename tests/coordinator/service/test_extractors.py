"""Bundles that other commands make for a coordinator: how these are called, and what is said when
they fail.
"""

import subprocess

import pytest

from coordinator.service import extractors
from protofleet.contract import Input
from protofleet.errors import DataError


def test_why_an_export_failed_is_said_without_the_other_commands_frame(tmp_path, monkeypatch):
    said = "Traceback\nerror: no such backbone 'x' (bad-value)\n"

    def run(words, **how):
        return subprocess.CompletedProcess(words, 1, "", said)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(DataError, match=r"cannot be exported: no such backbone 'x'$"):
        extractors.export(tmp_path / "run", tmp_path / "b.pfb")


def test_random_filters_are_made_for_the_samples_that_the_contract_names(tmp_path, monkeypatch):
    calls = []

    def run(words, **how):
        calls.append(words[3:])
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    kind = Input("image", (28, 32, 3), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    extractors.random(kind, 7, "orchard", tmp_path / "r.pfb")
    extractors.random(Input("image", (8, 8, 1)), 0, "orchard", tmp_path / "r.pfb")
    extractors.random(Input("vector", (4,)), 0, "orchard", tmp_path / "r.pfb")
    extractors.random(Input("series", (9, 2), (-1.0, 0.5), (2.0, 2.0)), 0, "o", tmp_path / "r.pfb")
    (first, second, third, fourth) = [" ".join(words) for words in calls]
    shape = "--kind image --size 28x32 --channels 3"
    assert first.startswith(f"extractor random {shape} --scale=0.5,0.5,0.5/0.25")
    assert "--seed 7 --fleet orchard" in first
    assert "--channels 1 --scale=0..1" in second
    assert "--kind vector --size 4 --seed" in third
    assert "--kind series --size 9x2 --scale=-1,0.5/2,2 --seed" in fourth
