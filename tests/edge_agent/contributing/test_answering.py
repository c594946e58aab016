"""A round about the fleet's bundle is answered by the features of a device's samples, seen once."""

import numpy as np

from edge_agent.config import DataSection
from edge_agent.contributing import answering
from edge_agent.contributing.statement import Statement
from edge_agent.inference.bundle import open_bundle
from edge_agent.inference.classifier import Classifier
from tests.networks import extractor_bundle, pictures


def test_samples_are_seen_through_the_bundle_once_and_named_by_the_fleet(tmp_path, monkeypatch):
    bundle = tmp_path / "fleet.pfb"
    extractor_bundle(bundle)
    x, y = pictures(3, 6), np.array([0, 1, 2, 0, 1, 2])
    np.savez(
        tmp_path / "s.npz",
        x_train=x,
        y_train=y,
        x_test=x[:0],
        y_test=y[:0],
        classes=["a", "b", "c"],
    )
    data = DataSection(source=str(tmp_path / "s.npz"))
    me, others = answering.learner("camera", bundle, data, None, ("c", "a"))
    expected = Classifier(bundle)
    by_class = {0: (2, 5), 1: (0, 3)}
    assert dict(others) == {"b": 2}
    assert (me.agent, me.samples, me.classes.tolist()) == ("camera", 4, [0, 1])
    for label, rows in by_class.items():
        features = np.stack([expected.embed(x[row][None])[0] for row in rows])
        assert np.array_equal(me.features().high[me.labels == label], features)
    nobody, _ = answering.learner("camera", bundle, data, None, ("z",))
    assert nobody.features().high.shape == (0, me.features().high.shape[1])
    empty, names = Statement(bundle, open_bundle(bundle)).seen([])
    assert (empty.shape, names) == (nobody.features().high.shape, [])
    monkeypatch.setattr(answering, "Classifier", None)  # nothing is looked at again
    again, _ = answering.learner("camera", bundle, data, None, ("c", "a"))
    assert np.array_equal(again.features().high, me.features().high)
