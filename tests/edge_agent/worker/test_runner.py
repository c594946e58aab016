"""The training process: a real one, and what it trains is what the laboratory's device trains, byte
for byte.
"""

import os
import signal
import time
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from PIL import Image

from coordinator.uploads.fuse import as_published, fuse_round
from edge_agent.config import DataSection, LimitsSection
from edge_agent.networks.torch_env import resolve_device
from edge_agent.protocol.actions import Train
from edge_agent.protocol.events import RoundSpec
from edge_agent.records import HeldState
from edge_agent.store import Store
from edge_agent.training.context import settle
from edge_agent.worker.ipc import (
    DataSurvey,
    Job,
    Measured,
    Notice,
    SurveyData,
    TaskDone,
    TaskFailed,
    Work,
    WorkerEnded,
)
from edge_agent.worker.supervisor import WorkerSupervisor
from protofleet import wire
from protofleet.contract import Input
from protofleet.exchange.state import Upload
from protofleet.recipe import Turn
from protofleet.settings.fields import to_plain
from simulators.run.setup import prepare
from simulators.run.workers import upload_message

BOOT = "b" * 16


def rows_of(setup, shard, folder):
    path = folder / f"{shard.agent}.npz"
    np.savez(path, train=shard.train, validation=shard.validation, test=shard.test)
    return DataSection(source="digits", rows=str(path), seed=setup.config.run.seed)


class Bench:
    """A supervisor with a store, as a daemon has them."""

    def __init__(self, folder, agent, data, limits=None):
        self.store = Store(folder / agent)
        self.store.take_over(BOOT)
        job = Job(agent, folder / agent, BOOT, data, None, limits or LimitsSection(nice=0))
        self.supervisor = WorkerSupervisor(job, lambda: None)

    def order(self, order, seconds=60.0):
        self.supervisor.order(order)
        return self.answers(seconds)

    def answers(self, seconds=60.0):
        """All that is said until it is done."""
        found, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            found += self.supervisor.answers()
            if found and not isinstance(found[-1], Measured | Notice):
                return found
            time.sleep(0.01)
        raise AssertionError(f"no end after {found}")

    def hold(self, setup, round, state):
        common = {"fleet": "lab", "run": "lab", "epoch": 1, "round": round, "base": state.base}
        how = {"precision": setup.contract.wire, "exceptions": setup.recipe.precision}
        message = wire.encode(wire.Envelope(t="global", **common), state.shared, **how)
        self.store.hold("global", HeldState("lab", round, state.base, message))

    def close(self):
        self.supervisor.dismiss()
        self.store.close()


def plan_of(setup):
    return RoundSpec("lab", setup.recipe.name, to_plain(setup.contract), to_plain(setup.hyper))


