"""Every variant passes what looks at no device's pictures, and they differ in what does."""

import numpy as np
import pytest

from edge_agent.inference import sandbox
from edge_agent.inference.classifier import Classifier
from protofleet.exchange.archive import BundleError
from simulators.rollouts.staged import digits
from simulators.rollouts.variants import write_variant


def test_variants(tmp_path):
    x, _ = digits()
    dark = (x[:20] * 0.5).astype(np.uint8)
    seen = {}
    for variant in ("first", "good", "worse", "crashing", "slow"):
        path = write_variant(variant, tmp_path / f"{variant}.pfb", "f")
        sandbox.examine(path.read_bytes())
        seen[variant] = Classifier(path)
    lineages = {classifier.bundle.manifest.lineages for classifier in seen.values()}
    assert len(lineages) == 1
    before = seen["first"].embed(x[:20])
    assert np.array_equal(seen["good"].embed(x[:20]), before)
    assert np.allclose(seen["slow"].embed(x[:20]), before)
    assert np.array_equal(seen["worse"].embed(x[:20]), before)
    assert not np.allclose(seen["worse"].embed(dark), seen["first"].embed(dark))
    with pytest.raises(BundleError, match="cannot be run"):
        seen["crashing"].embed(x[:20])
