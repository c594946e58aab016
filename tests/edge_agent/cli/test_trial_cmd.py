"""`edge-agent trial`: what a device says of another bundle."""

import json
import subprocess
import sys

import numpy as np
import pytest

from protofleet import wire
from protofleet.exchange import published
from protofleet.exchange.published import About, Bank
from protofleet.values.prototypes import Prototypes
from simulators.rollouts.staged import digits
from simulators.rollouts.variants import write_variant


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Bundles, a dark camera's pictures, and classes that were learned of them."""
    from edge_agent.inference.classifier import Classifier

    folder = tmp_path_factory.mktemp("trial")
    for variant in ("first", "good"):
        write_variant(variant, folder / f"{variant}.pfb", "f")
    x, y = digits()
    x = (x[:500] * 0.5).astype(np.uint8)
    np.savez(folder / "p.npz", x=x[:160], y=y[:160].astype(str))
    first = Classifier(folder / "first.pfb")
    features = first.embed(x)
    means = np.stack([features[y[:500] == c].mean(0) for c in range(10)])
    lineage = first.bundle.manifest.lineages[0]
    bank = Bank(About(lineage, tuple("0123456789")), Prototypes(np.arange(10), means))
    message = published.write(bank, wire.Envelope("global", "f"), "float32")
    (folder / "state.cbor").write_bytes(message)
    # A bad label: two classes have each other's names.
    names = ("0", "1", "8", "3", "4", "5", "6", "7", "2", "9")
    bank = Bank(About(lineage, names), Prototypes(np.arange(10), means))
    message = published.write(bank, wire.Envelope("global", "f"), "float32")
    (folder / "swapped.cbor").write_bytes(message)
    return folder


def trial(place, *words):
    command = [sys.executable, "-m", "edge_agent", "trial", "--data", str(place / "p.npz")]
    command += ["--bundle", str(place / "first.pfb"), "--set", "limits.nice=0"]
    command += ["--state", str(place / "state.cbor"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_one_that_is_as_good_holds(place):
    state = ("--candidate-state", place / "state.cbor")
    done = trial(place, "--candidate", place / "good.pfb", *state)
    assert (done.returncode, done.stderr) == (0, "")
    assert "160 of 160 pictures answered alike" in done.stdout


def test_one_that_is_worse_here_does_not(place):
    state = ("--candidate-state", place / "swapped.cbor")
    done = trial(place, "--candidate", place / "first.pfb", *state, "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["reason"]) == (1, "worse")
    assert document["figures"]["worse"] > document["figures"]["better"]
    assert "points less accurate on 160 samples" in done.stderr


def test_alone_it_says_whether_a_bundle_answers_from_the_disk(place, tmp_path):
    assert trial(place).returncode == 0
    data = bytearray((place / "first.pfb").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "damaged.pfb").write_bytes(data)
    done = trial(place, "--bundle", tmp_path / "damaged.pfb", "--json")
    assert (done.returncode, json.loads(done.stdout)["reason"]) == (1, "bundle")
