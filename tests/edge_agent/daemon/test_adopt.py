"""One extractor for a live fleet: taken by running devices, their contributions brought to a
ledger.
"""

import io
import json
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from edge_agent.config import AgentSection, Config
from edge_agent.contributing import statement
from edge_agent.daemon.adopt import Adoption, drawn
from edge_agent.daemon.transfers import Transfers
from edge_agent.inference.bundle import open_bundle
from protofleet import wire
from protofleet.exchange import archive, learned
from protofleet.exchange.contributed import Contributed, CountReport
from protofleet.exchange.published import About, Bank
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from protofleet.mqtt.topics import Topics
from protofleet.statistics.contribution import Grid, fold
from protofleet.util.logs import Log
from tests.edge_agent.ledgering import ScriptedLedger
from tests.edge_agent.scripted import ROOT, Device, until
from tests.edge_agent.updates.test_listener import broken
from tests.networks import extractor_bundle, pictures

TOTAL = "ab" * 32
needs_broker = pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "x.pfb"
    extractor_bundle(path)
    return path


@pytest.fixture
def stage(tmp_path, bundle):
    """A broker, a ledger, and devices."""
    running = []

    def joined(name, *words):
        album = ("--data", str(tmp_path / "photos"), "--set", "data.watch_seconds=0.1")
        running.append(Device(tmp_path, name, *album, *words, port=port, fleet="f"))
        return running[-1]

    with running_broker(tmp_path / "broker", prefer="mosquitto") as broker:
        port = broker.address.port
        (tmp_path / "blobs").mkdir()
        ledger = ScriptedLedger(port, tmp_path / "blobs")
        ledger.bundle(bundle)
        yield joined, ledger
        for each in running:
            each.stop()
        ledger.stop()


def photos(folder, label, seed, numbers):
    """Pictures of a colour, at a size that the extractor does not take."""
    (folder / "photos" / label).mkdir(parents=True, exist_ok=True)
    for n, image in enumerate(pictures(seed, max(numbers) + 1, side=20)):
        if n in numbers:
            whole = Image.fromarray(image).resize((32, 24))
            whole.save(folder / "photos" / label / f"{n}.png")


@needs_broker
def test_a_device_contributes_counts_and_enrols_and_says_nothing_twice(stage, tmp_path):
    joined, ledger = stage
    photos(tmp_path, "red", 1, range(8))
    photos(tmp_path, "blue", 2, range(6))
    photos(tmp_path, "few", 3, range(3))
    ledger.chunk = 300  # states and totals in many pieces
    ledger.state()
    camera = joined("camera")
    (own,) = until(lambda: ledger.of(Contributed), "a contribution")
    assert (own.claim.lineage, own.claim.classes) == (ledger.lineage, ("blue", "red"))
    assert (own.claim.source, own.envelope.agent, own.envelope.run) == ("", "camera", "r")
    assert own.contribution.means.counts.tolist() == [6, 8]
    until(lambda: "left out, because 5 samples of a class are due: few (3)" in camera.log, "words")
    # it is asked to count against the fleet's total, and does
    total = fold(own.contribution, Grid())
    payload = ledger.total(total, own.claim.classes, TOTAL)
    _, made = learned.state(total)
    names, sure = ("blue", "red"), made.calibration
    about = About(ledger.lineage, names, ledger.name, calibration=sure, total=TOTAL, asked=1.0)
    ledger.state(Bank(about, made.head))
    (counted,) = until(lambda: ledger.of(CountReport), "counts")
    assert (counted.claim.total, counted.counts.samples) == (TOTAL, 14)
    kept = camera.folder / "kept"
    assert (kept / "fleet.pfb.total.cbor").read_bytes() == payload
    # four photos more say nothing, with a fifth it speaks, and of all
    bytes_before = ledger.published
    photos(tmp_path, "red", 1, range(8, 12))
    until(lambda: len(list((kept / "fleet.pfb.contributed").glob("*/*"))) and grown(kept), "looks")
    assert ledger.published == bytes_before
    photos(tmp_path, "red", 1, range(12, 13))
    until(lambda: len(ledger.of(Contributed)) == 2, "another contribution")
    assert ledger.of(Contributed)[1].contribution.means.counts.tolist() == [6, 13]
    # a class by five photos: used here at once, and offered by the daemon
    photos(tmp_path / "new", "green", 4, range(6))
    # whoever enrols it need not say what the daemon knows
    words = ("--label", "green", "--id", "somebody", "--fleet", "another")
    words += (tmp_path / "new/photos/green",)
    enrolled = edge_agent("enroll", "--bundle", kept / "fleet.pfb", *words)
    assert (enrolled.returncode, enrolled.stderr) == (0, "")
    assert "in use on this device" in enrolled.stdout
    until(lambda: len(ledger.of(Contributed)) == 3, "the class")
    envelope, claim = ledger.of(Contributed)[2].envelope, ledger.of(Contributed)[2].claim
    assert (envelope.agent, envelope.fleet, envelope.run) == ("camera", own.envelope.fleet, "r")
    assert (claim.source, claim.classes) == ("green", ("green",))
    seen = edge_agent("infer", "--bundle", kept / "fleet.pfb", "--json", tmp_path / "new")
    assert {row["label"] for row in json.loads(seen.stdout)["answers"]} == {"green"}
    # a new life says nothing again
    assert camera.stop() == 0
    said = len(ledger.messages), ledger.published
    camera.start()
    until(lambda: camera.log.count("connected") == 2, "a connection")
    until(lambda: (kept / "status.json").exists() and camera.status().get("connected"), "status")
    assert (len(ledger.messages), ledger.published) == said
    heard_by_another(ledger)


