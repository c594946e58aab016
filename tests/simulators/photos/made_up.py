"""Photographs that nobody took: Gaussian classes seen through lenses of their own."""

import numpy as np

from simulators.photos.photographs import Photographs


def photographs(per_class=24, classes=4, domains=3, dim=16, lens=0.5, seed=0):
    rng = np.random.default_rng(seed)
    centres, lenses = rng.normal(size=(classes, dim)) * 1.5, rng.normal(size=(domains, dim)) * lens
    labels = np.tile(np.repeat(np.arange(classes), per_class), domains)
    cameras = np.repeat(np.arange(domains), per_class * classes)
    features = centres[labels] + lenses[cameras] + rng.normal(size=(len(labels), dim))
    names = tuple(f"class {c}" for c in range(classes))
    cameras_of = tuple(f"camera {d}" for d in range(domains))
    return Photographs(features.astype(np.float32), labels, cameras, names, cameras_of)