@pytest.fixture
def bench(tmp_path):
    made = []

    def make(*words, **more):
        made.append(Bench(tmp_path, *words, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("method", ["fedproto", "fedavg"])
def test_rounds_are_the_laboratorys_byte_for_byte_over_a_restart_of_the_process(
    small_lab, bench, tmp_path, method
):
    setup = prepare(small_lab(method, agents=2))
    settle(setup.contract.numerics)
    shard = setup.partition.shards[0]
    lab = setup.agent(shard, setup.context())
    state = as_published(
        setup.recipe.start(Turn(setup.contract, setup.hyper, 0)), setup.contract.wire, {}
    )
    child = bench(shard.agent, rows_of(setup, shard, tmp_path))
    for round in (1, 2):
        lab.receive(round - 1, state.shared, state.for_agent(shard.agent))
        tallies = lab.evaluate(round - 1)["test"]
        parts = lab.work(round)
        want = wire.decode(upload_message(setup, shard.agent, round, state.base, parts))
        child.hold(setup, round - 1, state)
        task = Train("lab", round, round - 1, state.base, False, True, plan_of(setup))
        measured, done = child.order(Work(task, 0))
        assert isinstance(done, TaskDone)
        assert measured.tallies["test"] == {
            n: (t.correct.sum(), t.total.sum()) for n, t in tallies.items()
        }
        got = child.store.upload("lab", round)
        assert got.digest == want.digest
        assert wire.digest(wire.decode_parts(got.body)) == wire.digest(want.body)
        upload = Upload(shard.agent, round, state.base, want.body)
        state = fuse_round(setup.recipe, Turn(setup.contract, setup.hyper, round), state, [upload])
        if method == "fedproto":
            # The next round is trained by a process that only knows the store.
            child.supervisor.dismiss()


def test_a_process_killed_in_training_leaves_nothing_and_the_next_one_ends_in_the_same_bytes(
    small_lab, bench, tmp_path
):
    config = small_lab(agents=2)
    setup = prepare(replace(config, training=replace(config.training, local_epochs=15)))
    shard = setup.partition.shards[0]
    digests = []
    for name in ("undisturbed", "killed"):
        child = bench(name, rows_of(setup, shard, tmp_path))
        child.supervisor.job = replace(child.supervisor.job, agent=shard.agent)
        state = setup.recipe.start(Turn(setup.contract, setup.hyper, 0))
        child.hold(setup, 0, state)
        task = Train("lab", 1, 0, state.base, False, True, plan_of(setup))
        order = Work(task, 0)
        if name == "killed":
            child.supervisor.order(order)
            while not any(isinstance(answer, Measured) for answer in child.supervisor.answers()):
                time.sleep(0.005)
            os.kill(child.supervisor.pid, signal.SIGKILL)
            assert child.answers() == [
                WorkerEnded("the training process was killed, perhaps for want of memory")
            ]
            assert child.store.standing("lab") == (0, -1)
            assert child.store.waiting("lab") == []
        assert isinstance(child.order(order)[-1], TaskDone)
        digests.append(child.store.upload("lab", 1).digest)
    assert digests[0] == digests[1]


def test_what_cannot_be_trained_is_an_answer_and_the_process_lives_on(small_lab, bench, tmp_path):
    setup = prepare(small_lab(agents=2))
    shard = setup.partition.shards[0]
    child = bench(
        shard.agent,
        rows_of(setup, shard, tmp_path),
        limits=LimitsSection(nice=0, threads=1, cpu=0.5),
    )
    held = np.unique(setup.data.y[shard.train])
    assert child.order(SurveyData()) == [
        DataSurvey(tuple(setup.data.classes[c] for c in held), len(shard.train))
    ]
    state = setup.recipe.start(Turn(setup.contract, setup.hyper, 0))
    plan = plan_of(setup)
    task = Train("lab", 1, 0, state.base, False, False, plan)

    def broken(plan):
        found = child.order(Work(replace(task, spec=plan), 0))[-1]
        assert isinstance(found, TaskFailed)
        assert "\n" not in found.words
        return found

    contract = dict(plan.contract)
    threads = broken(
        replace(plan, contract=contract | {"numerics": contract["numerics"] | {"threads": 4}})
    )
    assert threads.words == "the fleet trains with 4 threads, limits.threads is 1"
    shape = broken(
        replace(plan, contract=contract | {"input": contract["input"] | {"shape": [28, 28, 1]}})
    )
    assert "digits: images of 8×8×1, but the fleet takes images of 28×28×1" in shape.words
    strangers = broken(replace(plan, contract=contract | {"classes": ["cat", "dog"]}))
    both = "(0, 1, 2, 3, 4, 5, 6, 7 and more) is in the fleet's contract; it has cat, dog"
    assert strangers.words == f"digits: none of its classes {both}"
    assert {threads.scope, shape.scope, strangers.scope} == {"device"}
    gone = broken(plan)
    assert (gone.words, gone.scope) == ("the global state of round 0 is no longer here", "again")
    child.hold(setup, 0, state)
    missing = plan.contract | {"classes": [str(c) for c in range(9)] + ["ten"]}
    notice, done = child.order(Work(replace(task, spec=replace(plan, contract=missing)), 0))
    assert isinstance(done, TaskDone)
    assert notice.words.startswith("left out, because the fleet's contract has no such class: 9 (")


def test_auto_is_what_the_machine_has_and_the_answer_names_it(small_lab, bench, tmp_path):
    setup = prepare(small_lab(agents=2))
    shard = setup.partition.shards[0]
    child = bench(shard.agent, rows_of(setup, shard, tmp_path))
    state = setup.recipe.start(Turn(setup.contract, setup.hyper, 0))
    child.hold(setup, 0, state)
    plan = plan_of(setup)
    auto = plan.contract | {"numerics": plan.contract["numerics"] | {"device": "auto"}}
    (done,) = child.order(
        Work(Train("lab", 1, 0, state.base, False, False, replace(plan, contract=auto)), 0)
    )
    assert isinstance(done, TaskDone)
    assert done.device == resolve_device("auto")


def test_new_samples_enter_with_the_next_round_that_is_told_of_them(small_lab, bench, tmp_path):
    setup = prepare(small_lab(agents=2))
    contract = replace(setup.contract, input=Input("image", (8, 8, 3), (0.5,) * 3, (0.5,) * 3))
    setup = replace(setup, contract=contract)

    def photos(first, last):
        for label, i in product("37", range(first, last)):
            (tmp_path / "photos" / label).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (9, 9), (i, 20 * int(label), 0)).save(
                tmp_path / "photos" / label / f"{i}.png"
            )

    def samples(round, version):
        child.hold(setup, round - 1, state)
        task = Train("lab", round, round - 1, state.base, False, False, plan_of(setup))
        assert isinstance(child.order(Work(task, version))[-1], TaskDone)
        parts = wire.decode_parts(child.store.upload("lab", round).body)
        return dict(
            zip(
                parts["prototypes"].classes.tolist(),
                parts["prototypes"].counts.tolist(),
                strict=True,
            )
        )

    photos(0, 10)
    child = bench("camera", DataSection(source=str(tmp_path / "photos"), test_share=0.0))
    state = setup.recipe.start(Turn(setup.contract, setup.hyper, 0))
    assert samples(1, 0) == {3: 10, 7: 10}
    photos(10, 15)
    assert samples(2, 0) == {3: 10, 7: 10}
    assert samples(3, 1) == {3: 15, 7: 15}


def test_a_cap_on_memory_holds_and_is_the_reason_that_is_given(small_lab, bench, tmp_path):
    setup = prepare(small_lab(agents=2))
    shard = setup.partition.shards[0]
    child = bench(
        shard.agent, rows_of(setup, shard, tmp_path), limits=LimitsSection(nice=0, memory_mb=120)
    )
    state = setup.recipe.start(Turn(setup.contract, setup.hyper, 0))
    child.hold(setup, 0, state)
    found = child.order(Work(Train("lab", 1, 0, state.base, False, False, plan_of(setup)), 0))[-1]
    assert isinstance(found, TaskFailed | WorkerEnded)
    assert child.store.waiting("lab") == []
