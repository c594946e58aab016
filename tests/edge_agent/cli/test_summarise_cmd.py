"""`edge-agent summarise`: a device's contribution, made by hand or for the daemon."""

import json

import numpy as np
import pytest

from edge_agent.contributing.statement import Statement
from edge_agent.inference.bundle import open_bundle
from edge_agent.inference.classifier import Classifier
from protofleet.exchange import contributed, learned
from protofleet.exchange.contributed import Claim
from protofleet.statistics.contribution import Grid, fold
from protofleet.wire import Envelope
from tests.networks import extractor_bundle, pictures

WORDS = ("--id", "camera", "--fleet", "orchard", "--data", "album.npz")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("bundles") / "x.pfb"
    extractor_bundle(path)
    return path


@pytest.fixture
def album(tmp_path):
    x = np.concatenate([pictures(1, 9), pictures(2, 7), pictures(3, 2)])
    y = np.array(["a"] * 9 + ["b"] * 7 + ["c"] * 2)
    np.savez(tmp_path / "album.npz", x_train=x, y_train=y, x_test=x[:1], y_test=y[:1])


def test_the_message_is_left_beside_the_bundle_and_counts_with_it(call, bundle, album, tmp_path):
    (tmp_path / "new.pfb").write_bytes(bundle.read_bytes())
    run = call("summarise", "--bundle", "new.pfb", "--to", "kept.pfb", "--json", *WORDS)
    assert (run.returncode, run.stderr) == (0, "")
    assert not (tmp_path / "new.pfb").exists()
    document = json.loads(run.stdout)
    assert (document["samples"], document["classes"], document["new"]) == (16, ["a", "b"], True)
    statement = Statement(tmp_path / "kept.pfb", open_bundle(bundle))
    message = contributed.read(statement.contribution.read_bytes())
    assert (message.envelope.fleet, message.envelope.agent) == ("orchard", "camera")
    mean = Classifier(bundle).embed(pictures(1, 9)).mean(0)
    assert np.allclose(message.contribution.means.vectors[0], mean, atol=2e-3)
    state, _ = learned.state(fold(message.contribution, Grid()))
    claim = Claim(statement.lineage, ("a", "b"), total="t")
    (tmp_path / "total").write_bytes(
        contributed.write_total(claim, state.shared, Envelope("global", "f"))
    )
    again = call("summarise", "--bundle", "kept.pfb", *WORDS, "--total", "total")
    assert "16 samples of 2 classes; nothing changed since\n" in again.stdout
    assert contributed.read(statement.counts.read_bytes()).counts.samples == 16


def test_a_bundle_that_fails_stays_where_it_was(call, bundle, album, tmp_path):
    (tmp_path / "bad.pfb").write_bytes(bundle.read_bytes()[:-100])
    run = call("summarise", "--bundle", "bad.pfb", "--to", "kept.pfb", *WORDS)
    assert (run.returncode, run.stderr.count("\n")) == (1, 1)
    assert not (tmp_path / "kept.pfb").exists()


def test_too_few_samples_are_one_line(call, bundle, tmp_path):
    x = np.zeros((4, 16, 16, 3), np.uint8)
    y = np.array(["cat", "dog"] * 2)
    np.savez(tmp_path / "album.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    (tmp_path / "x.pfb").write_bytes(bundle.read_bytes())
    run = call("summarise", "--bundle", "x.pfb", *WORDS)
    assert (run.returncode, run.stderr.count("\n")) == (1, 1)
    assert "5 samples of a class are due: cat (2), dog (2)" in run.stderr
