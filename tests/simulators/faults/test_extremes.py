"""Admitted extremes have the form of honest uploads, and a hang is found."""

from dataclasses import replace

import numpy as np
import pytest

from coordinator.config import UploadLimits
from coordinator.uploads import measured
from protofleet.values.prototypes import Mixtures, Prototypes, Tensors
from simulators.faults import extremes
from simulators.faults.cases.liars import honest_uploads

PARTS = {
    "prototypes": Prototypes(np.array([0, 2]), np.ones((2, 5)), np.array([3, 4])),
    "mixtures": Mixtures(
        np.array([0, 1]), np.ones(2), np.ones((2, 5)), np.ones((2, 5)), np.array([3, 4])
    ),
    "weights": Tensors({"w": np.ones((3, 4), np.float32), "steps": np.array(900)}),
}


def test_extremes_have_the_form_of_what_was_honest_and_stay_within_the_limits():
    rng, limits = np.random.default_rng(0), UploadLimits(9.0, 12.0, 50, 90, 40.0)
    different = set()
    for _ in range(200):
        parts = extremes.extreme(PARTS, rng, limits)
        assert {name: type(part) for name, part in parts.items()} == {
            name: type(part) for name, part in PARTS.items()
        }
        assert parts["weights"]["w"].shape == (3, 4)
        different |= {name for name, part in parts.items() if part != PARTS[name]}
        assert measured.within(measured.figures({"p": parts["prototypes"]}), limits)
    assert different == set(PARTS)


@pytest.fixture
def fedproto():
    return honest_uploads("fedproto")


def changed(setup, fuse):
    return replace(setup, recipe=replace(setup.recipe, fuse=fuse))


@pytest.mark.parametrize("seed", [0, 1])
def test_uploads_end_in_cuts_and_those_that_cannot_be_fused_are_counted(fedproto, tmp_path, seed):
    setup, uploads = fedproto

    def singular(turn, total, before):
        if turn.round % 2:
            return setup.recipe.fuse(turn, total, before)
        return np.linalg.inv(np.zeros((2, 2)))

    tally = extremes.fuzz(changed(setup, singular), uploads, tmp_path, seed, 20)
    assert tally.admitted >= 20
    assert tally.tried >= tally.admitted
    assert 0 < tally.failed["LinAlgError: Singular matrix"] < tally.cuts
    assert tally.failed.total() == tally.failed["LinAlgError: Singular matrix"]


def test_a_fusion_without_end_is_found(fedproto, tmp_path, monkeypatch):
    setup, uploads = fedproto
    monkeypatch.setattr(extremes, "TOO_LONG", 0.2)

    def endless(turn, total, before):
        while True:
            pass

    with pytest.raises(extremes.Hanging):
        extremes.fuzz(changed(setup, endless), uploads, tmp_path, 0, 20)


def test_contributions_come_and_go_and_make_versions():
    setup, uploads = honest_uploads("fleet")
    tally = extremes.fuzz_ledger(setup, uploads, 0, 12)
    assert tally.admitted == 12
    assert tally.cuts > 0
    assert not tally.failed
