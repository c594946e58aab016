"""What the fleet knows is read from files alone, and says what a classifier says."""

import numpy as np

from edge_agent.inference.classifier import Classifier
from edge_agent.page.eye import Eye
from edge_agent.updates import cache, enrolment
from tests.edge_agent.page.owned import NAMES, bundle_of, teach
from tests.networks import pictures


def test_it_answers_as_a_classifier_does_and_follows_what_comes(tmp_path):
    eye = Eye(tmp_path / "fleet.pfb")
    assert eye.knowing() is None
    bundle = bundle_of(tmp_path)
    first = eye.knowing()
    assert (first.labels, dict(first.samples)) == ([], {})
    assert first.judge(np.zeros((2, first.width), np.float32)).unknown is None
    teach(bundle)
    known = eye.knowing()
    assert set(known.labels) == set(NAMES)
    assert dict(known.samples) == dict.fromkeys(NAMES, 40)
    assert eye.knowing() is known
    classifier = Classifier(bundle)
    cache.settled(classifier, bundle)
    seen = classifier.look(np.concatenate([pictures(2, 3), pictures(9, 3)]))
    judged = known.judge(seen.features)
    assert np.allclose(judged.shares, seen.probabilities)
    assert judged.unknown.tolist() == seen.unknown.tolist()
    assert judged.best(0, 2)[0][0] == seen.best[0]
    # a class of this device's own is among them
    new = enrolment.embedded(classifier, "nine", pictures(9, 6))
    enrolment.keep(classifier, bundle, new.message("f", "a"))
    assert "nine" in eye.knowing().labels


def test_a_bundle_that_is_damaged_is_none_until_it_is_whole(tmp_path):
    bundle = bundle_of(tmp_path)
    data, eye = bundle.read_bytes(), Eye(bundle)
    bundle.write_bytes(data[:-100])
    assert eye.knowing() is None
    bundle.write_bytes(data)
    assert eye.knowing().labels == []
