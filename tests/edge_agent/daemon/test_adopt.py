"""One extractor for a live fleet: frozen at the coordinator, taken by running devices, their means
the fleet's.
"""

import io
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from edge_agent.config import AgentSection, Config
from edge_agent.daemon.adopt import Adoption
from edge_agent.daemon.transfers import Transfers
from edge_agent.inference.bundle import open_bundle
from edge_agent.inference.classifier import Classifier
from edge_agent.updates import listener
from export.writer import Wanted, export, write
from protofleet import wire
from protofleet.exchange import archive
from protofleet.mqtt.address import Address
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from protofleet.mqtt.topics import Topics
from protofleet.util.logs import Log
from protofleet.values.prototypes import Prototypes
from tests.bundles import device, digits
from tests.edge_agent.scripted import ROOT, Device
from tests.edge_agent.updates.test_listener import broken
from tests.linking import eventually
from tests.serving import coordinator, told

pytestmark = pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "bundle"
    write(export(device(), Wanted(by="prototype", freeze=True)), path)
    return path


@pytest.fixture
def stage(tmp_path):
    """A broker, a coordinator with small packets, and devices that hold some of the digits each."""
    data, running = digits(), []

    def joined(name, rows, *words):
        source = tmp_path / f"{name}.npz"
        held = {
            "x_train": data.x[rows],
            "y_train": data.y[rows],
            "x_test": data.x[:20],
            "y_test": data.y[:20],
        }
        np.savez(source, classes=np.array(data.classes), **held)
        running.append(
            Device(
                tmp_path, name, "--data", str(source), *words, port=broker.address.port, fleet="f"
            )
        )
        return running[-1]

    with (
        running_broker(tmp_path / "broker", prefer="mosquitto") as broker,
        coordinator(str(broker.address), tmp_path / "c", 2048),
    ):
        yield joined, str(broker.address), tmp_path / "c"
        for each in running:
            each.stop()


