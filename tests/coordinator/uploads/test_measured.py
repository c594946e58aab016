"""Limits that follow from a fleet's own uploads let the honest in, whatever a minority says."""

from dataclasses import fields

import numpy as np
import pytest

from coordinator.config import UploadLimits
from coordinator.uploads import measured
from protofleet.values.prototypes import Mixtures, Prototypes, SoftLabels, Tensors
from tests.contributing import arrived, message, read
from tests.coordinator import made as make


def test_figures_are_the_tightest_limits_that_let_an_upload_in():
    points = Prototypes(np.array([0, 1]), np.array([[3.0, -4.0], [1, 1]]), np.array([5, 9]))
    mixture = Mixtures(
        np.zeros(1, np.int64), np.ones(1), np.ones((1, 2)), np.full((1, 2), 6.0), np.array([2])
    )
    parts = {"prototypes": points, "mixtures": mixture, "data": Tensors({"samples": np.array(20)})}
    found = measured.figures(parts)
    assert vars(found) == {"largest": 4.0, "norm": 5.0, "count": 9, "samples": 20, "trace": 12.0}
    labels = SoftLabels(np.array([0]), np.full((1, 2), 0.5))
    assert measured.figures({"labels": labels}) == UploadLimits(0.0, 0.0, 0, 0, 0.0)


def test_what_one_in_ten_says_moves_no_limit_and_what_nobody_says_has_the_usual_one():
    honest = {f"h{i}": UploadLimits(2.0 + i / 10, 3.0 + i, 10 + i, 0, 0.0) for i in range(9)}
    liar = UploadLimits(9e4, 9e4, 10**8, 10**8, 9e9)
    found = measured.limits({**honest, "rogue": liar})
    assert found == UploadLimits(5.4, 20.0, 34, UploadLimits().samples, UploadLimits().trace)
    assert all(measured.within(one, found) for one in honest.values())
    assert not measured.within(liar, found)
    assert measured.limits({}) == UploadLimits()
    names = [f.name for f in fields(UploadLimits)]
    assert names == ["largest", "norm", "count", "samples", "trace"]


def test_a_journal_says_what_its_devices_have(tmp_path):
    core = make.core(tmp_path)
    _, _, base = make.joined(core)
    core.take([make.upload(a, 1, base) for a in make.AGENTS], 1.0)
    found = measured.of_journal(core.journal)
    assert sorted(found) == list(make.AGENTS)
    (own,) = found["a"]
    vectors = make.as_sent("a", 1)["prototypes"].vectors
    assert own.norm == pytest.approx(float(np.linalg.norm(vectors, axis=1).max()), rel=1e-6)
    assert (own.count, own.samples) == (4, 7)


def test_a_ledger_says_what_its_devices_have(tmp_path):
    core = make.ledger(tmp_path)
    core.take([arrived("a", message("a", ["plum", "pear"]))], 1.0)
    ((agent, (own,)),) = measured.of_journal(core.journal).items()
    sent = read("a", ["plum", "pear"]).contribution
    assert (agent, own.count) == ("a", 6)
    assert own.norm == pytest.approx(float(np.linalg.norm(sent.means.vectors, axis=1).max()))
    assert own.trace > 0
