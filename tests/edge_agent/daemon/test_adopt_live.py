"""A whole ledger: a broker, a coordinator and devices as processes, from start to a classifier, and
what a person may do with it.
"""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from edge_agent.inference.bundle import open_bundle
from export.cli.extractor_cmd import extractor
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from tests.edge_agent.scripted import ROOT, until
from tests.networks import extractor_bundle
from tests.staging import Stage

pytestmark = pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")

SOMEBODYS_NETWORK = """
import torch

def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 24), torch.nn.ReLU())
"""


@pytest.fixture
def stage(tmp_path):
    extractor_bundle(tmp_path / "x.pfb")
    with running_broker(tmp_path / "broker", prefer="mosquitto") as broker:
        stage = Stage(tmp_path, broker.address.port)
        try:
            yield stage
        finally:
            stage.close()


def run(module, *words, **how):
    command = [sys.executable, "-m", module, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, **how)


def answers(device, place):
    """How a device's bundle and state classify these photos."""
    words = ("--bundle", device.folder / "kept" / "fleet.pfb", "--json", place)
    done = run("edge_agent", "infer", *words)
    return [row["label"] for row in json.loads(done.stdout)["answers"]] if done.stdout else []


def test_from_start_to_a_classifier_a_new_class_and_a_device_that_leaves(stage):
    names = ("a", "b", "c")
    # the same colours everywhere: the seed moves with the length of a name
    devices = {n: stage.device(n, red=(1, 16), blue=(2, 14), grey=(3, 12)) for n in names}
    # Settled: what all three have counted comes with the next version.
    known = stage.ledger(devices=3, samples=126, current=True, counted=3, settled=True)
    assert (known["classes"], known["calibrated_by"], known["suspects"]) == (3, 126, [])
    until((devices["b"].folder / "kept/fleet.pfb.state.cbor").exists, "a state")
    test = stage.photos("test", "red", 1 - 30, 8)
    assert answers(devices["b"], test).count("red") >= 7
    # five photos on a: b answers it
    green = stage.photos("g", "green", 4, 8)
    for extra in sorted(green.iterdir())[5:]:
        extra.rename(stage.folder / extra.name)
    kept = devices["a"].folder / "kept" / "fleet.pfb"
    done = run("edge_agent", "enroll", "--bundle", kept, "--label", "green", "--id", "a", green)
    assert "in use on this device" in done.stdout, done.stderr
    stage.ledger(devices=3, samples=131, classes=4)
    until(lambda: answers(devices["b"], green).count("green") >= 4, "the new class on b")
    # the same class in another device's folder stops nobody
    stage.photos("b", "green", 4, 6)
    stage.ledger(devices=3, samples=137, classes=4)
    # c leaves, and everything is as if it had never been there
    devices["c"].stop()
    words = ("c", "--data-dir", stage.folder / "coordinator-data", "--json")
    forgotten = json.loads(run("coordinator", "forget", *words).stdout)
    assert forgotten["before"] != forgotten["after"]
    assert forgotten["proof"] in (True, None)  # None: counts came meanwhile
    after = stage.ledger(devices=2, samples=95, current=True, counted=2, settled=True)
    assert after["calibrated_by"] == 90


def test_a_device_whose_labels_are_swapped_is_named(stage):
    colours = {"red": (1, 12), "blue": (2, 12), "grey": (3, 12), "pink": (5, 12)}
    for name in ("a", "b"):
        stage.device(name, **colours)
    swapped = {**colours, "red": colours["blue"], "blue": colours["red"]}
    stage.device("c", **swapped)
    stage.ledger(devices=3, samples=144)
    (one, two) = until(lambda: stage.status()["ledger"]["suspects"], "suspects", 60)
    assert {one, two} == {s for s in (one, two) if s.startswith("c: ")}
    assert "'red' looks like everybody else's 'blue'" in one + two


def test_somebodys_own_network_is_made_an_extractor_and_rolled_out(stage, tmp_path, monkeypatch):
    one = stage.device("one", red=(1, 9), blue=(2, 9))
    stage.ledger(devices=1)
    (tmp_path / "somebody.py").write_text(SOMEBODYS_NETWORK)
    words = ["somebody:network", "--size", "8", "--channels", "1", "--scale", "0..1"]
    words += ["--fleet", "f", "--out", str(tmp_path / "own.pfb")]
    monkeypatch.syspath_prepend(tmp_path)
    # Not a process of its own: torch's exporter takes seconds to load, and is loaded here.
    made = CliRunner().invoke(extractor, words)
    assert made.exit_code == 0, made.output
    data = ("--data-dir", stage.folder / "coordinator-data")
    done = run("coordinator", "freeze", tmp_path / "own.pfb", "--wait", "60", *data)
    assert (done.returncode, done.stderr) == (0, "")
    name = open_bundle(tmp_path / "own.pfb").digest
    known = stage.ledger(bundle=name, devices=1, samples=18)
    assert known["classes"] == 2
    rolled = open_bundle(one.folder / "kept" / "fleet.pfb")
    assert (rolled.manifest.method, rolled.manifest.fleet) == ("extractor", "f")
    assert rolled.digest == name
