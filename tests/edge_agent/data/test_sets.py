"""Every way to a data set: by name, from a folder of images, from an `.npz`, and the words when it
cannot be had.
"""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from edge_agent.data.sets import DataSet, load
from protofleet.errors import DataError, SettingError


def same(a: DataSet, b: DataSet) -> bool:
    return np.array_equal(a.x, b.x) and np.array_equal(a.y, b.y) and a.n_train == b.n_train


def test_digits_are_scaled_split_by_class_and_seeded() -> None:
    data = load("digits", data_dir=None)
    assert data.x.shape == (1797, 8, 8, 1)
    assert data.x.dtype == np.uint8
    assert (int(data.x.min()), int(data.x.max())) == (0, 255)
    assert data.input.mean == (0.5,)
    values, labels = load_digits(return_X_y=True)
    theirs = np.rint(values * (255 / 16)).astype(np.uint8)
    assert sorted(zip(map(bytes, data.x), data.y, strict=True)) == sorted(
        zip(map(bytes, theirs), labels, strict=True)
    )
    counts = np.bincount(data.y)
    assert np.abs(np.bincount(data.y[data.n_train :]) - counts / 4).max() <= 0.5
    assert same(data, load("digits", data_dir=None))
    assert not same(data, load("digits", data_dir=None, seed=1))


def test_the_spiral_is_the_papers() -> None:
    data = load("spiral:sigma=0", data_dir=None)
    assert data.x.shape == (30000, 2)
    assert data.x.dtype == np.float32
    assert np.bincount(data.y).tolist() == [5000] * 6
    assert (data.input.kind, data.input.mean) == ("vector", ())
    # Without noise a point's radius gives its index, and with its class the angle.
    radius = np.linalg.norm(data.x, axis=1).astype(np.float64)
    along = (radius - 1) / 9
    angle = data.y * np.pi / 3 + along * data.y * np.pi / 3
    expected = np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=1)
    assert np.abs(data.x - expected).max() < 1e-4


def test_the_spiral_takes_settings_and_refuses_others() -> None:
    assert len(load("spiral:samples=50,sigma=0.1", data_dir=None).y) == 300
    noisy, calm = (load(f"spiral:samples=50,sigma={s}", data_dir=None) for s in (1, 0.1))
    assert np.allclose(np.linalg.norm(noisy.x, axis=1), np.linalg.norm(calm.x, axis=1), atol=1e-5)
    with pytest.raises(SettingError, match="did you mean 'sigma'"):
        load("spiral:sigm=2", data_dir=None)


def test_a_published_set_comes_from_its_npz_with_its_constants(tmp_path: Path) -> None:
    x, y = np.arange(40 * 784).astype(np.uint8).reshape(40, 28, 28), np.arange(40) % 10
    np.savez(
        tmp_path / "fashion-mnist.npz", x_train=x[:30], y_train=y[:30], x_test=x[30:], y_test=y[30:]
    )
    data = load("fashion-mnist", data_dir=tmp_path)
    assert (data.name, data.n_train, data.x.shape) == ("fashion-mnist", 30, (40, 28, 28, 1))
    assert (data.input.mean, data.input.std) == ((0.2860,), (0.3530,))
    assert data.classes[9] == "Ankle boot"
    assert np.array_equal(data.x[..., 0], x)
    assert load("fashion-mnist", data_dir=tmp_path, image_size=32).x.shape == (40, 32, 32, 1)


def test_torchvisions_files_are_the_second_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def maker(root: str, train: bool, download: bool) -> types.SimpleNamespace:
        assert (root, download) == (str(tmp_path), True)
        n = 20 if train else 10
        targets = (np.arange(n) % 10).tolist()
        return types.SimpleNamespace(
            data=np.zeros((n, 32, 32, 3), np.uint8), targets=targets, classes=list("abcdefghij")
        )

    fake = types.SimpleNamespace(datasets=types.SimpleNamespace(CIFAR10=maker, CIFAR100=maker))
    monkeypatch.setitem(sys.modules, "torchvision", fake)
    ten = load("cifar10", data_dir=tmp_path)
    assert (ten.n_train, len(ten.y), ten.classes[0], ten.input.mean[0]) == (
        20,
        30,
        "airplane",
        0.4914,
    )
    assert load("cifar100", data_dir=tmp_path).classes == tuple("abcdefghij")


def test_a_published_set_that_is_nowhere_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        DataError, match=r"cifar10: no data folder is known; set PROTOFLEET_DATA .* cifar10\.npz"
    ):
        load("cifar10", data_dir=None)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(
        DataError, match=r"mnist: no mnist\.npz in .*torchvision .* set PROTOFLEET_DATA"
    ):
        load("mnist", data_dir=tmp_path)
    with pytest.raises(DataError, match="did you mean 'cifar10'"):
        load("cifra10", data_dir=tmp_path)


def test_torch_is_not_needed() -> None:
    use = "from edge_agent.data.sets import load; load('spiral', data_dir=None)"
    code = f"import sys; {use}; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False"