def heard_by_another(ledger):
    """Another coordinator is told everything again."""
    ledger.run = "another"
    ledger.announce()
    ledger.state()
    until(lambda: len(ledger.of(Contributed)) == 5, "both contributions again")


def grown(kept):
    (features,) = (kept / "fleet.pfb.contributed").glob("*/features.bin")
    return features.stat().st_size == (8 + 6 + 3 + 4) * (32 + 8 * 4)


def edge_agent(*words):
    command = [sys.executable, "-m", "edge_agent", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@needs_broker
def test_a_bundle_that_fails_moves_nobody_and_who_is_told_not_to_takes_none(
    stage, bundle, tmp_path
):
    joined, ledger = stage
    photos(tmp_path, "red", 1, range(8))
    ledger.state()
    willing, other = joined("willing"), joined("other", "--set", "agent.take_bundle=no")
    until(lambda: ledger.of(Contributed), "a contribution")
    bad = tmp_path / "broken.pfb"
    broken(bundle, bad)
    ledger.bundle(bad)
    ledger.state()
    until(lambda: "bundle cannot be used: the self-test fails" in willing.log, "words")
    name = open_bundle(bundle).digest
    assert archive.name_of(willing.folder / "kept" / "fleet.pfb") == name
    assert not list((willing.folder / "kept").glob("fleet-*"))
    until(lambda: other.status().get("connected"), "a connection")
    assert not (other.folder / "kept" / "fleet.pfb").exists()
    assert {str(m.envelope.agent) for m in ledger.messages} == {"willing"}


@pytest.fixture
def adoption(tmp_path):
    config = replace(Config(), agent=AgentSection(id="a", data_dir=str(tmp_path)))
    topics, published, started = Topics("f"), [], []
    outbound = SimpleNamespace(
        topics=topics,
        say=lambda topic, payload: published.append((topic, payload)) or True,
        publish=lambda topic, payload, **how: published.append((topic, payload)),
    )
    uploads = Transfers(topics, "a", tmp_path / "spool", outbound, lambda: 0.0, 1 << 20)

    def start(words):
        started.append(words)
        return SimpleNamespace(poll=lambda: None, terminate=lambda: None)

    made = Adoption(config, outbound, uploads, Log(io.StringIO()), lambda: 0.0, start)
    return SimpleNamespace(it=made, topics=topics, published=published, started=started)


def test_many_bundles_that_fail_are_tried_later_and_later(adoption, tmp_path):
    """A test may take two minutes of the processor, and somebody may name one after the other."""
    now, started = [0.0], []

    def start(words):
        started.append(now[0])
        last = io.BytesIO(b"error: it fails")
        return SimpleNamespace(poll=lambda: 1, stderr=last, stdout=io.BytesIO(), terminate=None)

    it = adoption.it
    it._clock, it._start = lambda: now[0], start
    while len(started) < 6:
        it._about = replace(it._about, bundle=f"{len(started)}" * 64)
        it._new.write_bytes(b"a bundle")
        it.look(may_send=False)
        it.look(may_send=False)
        now[0] = max(now[0], it._start_at) if it._new.exists() else now[0]
    assert started == [0.0, 0.0, 0.0, 10.0, 30.0, 70.0]


def test_the_fleets_settings_go_to_the_process(adoption, bundle, tmp_path):
    (tmp_path / "fleet.pfb").write_bytes(bundle.read_bytes())
    again = replace_start(adoption)
    topics, opened = adoption.topics, open_bundle(bundle)
    hyper = {"minimum": 3, "changed": 2, "rank": 64, "smooth": 1.0, "covariance": "off"}
    body = {"phase": "closed", "hyper": hyper, "contract": {}}
    announced = wire.encode(wire.Envelope("round", "f", "r", method="fleet"), body)
    again.take_in(topics.parse(topics.round), announced)
    again.take_in(topics.parse(topics.proto("stable")), opened.files["prototypes.cbor"])
    again.look(may_send=True)
    assert not adoption.started  # the bundle that came with it names no bundle
    again.take_in(topics.parse(topics.proto("stable")), state_of(opened))
    again.look(may_send=True)
    (words,) = adoption.started
    text = " ".join(map(str, words))
    assert "--minimum 3 --changed 2 --rank 64 --covariance off" in text
    assert "--run r" in text


def replace_start(adoption):
    """The daemon of a next life, which has a bundle already."""
    it = adoption.it
    return Adoption(
        it._config,
        it._outbound,
        it.deliveries._uploads,
        Log(io.StringIO()),
        lambda: 0.0,
        it._start,
    )


def state_of(opened, **about):
    from protofleet.exchange import published
    from protofleet.values.prototypes import Prototypes

    nothing = Prototypes(np.zeros(0, np.int64), np.zeros((0, 8), np.float32))
    bank = Bank(About(opened.manifest.lineages[0], (), opened.digest, **about), nothing)
    return published.write(bank, wire.Envelope("global", "f", "r"), "float32")


def test_a_total_is_fetched_by_those_alone_who_are_asked(adoption, bundle, tmp_path):
    (tmp_path / "fleet.pfb").write_bytes(bundle.read_bytes())
    again, topics, opened = replace_start(adoption), adoption.topics, open_bundle(bundle)
    slip = wire.encode(
        wire.Envelope("slip", "f", "r", base=TOTAL),
        {"digest": "0" * 64, "size": 9000, "chunk": 1000, "of": "global"},
    )
    again.take_in(topics.parse(topics.proto("total")), slip)
    share = drawn(TOTAL, "a")

    def wants(asked, *, contributed_already):
        adoption.published.clear()
        again.deliveries._taken = {"own": "x"} if contributed_already else {}
        payload = state_of(opened, total=TOTAL, asked=asked)
        again.take_in(topics.parse(topics.proto("stable")), payload)
        again.deliveries._taken = {"own": "x"} if contributed_already else {}
        again._want_total()
        again.look(may_send=True)
        return any("blob/req" in topic for topic, _ in adoption.published)

    assert not wants(share * 0.99, contributed_already=True)
    assert not wants(1.0, contributed_already=False)
    assert wants(share * 1.01, contributed_already=True)


def test_a_bundle_that_is_being_tested_is_not_fetched_again(adoption, bundle, tmp_path):
    it, topics, opened = adoption.it, adoption.topics, open_bundle(bundle)
    stable = topics.parse(topics.proto("stable"))
    it.take_in(stable, state_of(opened))
    it._new.write_bytes(bundle.read_bytes())  # its last chunk came
    it.look(may_send=True)
    assert len(adoption.started) == 1
    it._new.rename(it.file)  # the process moved it, and reads the samples
    body = {"digest": "0" * 64, "size": 9000, "chunk": 1000, "of": "bundle"}
    slip = wire.encode(wire.Envelope("slip", "f", "r"), body | {"bundle": opened.digest})
    it.take_in(topics.parse(topics.bundle("stable")), slip)
    it.take_in(stable, state_of(opened, total=TOTAL))
    it.look(may_send=True)
    assert adoption.published == []


def test_shares_are_even_and_differ_from_total_to_total():
    shares = [drawn("t", f"camera-{n}") for n in range(2000)]
    assert abs(np.mean(np.array(shares) < 0.05) - 0.05) < 0.015
    assert drawn("t", "camera-1") != drawn("u", "camera-1")
    assert min(shares) >= 0
    assert max(shares) < 1


def test_what_a_device_keeps_lies_by_lineage(tmp_path):
    one = statement.folder_of(tmp_path / "fleet.pfb", "extractor:a")
    assert one.parent == tmp_path / "fleet.pfb.contributed"
    assert one != statement.folder_of(tmp_path / "fleet.pfb", "extractor:b")
