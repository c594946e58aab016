"""A device's samples: from wherever the settings say, with the contract's class ids, or one clear
line.
"""

import numpy as np
import pytest

from edge_agent.config import DataSection
from edge_agent.data.source import fit, read, survey
from protofleet.contract import Contract, Input
from protofleet.errors import DataError

IMAGES = Input("image", (8, 8, 1), (0.5,), (0.5,))


def contract(classes, kind=IMAGES):
    return Contract(fleet="f", run="r", seed=0, classes=tuple(classes), input=kind, embedding=4)


def series():
    """What a user's own function may return."""
    rng = np.random.default_rng(0)
    y = np.array(["walk", "run"] * 10)
    return {"x": rng.normal(size=(20, 16, 3)).astype(np.float32), "y": y}


def broken():
    raise RuntimeError("the sensor\nis not there")


def test_rows_choose_exactly_the_samples_of_a_partition(tmp_path):
    rows = {
        "train": np.array([5, 3, 900]),
        "validation": np.array([7]),
        "test": np.array([1000, 2]),
    }
    np.savez(tmp_path / "rows.npz", **rows)
    told = DataSection(source="digits", rows=str(tmp_path / "rows.npz"), seed=4)
    pool = read(told, None)
    found = fit(pool, contract(pool.data.classes))
    for name, index in rows.items():
        split = getattr(found, name)
        assert (split.x == pool.data.x[index]).all()
        assert (split.y == pool.data.y[index]).all()
    assert survey(told, None).samples == 3


@pytest.mark.parametrize("rows", [{"train": [0]}, {"train": [2000], "validation": [], "test": []}])
def test_rows_that_make_no_sense_are_one_line(tmp_path, rows):
    np.savez(tmp_path / "rows.npz", **{k: np.array(v, np.int64) for k, v in rows.items()})
    with pytest.raises(DataError, match=r"rows\.npz: "):
        read(DataSection(source="digits", rows=str(tmp_path / "rows.npz")), None)


def test_class_ids_are_the_contracts_by_name_and_strangers_are_left_out_and_named():
    pool = read(DataSection(source="digits"), None)
    found = fit(pool, contract(["nine", "7", "3", "cat"]))
    assert set(np.unique(found.train.y)) == {1, 2}
    seven = pool.train[pool.data.y[pool.train] == 7]
    assert (found.train.x[found.train.y == 1] == pool.data.x[seven]).all()
    assert set(found.left_out) == set("01245689")
    assert sum(found.left_out.values()) + len(found.train.y) + len(found.test.y) == 1797


def test_vectors_and_series_work_as_images_do(tmp_path):
    pool = read(DataSection(source=f"{__name__}:series"), None)
    assert (pool.data.input.kind, pool.data.input.shape, len(pool.train)) == ("series", (16, 3), 14)
    found = fit(pool, contract(["run", "walk"], pool.data.input))
    assert set(np.unique(found.test.y)) == {0, 1}
    np.savez(tmp_path / "v.npz", x=np.zeros((9, 4)), y=np.arange(9) % 3)
    assert read(DataSection(source=str(tmp_path / "v.npz")), None).data.input.kind == "vector"
    assert survey(DataSection(source=str(tmp_path / "v.npz")), None).classes == ("0", "1", "2")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (f"{__name__}:broken", "RuntimeError: the sensor is not there"),
        ("no_such_module:x", "ModuleNotFoundError"),
        ("C:photos", "neither a known name nor a folder"),
        ("arrays-0123456789ab", "nowhere kept; save them as an .npz"),
        ("C:\\photos", "neither a known name nor a folder"),
        (f"{__name__}:none", "AttributeError"),
    ],
)
def test_a_function_of_the_users_own_that_fails_is_one_line(entry, words):
    with pytest.raises(DataError) as found:
        read(DataSection(source=entry), None)
    assert words in str(found.value)
    assert "\n" not in str(found.value)


def test_samples_of_another_shape_or_of_no_known_class_are_one_line():
    pool = read(DataSection(source="digits"), None)
    with pytest.raises(
        DataError, match="digits: images of 8×8×1, but the fleet takes images of 32×32×3"
    ):
        fit(pool, contract("0123456789", Input("image", (32, 32, 3))))
    with pytest.raises(
        DataError,
        match=r"none of its classes \(0, 1, .* and more\) is in the fleet's .*; it has cat, dog",
    ):
        fit(pool, contract(["cat", "dog"]))
