"""`protofleet bench lab`: a round of ours beside reference loops, side by side in one run, as
ratios.

Every contender runs the same rounds of FedProto (or FedMPS) on the same devices, one round each in
turn, so that a noisy machine is noisy for all; a contender's time is the median of its rounds after
the first two.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from statistics import fmean, median

import torch

from protofleet.contract import Training
from protofleet.errors import FleetError
from protofleet.exchange.state import GlobalState
from simulators.run.config import LabConfig, Run
from simulators.run.partitions import PartitionOptions
from simulators.run.rounds import one_round
from simulators.run.setup import prepare
from simulators.run.workers import hire
from simulators.speed import reference
from simulators.speed.reference_mps import PlainFedMPS

# In the first rounds libraries load, caches fill and compiled steps are compiled.
WARM_UP = 2


@dataclass(frozen=True)
class Timed:
    """One contender's figures."""

    name: str
    seconds: float
    accuracy: float | None


Round = Callable[[int], float | None]


def cifar_few_shot() -> LabConfig:
    """The papers' CIFAR-10 cell: 20 devices, 3 ways, 100 shots, LeNet, batch 8, crop and flip."""
    return LabConfig(
        Run(
            method="fedproto",
            dataset="cifar10",
            agents=20,
            partition="few-shot",
            backbone="lenet",
            rounds=100,
        ),
        PartitionOptions(ways=3, shots=100, spread=1, test_shots=15, validation=0.0),
        Training(batch_size=8, lr=0.01, momentum=0.5, augment="crop-flip"),
    )


def fashion_cnn4() -> LabConfig:
    """20 devices with 600 samples each of Fashion-MNIST, batch 32, the 4-layer CNN."""
    return LabConfig(
        Run(
            method="fedproto",
            dataset="fashion-mnist",
            agents=20,
            partition="iid",
            backbone="cnn4",
            rounds=100,
        ),
        PartitionOptions(limit=16_000, validation=0.0),
        Training(batch_size=32, lr=0.01, momentum=0.5),
    )


def ours(config: LabConfig, workers: int = 1) -> Round:
    """Our round, evaluation, codec and fusion included."""
    setup = prepare(config)
    crew = hire(setup, workers)
    state = GlobalState()
    crew.receive(0, state)

    def round(number: int) -> float | None:
        nonlocal state
        state, row = one_round(setup, crew, state, number)
        return row.accuracy.get("prototype")

    return round


def theirs(config: LabConfig, feed: reference.Feed) -> Round:
    """A reference loop on the same devices and the same initial weights."""
    setup = prepare(config)
    agents = [setup.agent(shard, setup.context()) for shard in setup.partition.shards]
    models = []
    for agent in agents:
        model = setup.context().stepper(agent.backbone).net
        model.load_state_dict(agent.context.initial_weights(agent.backbone, agent.name))
        models.append(model)
    train, test = [a.data.train for a in agents], [a.data.test for a in agents]
    plain = PlainFedMPS if config.run.method == "fedmps" else reference.PlainFedProto
    loop = plain(models, train, test, setup.contract, feed)
    return lambda number: loop.round()