def freeze(folder, source, *words):
    command = [sys.executable, "-m", "coordinator", "freeze", str(source), *words]
    command += ["--data-dir", str(folder / "coordinator-data")]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def online(folder):
    command = [
        sys.executable,
        "-m",
        "coordinator",
        "agents",
        "--data-dir",
        str(folder / "coordinator-data"),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_a_frozen_extractor_reaches_every_device_and_their_means_are_the_fleets_prototypes(
    stage, bundle, tmp_path
):
    joined, url, folder = stage
    data, parts = digits(), {"a": slice(0, 300), "b": slice(300, 400)}
    devices = {name: joined(name, rows) for name, rows in parts.items()}
    eventually(lambda: all(name in online(folder) for name in devices))
    done = freeze(folder, bundle, "--wait", "60")
    assert (done.returncode, done.stderr) == (0, "")
    assert "means of 2 devices" in done.stdout
    assert "still to send" not in done.stdout
    name = open_bundle(bundle).digest
    for each in devices.values():
        assert archive.name_of(each.folder / "kept" / "fleet.pfb") == name
        assert not list((each.folder / "kept").glob("fleet-*"))
    extractor, rows = Classifier(bundle), slice(0, 400)
    features, y = extractor.embed(data.x[rows]), data.y[rows]
    follower = Classifier(bundle)
    (tmp_path / "elsewhere").mkdir()
    with listener.following(
        follower,
        tmp_path / "elsewhere" / "b",
        listener.Channel(Address.parse(url), "stable", "f"),
        wait=True,
    ):
        bank = follower.loaded.bank
    assert (bank.about.bundle, bank.about.lineage.partition(":")[0]) == (name, "extractor")
    for c, vector in zip(bank.points.classes, bank.points.vectors, strict=True):
        due = features[y == int(bank.about.classes[c])].mean(0)
        assert np.allclose(
            vector, due, atol=2e-3 * np.abs(due).max()
        )  # they travel in half precision
    # a device that comes later is taken along, too
    joined("late", slice(400, 500))
    eventually(lambda: "late" in told(folder, what="list")["summaries"])
    # a bundle that fails its self-test moves nobody
    assert (
        freeze(folder, broken(bundle_file(bundle, tmp_path), tmp_path / "broken.pfb")).returncode
        == 0
    )
    eventually(
        lambda: all(
            "bundle cannot be used: the self-test fails" in each.log for each in devices.values()
        )
    )
    assert all(
        archive.name_of(each.folder / "kept" / "fleet.pfb") == name for each in devices.values()
    )
    # and back at the first, the means are sent again
    told(folder, what="back", version=1)
    eventually(lambda: told(folder, what="list")["summaries"] == ["a", "b", "late"])


def bundle_file(bundle, folder):
    (folder / "packed.pfb").write_bytes(archive.packed_bytes(bundle))
    return folder / "packed.pfb"


def test_a_device_that_is_told_not_to_takes_nothing(stage, bundle):
    joined, _, folder = stage
    willing, other = (
        joined("willing", slice(0, 50)),
        joined("other", slice(50, 90), "--set", "agent.take_bundle=no"),
    )
    eventually(lambda: all(name in online(folder) for name in ("willing", "other")))
    done = freeze(folder, bundle, "--wait", "8")
    assert "still to send theirs: other" in done.stdout
    assert (willing.folder / "kept" / "fleet.pfb").exists()
    assert not (other.folder / "kept" / "fleet.pfb").exists()


def test_a_runs_directory_is_exported_and_rolled_out(stage, tmp_path):
    _, _, folder = stage
    words = [
        "--dataset",
        "digits",
        "--agents",
        "2",
        "--rounds",
        "1",
        "--backbone",
        "mlp",
        "--out",
        str(tmp_path / "run"),
    ]
    command = [sys.executable, "-m", "protofleet", "simulate", *words]
    subprocess.run(command, capture_output=True, check=True, cwd=ROOT)
    done = freeze(folder, tmp_path / "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("lineage extractor:")


def test_what_cannot_be_frozen_is_one_line(stage, tmp_path):
    _, _, folder = stage
    (tmp_path / "junk.pfb").write_bytes(b"PK junk")
    (tmp_path / "nothing").mkdir()
    write(export(device(), Wanted(by="prototype")), tmp_path / "of-a-run")
    for source, words in (
        ("junk.pfb", "not a .pfb file"),
        ("nothing", "no bundle"),
        ("of-a-run", "--freeze"),
    ):
        done = freeze(folder, tmp_path / source)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert words in done.stderr
    assert told(folder, what="list")["bundle"] == ""
    assert not list((folder / "coordinator-data").glob("frozen-*"))


def test_a_receipt_without_a_digest_is_no_answer_to_the_class_means(tmp_path):
    """What a coordinator could not read at all it answers so, and it may have been anything."""
    config = replace(Config(), agent=AgentSection(id="a", data_dir=str(tmp_path)))
    topics, published = Topics("f"), []
    outbound = SimpleNamespace(topics=topics, say=lambda *words: published.append(words) or True)
    uploads = Transfers(topics, "a", tmp_path / "spool", outbound, lambda: 0.0, 1 << 20)
    adoption = Adoption(config, outbound, uploads, Log(io.StringIO()), lambda: 0.0, None)
    parts = {"prototypes": Prototypes([0], np.ones((1, 2)), [3])}
    offer = wire.encode(wire.Envelope("enrol", "f", agent="a", method="summarise"), parts)
    adoption._offer = offer
    place = topics.parse(topics.receipt("a"))

    def answer(digest):
        body = {"digest": digest, "round": 0, "status": "refused", "words": "unreadable"}
        adoption.take_in(
            place, wire.encode(wire.Envelope("receipt", "f", agent="a", round=0), body)
        )

    answer("")
    assert adoption._offer == offer
    answer(wire.decode(offer).digest)
    assert adoption._offer is None
