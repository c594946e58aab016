"""Swaps under fire, unknown things, and what a classifying process loads and leaves behind."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from edge_agent.inference.bundle import open_bundle
from edge_agent.inference.classifier import Classifier
from export.writer import Wanted, export, write
from protofleet.errors import DataError
from protofleet.values.prototypes import Prototypes
from tests.bundles import Bank, device, digits, other_bank

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("bundles") / "digits"
    write(export(device(), Wanted(by="prototype")), path)
    return path


def test_a_classification_sees_the_old_prototypes_or_the_new_ones(bundle):
    classifier = Classifier(bundle)
    x = digits().x[:8]
    first = classifier.loaded.bank
    banks = {"a": other_bank(first, 1, 1), "b": other_bank(first, 2, 5)}
    due = {}
    for state, bank in banks.items():
        classifier.use(bank, state)
        due[state] = classifier.look(x).scores
    stop, torn, seen = threading.Event(), [], set()

    def look():
        while not stop.is_set():
            answer = classifier.look(x)
            seen.add(answer.state)
            if not np.array_equal(answer.scores, due[answer.state]):
                torn.append(answer.state)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(3000):
        state = "ab"[i % 2]
        classifier.use(banks[state], state)
    stop.set()
    for thread in threads:
        thread.join()
    assert not torn
    assert seen == {"a", "b"}


def test_what_is_far_from_every_class_is_none_of_them(bundle):
    known = Classifier(bundle, unknown=True)
    x = digits().x[-200:]
    labels, _ = known.classify(x)
    assert np.mean([label is None for label in labels]) < 0.1
    noise = np.random.default_rng(0).choice(np.array([0, 255], np.uint8), (50, 8, 8, 1))
    labels, _ = known.classify(noise)
    assert np.mean([label is None for label in labels]) > 0.8
    assert None not in Classifier(bundle).classify(noise)[0]


def test_the_threshold_follows_the_prototypes(bundle):
    classifier = Classifier(bundle, unknown=True)
    assert classifier.loaded.threshold == pytest.approx(
        classifier.bundle.manifest.unknown.threshold, rel=1e-2
    )
    points = classifier.loaded.bank.points
    far = Bank(classifier.loaded.bank.about, Prototypes(points.classes, points.vectors + 5))
    before = classifier.loaded.threshold
    classifier.use(far, "far")
    assert classifier.loaded.threshold > 4 * before


@pytest.mark.parametrize("shape", [(2, 9, 8, 1), (8, 8, 1)])
def test_other_sizes_are_refused(bundle, shape):
    with pytest.raises(DataError, match="takes uint8 N×8×8×1"):
        Classifier(bundle).classify(np.zeros(shape, np.uint8))


def test_no_samples_give_no_answers(bundle):
    assert Classifier(bundle).classify(np.zeros((0, 8, 8, 1), np.uint8))[0] == []


def test_a_classifying_process_never_sees_torch_and_leaves_no_trace(bundle, tmp_path):
    code = (
        "import sys, numpy as np\nfrom pathlib import Path\n"
        "from edge_agent.inference.classifier import Classifier\n"
        f"c = Classifier(Path({str(bundle)!r}), unknown=True)\n"
        "c.classify(np.zeros((3, 8, 8, 1), np.uint8))\n"
        "print(' '.join(sorted({m.partition('.')[0] for m in sys.modules})))"
    )
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environ,
        cwd=ROOT,
    )
    loaded = set(run.stdout.split())
    assert "onnxruntime" in loaded
    assert not loaded & {
        "torch",
        "torchvision",
        "onnx",
        "sklearn",
        "scipy",
        "PIL",
        "paho",
        "matplotlib",
        "export",
    }
    assert not list(tmp_path.rglob("*"))


X = digits().x[:40]


def test_a_classification_sees_one_bundle_or_the_other(bundles):
    classifier = Classifier(bundles[0])
    made = [open_bundle(path) for path in bundles]
    due = {each.manifest.state: Classifier(each).look(X) for each in made}
    stop, torn, seen = threading.Event(), [], set()

    def look():
        while not stop.is_set():
            answer = classifier.look(X)
            seen.add(answer.state)
            if not np.array_equal(answer.scores, due[answer.state].scores):
                torn.append(answer.state)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(40):
        classifier.change(made[(i + 1) % 2])
    stop.set()
    for thread in threads:
        thread.join()
    assert not torn
    assert seen == due.keys()
