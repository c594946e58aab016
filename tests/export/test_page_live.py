"""The page itself in Chromium: what a real coordinator publishes over a real broker's WebSocket,
and the camera.
"""

import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from edge_agent.inference.classifier import Classifier
from export import page
from export.writer import Wanted, contents_of, export, write
from protofleet import wire
from protofleet.contract import Input
from protofleet.exchange import published
from protofleet.exchange.published import About, Bank
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.mosquitto import Listening
from protofleet.mqtt.broker.run import running_broker
from protofleet.values.prototypes import Prototypes
from tests.bundles import device, other_bank
from tests.coordinator.made import packed_bundle
from tests.export.browser import CHROMIUM, answer, node_modules, visited
from tests.export.test_page import HERE
from tests.knowing import knowing
from tests.serving import coordinator, frozen, told

__all__ = ["node_modules"]

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
needs_broker = pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")


@pytest.fixture(scope="module")
def made():
    source = device(
        "cnn-mnist", kind=Input("image", (28, 28, 3), (0.4,) * 3, (0.3,) * 3), embedding=20
    )
    return export(source, Wanted(by="prototype", freeze=True))


@pytest.fixture
def site(made, node_modules, tmp_path):
    out = tmp_path / "page"
    page.write(contents_of(made), out, node_modules)
    shutil.copyfile(HERE / "live.html", out / "live.html")
    pixels = np.random.default_rng(3).integers(0, 256, (28, 28, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(out / "photo.png")
    return out


def image(found):
    """What the page looked at, as Python takes it."""
    rgba = np.array(found["rgba"], np.uint8).reshape(found["height"], found["width"], 4)
    picture = Image.fromarray(rgba[..., :3]).resize((28, 28), Image.Resampling.BILINEAR)
    return np.asarray(picture)[None]


def larger(bank, rows):
    points = other_bank(bank, seed=5, rows=rows).points
    return Bank(bank.about, points)


def news(answers, *before):
    """What it answers by another state: it answers again where something is said again, as after a
    lost connection.
    """
    states = {found["state"] for found in before}
    while (found := answer(answers))["state"] in states:
        pass
    return found


@needs_chromium
@needs_broker
def test_what_a_coordinator_publishes_swaps_live_small_and_in_pieces(made, site, tmp_path):
    due = Classifier(write(made, tmp_path / "b"))
    own = due.loaded.bank
    with (
        running_broker(
            tmp_path / "broker", Listening(port=0, ws_port=0), prefer="mosquitto"
        ) as broker,
        coordinator(str(broker.address), tmp_path / "c", 4096),
    ):
        frozen(tmp_path / "c", packed_bundle(tmp_path / "small.pfb", other_bank(own)))
        address = f"live.html?broker={broker.ws_address}"
        with visited(site, address, tmp_path / "profile") as answers:
            small = answer(answers)
            told(tmp_path / "c", what="rename", name="a", to="apple")
            renamed = news(answers, small)
            frozen(tmp_path / "c", packed_bundle(tmp_path / "large.pfb", larger(own, 60)))
            large = news(answers, small, renamed)
            frozen(tmp_path / "c", packed_bundle(tmp_path / "larger.pfb", larger(own, 64)))
            largest = news(answers, small, renamed, large)
            told(tmp_path / "c", what="back", version=1)
            back = news(answers, renamed, large, largest)
            foreign = Bank(About("extractor:other", own.about.classes), own.points)
            frozen(tmp_path / "c", packed_bundle(tmp_path / "foreign.pfb", foreign))
            refused = answer(answers)
    for found, bank, names in (
        (small, other_bank(own), {}),
        (large, larger(own, 60), {"a": "apple"}),  # a class keeps its new name
        (largest, larger(own, 64), {"a": "apple"}),
    ):
        sent = published.read(published.write(bank, wire.Envelope("global", "f"))).bank
        due.use(sent, "")
        best = due.look(image(found)).best[0]
        assert found["label"] == names.get(best, best)
        assert len(found["rows"]) == 4
        # Nobody calibrated these: distances, and no bar that would pass for a probability.
        assert {row["width"] for row in found["rows"]} == {None}
        assert found["measure"].startswith("distances, and no probabilities")
    for found in (renamed, large, largest):
        assert found["labels"] == ["apple", "b", "c", "d"]
    assert (
        len({small["state"], renamed["state"], large["state"], largest["state"], back["state"]})
        >= 4
    )
    assert back["labels"] == ["a", "b", "c", "d"]
    assert refused["state"] == back["state"]
    # It was fetched, and its graph is none.
    assert refused["said"].startswith("the fleet's bundle cannot be used")


@needs_chromium
@needs_broker
def test_the_broker_may_ask_for_a_password_and_let_a_page_fetch_under_its_own_name_only(
    made, site, tmp_path
):
    users = {"coordinator": "c", "page-1": "p"}
    due = Classifier(write(made, tmp_path / "b"))
    own = due.loaded.bank
    with running_broker(
        tmp_path / "broker",
        Listening(port=0, ws_port=0),
        prefer="mosquitto",
        users=users,
        fleet="f",
    ) as broker:
        coordinating = str(broker.address).replace("mqtt://", "mqtt://coordinator:c@")
        with coordinator(coordinating, tmp_path / "c", 4096):
            frozen(tmp_path / "c", packed_bundle(tmp_path / "large.pfb", larger(own, 60)))
            address = f"live.html?broker={broker.ws_address}".replace("ws://", "ws://page-1:p@")
            with visited(site, address, tmp_path / "profile") as answers:
                found = answer(answers)
    due.use(published.read(published.write(larger(own, 60), wire.Envelope("global", "f"))).bank, "")
    assert found["label"] == due.look(image(found)).best[0]


@needs_chromium
def test_the_cameras_frames_are_classified_until_it_is_switched_off(made, site, tmp_path):
    flags = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    due = Classifier(write(made, tmp_path / "b"))
    x = np.random.default_rng(2).integers(0, 256, (60, 28, 28, 3), dtype=np.uint8)
    lineage = due.bundle.manifest.lineages[0]
    bank = knowing(lineage, "abc", [(due.embed(x), np.arange(60) % 3)])
    (site / "state.cbor").write_bytes(
        published.write(bank, wire.Envelope("global", "f"), "float32")
    )
    with visited(site, "live.html?state=state.cbor", tmp_path / "profile", *flags) as answers:
        found = answer(answers)
    due.use(bank, "")
    assert found["still"]
    for frame in found["frames"]:
        assert image(frame).std() > 0
        seen = due.look(image(frame))
        none = "unknown, nearest " if seen.unknown[0] else ""
        assert frame["label"] == none + seen.best[0]
        sure = {row["name"]: float(row["number"].removesuffix(" %")) for row in frame["rows"]}
        due_of = dict(zip(seen.labels, 100 * seen.probabilities[0], strict=True))
        assert sure == pytest.approx(due_of, abs=0.06)
        widths = [float(row["width"].removesuffix("%")) for row in frame["rows"]]
        assert widths == pytest.approx(sorted(due_of.values(), reverse=True), abs=0.06)
        assert frame["measure"] == ""
    first, *others = [image(frame) for frame in found["frames"]]
    assert any(not np.array_equal(first, other) for other in others)


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
@pytest.mark.parametrize("precision", ["half", "float32", "int8"])
def test_every_precision_of_the_wire_is_read_to_the_same_numbers(precision, tmp_path):
    rng = np.random.default_rng(2)
    ids = np.array([0, 0, 1, 300])
    points = Prototypes(
        ids,
        rng.normal(size=(4, 7)).astype(np.float32) * [[1], [1e-3], [50], [1e4]],
        np.arange(1, 5),
    )
    bank = Bank(About("run:x", tuple(f"c{i}" for i in range(301))), points)
    data = published.write(bank, wire.Envelope("global", "f"), precision)
    (tmp_path / "p.cbor").write_bytes(data)
    run = subprocess.run(
        ["node", str(HERE / "read.mjs"), str(tmp_path / "p.cbor")], capture_output=True, check=True
    )
    found = np.frombuffer(run.stdout, "<f4").reshape(4, 8)
    due = published.read(data).bank.points
    assert np.array_equal(found[:, 0], due.classes)
    assert np.array_equal(found[:, 1:], due.vectors)