def floor(config: LabConfig) -> Round:
    """The bare arithmetic of as many steps."""
    setup = prepare(config)
    agents = [setup.agent(shard, setup.context()) for shard in setup.partition.shards]
    size = setup.contract.training.batch_size
    steps = sum(-(-len(agent.data.train) // size) for agent in agents)
    net = setup.context().stepper(agents[0].backbone).net

    def round(number: int) -> None:
        reference.floor(net, agents[0].data.train, setup.contract, steps)

    return round


def variant(config: LabConfig, **numerics: object) -> LabConfig:
    """The same run under other numerics."""
    return replace(config, numerics=replace(config.numerics, **numerics))  # type: ignore[arg-type]


Contender = tuple[Callable[..., Round], tuple[object, ...]]


def measure(
    contenders: dict[str, Contender], rounds: int, tell: Callable[[str], None]
) -> list[Timed]:
    """All contenders, a round each in turn, every one in a process of its own so that none inherits
    another's ways.
    """
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, []
    for name, (make, arguments) in contenders.items():
        pipes[name], their_end = context.Pipe()
        process = context.Process(target=_compete, args=(their_end, make, arguments))
        process.start()
        their_end.close()
        processes.append(process)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    accuracy: dict[str, list[float]] = {name: [] for name in contenders}
    try:
        for pipe in pipes.values():
            pipe.recv()
        for number in range(1, rounds + 1):
            for name, pipe in pipes.items():
                pipe.send(number)
                took, reached = pipe.recv()
                seconds[name].append(took)
                if reached is not None:
                    accuracy[name].append(reached)
            tell(f"round {number}/{rounds}")
    except EOFError:
        raise FleetError("a contender's process died; its own words are above") from None
    finally:
        for pipe in pipes.values():
            pipe.close()
        for process in processes:
            process.join(timeout=30)
            process.kill()
    warm = min(WARM_UP, rounds - 1)
    return [
        Timed(
            name,
            median(seconds[name][warm:]),
            fmean(accuracy[name][-5:]) if accuracy[name] else None,
        )
        for name in contenders
    ]


def _compete(pipe: Connection, make: Callable[..., Round], arguments: tuple[object, ...]) -> None:
    # One thread each, as `settle` gives ours: otherwise a reference loop with two would be compared
    # with one.
    torch.set_num_threads(1)
    round = make(*arguments)
    pipe.send("ready")
    while True:
        try:
            number = pipe.recv()
        except EOFError:
            return
        began = time.perf_counter()
        reached = round(number)
        pipe.send((time.perf_counter() - began, reached))


def bench_cifar(rounds: int, tell: Callable[[str], None]) -> list[Timed]:
    """LeNet, few-shot: where a step is so short that everything around it counts."""
    cell = cifar_few_shot()
    prepare(cell)  # what is missing is said here, once
    contenders: dict[str, Contender] = {
        "ours": (ours, (cell,)),
        "ours, compiled": (ours, (variant(cell, compile=True),)),
        "ours, compiled, channels-last": (
            ours,
            (variant(cell, compile=True, layout="channels-last"),),
        ),
        "in-memory loop": (theirs, (cell, reference.in_memory)),
        "DataLoader way": (theirs, (cell, reference.with_loader)),
        "floor": (floor, (cell,)),
    }
    return measure(contenders, rounds, tell)


def bench_fedmps(rounds: int, tell: Callable[[str], None]) -> list[Timed]:
    """FedMPS's losses there: two contrasts and a KL a step, two levels of prototypes, a taught
    classifier.
    """
    cell = cifar_few_shot()
    cell = replace(cell, run=replace(cell.run, method="fedmps"))
    prepare(cell)
    contenders: dict[str, Contender] = {
        "ours": (ours, (cell,)),
        "ours, compiled": (ours, (variant(cell, compile=True),)),
        "ours, compiled, channels-last": (
            ours,
            (variant(cell, compile=True, layout="channels-last"),),
        ),
        "in-memory loop": (theirs, (cell, reference.in_memory)),
        "floor": (floor, (cell,)),
    }
    return measure(contenders, rounds, tell)


def bench_fashion(rounds: int, tell: Callable[[str], None]) -> list[Timed]:
    """The 4-layer CNN: where the arithmetic itself decides."""
    cell = fashion_cnn4()
    prepare(cell)
    contenders: dict[str, Contender] = {
        "ours": (ours, (cell,)),
        "ours, channels-last": (ours, (variant(cell, layout="channels-last"),)),
        "ours, channels-last, bf16": (ours, (variant(cell, layout="channels-last", dtype="bf16"),)),
        "in-memory loop": (theirs, (cell, reference.in_memory)),
        "DataLoader way": (theirs, (cell, reference.with_loader)),
        "floor": (floor, (cell,)),
    }
    return measure(contenders, rounds, tell)


def bench_workers(rounds: int, tell: Callable[[str], None]) -> list[Timed]:
    """One worker and two, same devices, same result."""
    cell = variant(fashion_cnn4(), layout="channels-last", dtype="bf16")
    prepare(cell)
    contenders: dict[str, Contender] = {
        "ours, 1 worker": (ours, (cell, 1)),
        "ours, 2 workers": (ours, (cell, 2)),
    }
    return measure(contenders, rounds, tell)
