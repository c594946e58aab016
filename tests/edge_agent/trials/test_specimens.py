"""Which of a device's pictures a trial shows."""

import numpy as np

from edge_agent.config import DataSection
from edge_agent.trials import specimens
from edge_agent.trials.specimens import of_device
from simulators.rollouts.variants import KIND


def test_those_that_were_held_back_come_first(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    parts = {
        f"x_{part}": rng.integers(0, 255, (20, 8, 8, 1), np.uint8) for part in ("train", "test")
    }
    np.savez(tmp_path / "p.npz", y_train=["a", "b"] * 10, y_test=["a", "b"] * 10, **parts)
    section = DataSection(source=str(tmp_path / "p.npz"))
    every = of_device(section, None, KIND)
    assert [p.kept for p in every] == [True] * 20 + [False] * 20
    assert {p.label for p in every} == {"a", "b"}
    assert every[0].read(KIND).shape == KIND.shape
    assert [p.key for p in of_device(section, None, KIND)] == [p.key for p in every]
    monkeypatch.setattr(specimens, "LABELLED", 25)
    assert sum(p.kept for p in of_device(section, None, KIND)) == 20
    assert len(of_device(section, None, KIND)) == 25


def test_a_device_without_pictures_shows_none():
    assert of_device(DataSection(), None, KIND) == []
