"""Data sets by name: `load("digits")`, `load("cifar10", data_dir=…)`, `load("spiral:sigma=0.1")`,
`load("my/photos")`.

Digits and the spiral need no file; MNIST and CIFAR come from `NAME.npz` in the data folder, else
through torchvision's own files there, else by its download; any other word is a path to a folder of
images or an `.npz`.
"""

from __future__ import annotations

import contextlib
import difflib
import socket
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edge_agent.data.dataset import DataSet, input_of, stratified
from edge_agent.data.files import TEST_SHARE, folder, from_arrays, npz, resized
from protofleet.errors import DataError
from protofleet.settings.fields import parse_pairs, setting
from protofleet.util.seeds import generator

__all__ = ["NAMES", "DataSet", "Spiral", "load", "spiral"]


class _Published(NamedTuple):
    """A published set: torchvision's name for it, the constants usually published with it, its
    classes' names.
    """

    torchvision: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    classes: str = ""


# FedProto's code normalises CIFAR-10 by ImageNet's constants (0.485 …, 0.229 …); these are
# CIFAR-10's own. It has no Fashion-MNIST (its 0.1307 and 0.3081 serve MNIST and FEMNIST): that
# set's own constants are here, too.
_FASHION = "T-shirt,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
_CIFAR10 = "airplane,automobile,bird,cat,deer,dog,frog,horse,ship,truck"
_KNOWN = {
    "mnist": _Published("MNIST", (0.1307,), (0.3081,), "0,1,2,3,4,5,6,7,8,9"),
    "fashion-mnist": _Published("FashionMNIST", (0.2860,), (0.3530,), _FASHION),
    "cifar10": _Published("CIFAR10", (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010), _CIFAR10),
    "cifar100": _Published("CIFAR100", (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}
NAMES = ("digits", "spiral", *_KNOWN)


@dataclass(frozen=True)
class Spiral:
    """ProtoNorm's spiral, as printed; its noise lets no classifier past 39 %, so accuracy is
    measured at sigma 0.1.
    """

    sigma: float = setting(1.0, "standard deviation of the noise on the angle", low=0)
    samples: int = setting(5000, "samples a class", low=2)
    classes: int = setting(6, "classes", low=2)


def load(
    name: str, *, data_dir: Path | None, seed: int = 0, image_size: int | None = None
) -> DataSet:
    """The data set `name`, images at `image_size` where one is given (a folder of images: 32 by
    default).
    """
    if image_size is not None and image_size < 1:
        raise DataError(f"image size {image_size}: at least 1 is due")
    word, colon, texts = name.partition(":")
    if name == "digits":
        data = _digits(seed)
    elif word == "spiral":
        data = spiral(parse_pairs(Spiral, texts.split(",") if colon else ()), seed)
    elif name in _KNOWN:
        data = _published(name, data_dir, seed)
    else:
        path = _path(name, data_dir)
        if path.is_dir():
            return folder(path, seed, image_size or 32)
        data = npz(path, seed)
    sizes = (image_size, image_size)
    return (
        data if image_size is None or data.input.shape[:2] == sizes else resized(data, image_size)
    )


def spiral(shape: Spiral, seed: int) -> DataSet:
    """Points on arms that turn more the higher their class."""
    rng = generator("data", "spiral", seed, "noise")
    # ProtoNorm, supplement A: r_i = 1 + (i−1)·9/4999, ω_ki = kπ/3 + (i−1)·kπ/(3·4999) + b_i, point
    # (r sin ω, r cos ω).
    k = np.repeat(np.arange(shape.classes), shape.samples)
    along = np.tile(np.linspace(0.0, 1.0, shape.samples), shape.classes)
    radius = 1 + 9 * along
    angle = k * np.pi / 3 * (1 + along) + rng.normal(0.0, shape.sigma, len(k))
    points = np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=1).astype(np.float32)
    train, test = stratified(
        k.astype(np.int64), TEST_SHARE, generator("data", "spiral", seed, "split")
    )
    order = np.concatenate([train, test])
    names = tuple(str(c) for c in range(shape.classes))
    x = points[order]
    return DataSet("spiral", names, input_of("spiral", x), x, k[order].astype(np.int64), len(train))


def _digits(seed: int) -> DataSet:
    found = find_spec("sklearn")
    if found is None or found.origin is None:
        raise DataError("digits: scikit-learn brings this set", "pip install 'protofleet[train]'")
    # What `load_digits` reads. To import it costs a second and scipy, and nothing else here needs
    # them: every training process would pay.
    table = np.loadtxt(Path(found.origin).parent / "datasets/data/digits.csv.gz", delimiter=",")
    values, y = table[:, :-1], table[:, -1]
    images = np.rint(values.reshape(-1, 8, 8, 1) * (255 / 16)).astype(np.uint8)
    labels = y.astype(np.int64)
    train, test = stratified(labels, TEST_SHARE, generator("data", "digits", seed, "split"))
    order = np.concatenate([train, test])
    x = images[order]
    names = tuple(str(c) for c in range(10))
    return DataSet("digits", names, input_of("digits", x), x, labels[order], len(train))


def _published(name: str, data_dir: Path | None, seed: int) -> DataSet:
    published = _KNOWN[name]
    if data_dir is None:
        words = (
            f"set PROTOFLEET_DATA to a folder that holds {name}.npz or torchvision's files of it"
        )
        raise DataError(f"{name}: no data folder is known", words)
    path = data_dir / f"{name}.npz"
    data = npz(path, seed) if path.exists() else _by_torchvision(name, published, data_dir, seed)
    names = tuple(published.classes.split(","))
    if len(names) != len(data.classes) or not all(c.isdigit() for c in data.classes):
        names = data.classes  # the file names its classes itself
    return replace(
        data, name=name, classes=names, input=input_of(name, data.x, published.mean, published.std)
    )


def _by_torchvision(name: str, published: _Published, data_dir: Path, seed: int) -> DataSet:
    before = socket.getdefaulttimeout()
    try:
        from torchvision import datasets

        maker = getattr(datasets, published.torchvision)
        socket.setdefaulttimeout(30.0)  # its download has no deadline of its own
        # Its notes must not land in a command's JSON; it takes the files that are there before it
        # asks the network.
        with contextlib.redirect_stdout(sys.stderr):
            train, test = (
                maker(str(data_dir), train=part, download=True) for part in (True, False)
            )
    except (ImportError, OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"{name}: no {name}.npz in {data_dir}, and torchvision could not bring it ({reason})",
            "set PROTOFLEET_DATA to a folder that holds it",
        ) from None
    finally:
        socket.setdefaulttimeout(before)
    arrays = {
        "x_train": np.asarray(train.data),
        "y_train": np.asarray(train.targets),
        "x_test": np.asarray(test.data),
        "y_test": np.asarray(test.targets),
    }
    # MNIST's are "0 - zero" there: a name must not depend on which file it came from.
    names = {} if published.classes else {"classes": np.array(train.classes)}
    return from_arrays(name, arrays | names, seed)


def _path(name: str, data_dir: Path | None) -> Path:
    places = [Path(name)] if data_dir is None else [Path(name), data_dir / name]
    for path in places:
        if path.exists():
            return path
    if name.startswith("arrays-"):
        raise DataError(
            f"data set {name!r}: a program's own arrays, which are nowhere kept",
            "save them as an .npz, and begin with its path in place of the arrays",
        )
    near = difflib.get_close_matches(name, NAMES, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known by name: {', '.join(NAMES)}"
    raise DataError(
        f"data set {name!r}: neither a known name nor a folder or .npz that exists", hint
    )
