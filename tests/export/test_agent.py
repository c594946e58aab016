"""A device exports its own model from what its daemon keeps on disk, and answers as it would
itself.
"""

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from coordinator.uploads.fuse import as_published, fuse_round
from edge_agent.config import AgentSection, Config, DataSection, LimitsSection
from edge_agent.inference.bundle import open_bundle
from edge_agent.inference.classifier import Classifier
from edge_agent.protocol.actions import Train
from edge_agent.protocol.events import RoundSpec
from edge_agent.records import Checkpoint, HeldState, OutboxEntry
from edge_agent.store import Store
from edge_agent.training.context import settle
from edge_agent.updates import cache
from edge_agent.worker.ipc import Job, TaskDone, Work
from edge_agent.worker.supervisor import WorkerSupervisor
from export import agent, writer
from protofleet import wire
from protofleet.errors import CheckpointError
from protofleet.exchange import learned, published
from protofleet.exchange.published import About, Bank
from protofleet.exchange.snapshot import pack
from protofleet.exchange.state import Upload
from protofleet.recipe import Turn
from protofleet.settings.fields import to_plain
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.wire import Envelope
from simulators.run.setup import prepare, samples_of
from tests.networks import extractor_bundle, pictures

BOOT = "b" * 16


@pytest.fixture
def trained(small_lab, tmp_path):
    """A device after one round and with the state that came of it, beside the laboratory's."""
    setup = prepare(small_lab("fedproto", agents=2))
    settle(setup.contract.numerics)
    shard = setup.partition.shards[0]
    lab = setup.agent(shard, setup.context())
    np.savez(tmp_path / "rows.npz", train=shard.train, validation=shard.validation, test=shard.test)
    data = DataSection("digits", str(tmp_path / "rows.npz"), setup.config.run.seed)
    config = Config(AgentSection(shard.agent, str(tmp_path / "agent")), data=data)
    store = Store(config.data_dir)
    store.take_over(BOOT)
    job = Job(
        shard.agent, config.data_dir, BOOT, data, None, LimitsSection(nice=0), 1, tmp_path / "every"
    )
    supervisor = WorkerSupervisor(job, lambda: None)
    first = as_published(
        setup.recipe.start(Turn(setup.contract, setup.hyper, 0)), setup.contract.wire, {}
    )
    hold(store, setup, 0, first)
    lab.receive(0, first.shared, {})
    parts = lab.work(1)
    plan = RoundSpec("lab", setup.recipe.name, to_plain(setup.contract), to_plain(setup.hyper))
    supervisor.order(Work(Train("lab", 1, 0, first.base, False, False, plan), 0))
    assert isinstance(last(supervisor), TaskDone)
    state = fuse_round(
        setup.recipe,
        Turn(setup.contract, setup.hyper, 1),
        first,
        [Upload("x", 1, first.base, parts)],
    )
    hold(store, setup, 1, state)
    lab.receive(1, state.shared, {})
    yield (
        setup,
        shard,
        lab,
        config,
        supervisor,
        Work(Train("lab", 2, 1, state.base, False, False, plan), 0),
    )
    supervisor.dismiss()
    store.close()


def last(supervisor, seconds=60.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for answer in supervisor.answers():
            return answer
        time.sleep(0.01)
    raise AssertionError("no answer")


def hold(store, setup, round, state):
    envelope = wire.Envelope("global", "lab", "lab", 1, round=round, base=state.base)
    message = wire.encode(
        envelope, state.shared, precision=setup.contract.wire, exceptions=setup.recipe.precision
    )
    store.hold("global", HeldState("lab", round, state.base, message))


def test_the_bundle_answers_as_the_device_does(trained, tmp_path):
    setup, shard, lab, config, *_ = trained
    made = writer.export(agent.from_store(config, None), writer.Wanted())
    classifier = Classifier(writer.write(made, tmp_path / "b"))
    x, y = samples_of(setup.data, shard, shard.test)
    labels, _ = classifier.classify(x)
    right = sum(setup.contract.classes[c] == label for c, label in zip(y, labels, strict=True))
    assert right == lab.evaluate(1)["test"]["prototype_all_classes"].correct.sum()
    assert (made.manifest.round, made.manifest.run) == (1, "lab")


def test_a_bundle_comes_with_the_next_state(trained):
    *_, supervisor, work = trained
    supervisor.order(work)
    assert isinstance(last(supervisor), TaskDone)
    every, end = Path(supervisor.job.export_to), time.monotonic() + 90
    while not every.exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert open_bundle(every).manifest.round == 1


def test_a_device_that_never_trained_says_so(tmp_path):
    Store(tmp_path).close()
    with pytest.raises(CheckpointError, match="no round was trained yet"):
        agent.from_store(Config(AgentSection("a", str(tmp_path))), None)


def test_a_method_that_brings_its_own_backbone_is_exported_with_it(small_lab, tmp_path):
    setup = prepare(small_lab("fleet", agents=2))
    shard = setup.partition.shards[0]
    lab = setup.agent(shard, setup.context())
    assert lab.backbone == setup.recipe.traits.backbone
    np.savez(tmp_path / "rows.npz", train=shard.train, validation=shard.validation, test=shard.test)
    data = DataSection("digits", str(tmp_path / "rows.npz"), setup.config.run.seed)
    config = Config(AgentSection(shard.agent, str(tmp_path / "agent")), data=data)
    state = as_published(
        setup.recipe.start(Turn(setup.contract, setup.hyper, 0)), setup.contract.wire, {}
    )
    lab.receive(0, state.shared, {})
    parts = lab.work(1)
    state = fuse_round(
        setup.recipe,
        Turn(setup.contract, setup.hyper, 1),
        state,
        [Upload(shard.agent, 1, state.base, parts)],
    )
    store = Store(config.data_dir)
    try:
        store.take_over(BOOT)
        spec = RoundSpec("lab", "fleet", to_plain(setup.contract), to_plain(setup.hyper))
        store.note(**{"plan/lab": json.dumps(vars(spec))})
        upload = OutboxEntry("lab", 1, state.base, "fleet", "0" * 64, b"", BOOT, 1)
        checkpoint = Checkpoint(1, 0, state.base, pack(lab.checkpoint()))
        store.commit_round(BOOT, "lab", checkpoint, upload, time.time())
        hold(store, setup, 1, state)
    finally:
        store.close()
    assert agent.from_store(config, None).backbone == lab.backbone


def test_of_a_ledgers_device_it_is_the_fleets_extractor_with_its_classes(tmp_path):
    made = extractor_bundle(tmp_path / "fleet.pfb")
    lineage, names = made.manifest.lineages[0], ("blue", "red")
    x = np.concatenate([pictures(2, 30), pictures(1, 30)])
    own = contribution(Classifier(made).embed(x), np.repeat([0, 1], 30), Grid())
    whole = learned.state(fold(own, Grid()))[1]
    config = replace(Config(), agent=AgentSection(id="a", data_dir=str(tmp_path)))
    assert agent.of_ledger(config) is None  # nobody contributed yet
    bank = Bank(About(lineage, names, made.digest, whole.calibration, "t"), whole.head)
    message = published.write(bank, Envelope("global", "f", "r", round=7), "float32")
    cache.state_file(tmp_path / "fleet.pfb").write_bytes(message)
    bundle = writer.write(agent.of_ledger(config), tmp_path / "out.pfb")
    assert (bundle.manifest.classes, bundle.manifest.round) == (names, 7)
    answer = Classifier(bundle).look(pictures(1, 20))
    assert answer.best.count("red") > 18
    assert answer.probabilities is not None
