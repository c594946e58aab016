"""What is exported: whose network, whose points, and which samples it is checked with."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edge_agent.data.usage import Usage, unpacked
from export.source import (
    CALIBRATED,
    CHECKED,
    SavedAgents,
    at_size,
    chosen_rows,
    find,
    from_run,
    trials,
)
from export.trial import Trial
from protofleet.contract import Contract, Input
from protofleet.errors import CheckpointError, UsageError
from protofleet.values.prototypes import Prototypes
from tests.bundles import device, digits

IMAGES = Input("image", (8, 8, 1), (0.5,), (0.5,))


def contract(classes, kind=IMAGES):
    return Contract("f", "r", 3, tuple(classes), kind, 16)


def test_a_frozen_extractor_has_a_lineage_of_its_own():
    run = device().lineages()
    frozen = device(freeze=True).lineages()
    assert [lineage.partition(":")[0] for lineage in run] == ["run"]
    assert [lineage.partition(":")[0] for lineage in frozen] == ["extractor", "run"]
    assert device().lineages(freeze=True)[1:] == run


def test_a_runs_device_classifies_by_the_state_that_the_run_ended_in(lab_run):
    folder, outcome = lab_run
    source = from_run(find(folder), None, outcome.setup.data)
    assert source.round == 2
    assert source.scorers["prototype"].prototypes == outcome.state.shared["prototypes"]
    assert isinstance(source.scorers["prototype"].prototypes, Prototypes)
    assert source.measured.endswith("samples that no device trained on")
    assert source.took.partition(" of 2 devices: by prototype")[0] in ("agent-00", "agent-01")
    first, second = (
        from_run(find(next(folder.glob("checkpoint-*"))), name, None)
        for name in ("agent-00", "agent-01")
    )
    assert source.weights in (first.weights, second.weights)
    assert len(first.check.x) == len(first.calibration.x) == 0
    assert first.weights != second.weights


def test_who_is_not_in_the_run_is_one_line(lab_run, tmp_path):
    folder, _ = lab_run
    with pytest.raises(UsageError, match="no agent is called 'x'; there are: agent-00, agent-01"):
        from_run(find(folder), "x", None)
    with pytest.raises(CheckpointError, match="no run in it"):
        find(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="no checkpoint in it yet"):
        find(tmp_path)
    (tmp_path / "checkpoint-000001").mkdir()
    with pytest.raises(CheckpointError, match="cannot be read"):
        find(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="cannot be read"):
        from_run(find(tmp_path), None, None)


def test_the_newest_of_several_checkpoints_is_taken(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    for round in (2, 10, 4):
        (tmp_path / f"checkpoint-{round:06}").mkdir()
    assert find(tmp_path).round == 10
    assert find(tmp_path / "checkpoint-000004").round == 4


def test_samples_to_calibrate_and_to_check_with_are_of_the_two_splits_and_always_the_same():
    data = digits()
    calibration, check, measured = trials(data, contract(data.classes))
    assert (len(calibration.y), len(check.y)) == (CALIBRATED, min(CHECKED, 1797 - data.n_train))
    train = {x.tobytes() for x in data.x[: data.n_train]}
    assert all(x.tobytes() in train for x in calibration.x)
    again = trials(data, contract(data.classes))
    assert np.array_equal(again.calibration.x, calibration.x)
    assert np.array_equal(again.check.x, check.x)
    # Nobody says which of them were trained on, so nothing can be said of accuracy.
    assert measured == ""
    assert set(check.y.tolist()) == {-1}
    named = trials(data, contract(data.classes), other=True)
    assert named.measured == f"{len(check.y)} test samples of digits, which the run did not have"
    assert named.check.y.min() >= 0


@pytest.mark.parametrize(
    ("held", "words"),
    [(1000, "797 samples that no device held"), (1700, "597 samples that no device trained on")],
)
def test_accuracy_is_measured_on_what_no_device_trained_on(held, words):
    data, rows = digits(), np.random.default_rng(0).permutation(1797)
    # The set's own test split is among what devices trained on, as most partitions have it.
    trained, tested = rows[:held][500:], rows[:held][:500]
    usage = unpacked(Usage.of(data, trained, tested).packed())
    calibration, check, measured = trials(data, contract(data.classes), usage)
    theirs = {x.tobytes() for x in data.x[trained]}
    assert measured == words
    assert not any(x.tobytes() in theirs for x in check.x)
    assert all(x.tobytes() in theirs for x in calibration.x)
    # A folder that has grown is another set: its rows are not those that the run speaks of.
    grown = replace(data, x=data.x[:-1], y=data.y[:-1])
    assert trials(grown, contract(data.classes), usage).measured == ""


def test_the_device_that_is_taken_is_one_as_good_as_the_run_says():
    of = {"a": {"prototype": 0.9}, "b": {"prototype": 0.6, "head": 0.2}, "c": {"prototype": 0.3}}
    saved = SavedAgents(Path(), {"backbones": dict.fromkeys("abc", "mlp")}, 3)
    assert saved.representative() == ("a", "a of 3 devices, the first")
    measured = replace(saved, accuracy={"head": 0.2, "prototype": 0.6}, per_agent=of)
    assert measured.representative() == (
        "b",
        "b of 3 devices: by prototype, among its own classes, it is right in 60.0 % of its own "
        "test samples; the run's mean is 60.0 %",
    )
    assert measured.words("c").startswith("c of 3 devices: by prototype, among its own classes, it")


def test_labels_are_the_contracts_and_strangers_are_no_samples():
    data = digits()
    calibration, *_ = trials(data, contract(["7", "cat", "3"]))
    sevens = {x.tobytes() for x in data.x[data.y == 7]}
    assert set(calibration.y.tolist()) == {0, 2}
    rows = zip(calibration.x, calibration.y, strict=True)
    assert all((x.tobytes() in sevens) == (y == 0) for x, y in rows)


def test_samples_of_another_size_are_one_line():
    with pytest.raises(UsageError, match=r"inputs of \[8, 8, 1\], the model takes \[16, 16, 1\]"):
        trials(digits(), contract("ab", replace(IMAGES, shape=(16, 16, 1))))


def test_another_size_is_for_images():
    assert at_size(contract("ab"), 20).input.shape == (20, 20, 1)
    with pytest.raises(UsageError, match="vectors have no image size"):
        at_size(contract("ab", Input("vector", (4,))), 20)


def test_fewer_samples_than_wanted_are_all_of_them():
    few = Trial(np.arange(6)[:, None], np.arange(6))
    calibration, check, measured = chosen_rows(contract("ab"), few, few, "of somebody's")
    assert measured == "6 of somebody's"
    assert sorted(calibration.y.tolist()) == sorted(check.y.tolist()) == list(range(6))
