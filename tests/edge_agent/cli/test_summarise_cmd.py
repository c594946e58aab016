"""`edge-agent summarise`: class means of this device's samples, sent by hand or left for the
daemon.
"""

import numpy as np
import pytest

from edge_agent.inference.classifier import Classifier
from export.writer import Wanted, export, write
from protofleet import wire
from protofleet.exchange import published
from tests.bundles import device, digits


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("bundles") / "digits.pfb"
    write(export(device(), Wanted(by="prototype", freeze=True)), path)
    return path


@pytest.mark.parametrize("words", [(), ("--offer", "mqtt://x", "--out", "message")])
def test_one_place_to_bring_them_to_is_due(call, bundle, words):
    run = call("summarise", "--bundle", bundle, "--data", "digits", *words)
    assert (run.returncode, run.stderr) == (2, "error: one of --offer and --out is due (usage)\n")


def test_the_message_holds_means_and_counts_of_the_training_samples(call, bundle, tmp_path):
    words = ("--id", "camera", "--fleet", "orchard", "--data", "digits", "--out", "message")
    run = call("summarise", "--bundle", bundle, *words)
    assert (run.returncode, run.stderr) == (0, "")
    payload = (tmp_path / "message").read_bytes()
    envelope = wire.decode(payload).envelope
    assert (envelope.t, envelope.fleet, envelope.agent) == ("enrol", "orchard", "camera")
    assert envelope.method == "summarise"
    bank, data = published.read(payload, "enrol").bank, digits()
    y = data.y[: data.n_train]
    assert bank.points.counts.tolist() == np.bincount(y).tolist()
    mean = Classifier(bundle).embed(data.x[: data.n_train][y == 4]).mean(0)
    assert np.allclose(bank.points.vectors[4], mean, atol=1e-4)


def test_the_bundle_is_moved_once_it_stood_its_test_and_not_before(call, bundle, tmp_path):
    (tmp_path / "new.pfb").write_bytes(bundle.read_bytes())
    (tmp_path / "bad.pfb").write_bytes(bundle.read_bytes()[:-100])
    words = ("--data", "digits", "--out", "message", "--to", "kept.pfb")
    refused = call("summarise", "--bundle", "bad.pfb", *words)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert not (tmp_path / "kept.pfb").exists()
    assert call("summarise", "--bundle", "new.pfb", *words).returncode == 0
    assert (tmp_path / "kept.pfb").read_bytes() == bundle.read_bytes()
    assert not (tmp_path / "new.pfb").exists()


def test_samples_of_no_class_of_the_fleet_are_one_line(call, bundle, tmp_path):
    x = np.zeros((8, 8, 8), np.uint8)
    np.savez(tmp_path / "cats.npz", x=x, y=np.array(["cat", "dog"] * 4))
    run = call("summarise", "--bundle", bundle, "--data", "cats.npz", "--out", "message")
    assert run.returncode == 1
    assert "none of the samples is of a class that the fleet knows" in run.stderr
    assert not (tmp_path / "message").exists()
