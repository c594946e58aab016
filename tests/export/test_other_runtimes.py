"""Other runtimes read a bundle's graph as it is, and say what ours says: docs/runtimes.md."""

import numpy as np
import pytest

from edge_agent.inference.bundle import TOLERANCE
from edge_agent.inference.classifier import Classifier
from export.verify import scores
from export.writer import Wanted, export, write
from protofleet.exchange.archive import MODEL
from tests.bundles import device, other_bank


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_openvino_agrees_before_and_after_a_swap(precision, tmp_path):
    openvino = pytest.importorskip("openvino")
    made = export(device(), Wanted(precision, smallest=True, by="prototype"))
    classifier = Classifier(write(made, tmp_path / "b"))
    core, hint = openvino.Core(), {"INFERENCE_PRECISION_HINT": "f32"}
    model = core.compile_model(core.read_model(tmp_path / "b" / MODEL), "CPU", hint)
    x = device().check.x
    for bank in (classifier.loaded.bank, other_bank(classifier.loaded.bank)):
        classifier.use(bank, "")
        inputs = classifier.loaded.ready.inputs
        due = scores(made.files[MODEL], x, inputs)[0]
        given = model({"image": x, **inputs})["score"]
        assert np.abs(given - due).max() <= TOLERANCE[precision] * np.abs(due).max()
        assert (given.argmax(1) == due.argmax(1)).mean() > 0.95
