"""Devices that look at nothing: the same each time, and on a real broker what they should be."""

from coordinator.ledger.extractor import input_of, read_bundle
from protofleet.exchange import contributed
from simulators.trees import contributors
from simulators.trees.contributors import LINEAGE, under_one


def test_what_a_device_says_is_drawn_from_its_name_and_seed():
    first = contributors.statement("tree", "pupil-001", 0)
    assert first == contributors.statement("tree", "pupil-001", 0)
    assert first != contributors.statement("tree", "pupil-001", 1)
    assert isinstance(
        contributed.read(contributors.statement("tree", "a", None)), contributed.Withdrawal
    )


def test_the_state_of_all_is_of_who_contributes():
    seeds = {"a": 0, "b": 3, "c": None}
    assert under_one("tree", seeds) == under_one("tree", {"b": 3, "a": 0})
    assert under_one("tree", seeds) != under_one("tree", {"b": 2, "a": 0})


def test_its_bundle_is_one_that_a_coordinator_takes(tmp_path):
    file = contributors.bundle(tmp_path / "e.pfb")
    assert read_bundle(file)[0].size == file.stat().st_size
    assert input_of(file).shape == (contributors.WIDTH,)
    assert LINEAGE.startswith("extractor:")
