"""`protofleet bench lab`: a round of ours beside reference loops, side by side in one run, as ratios.

Every contender runs the same rounds of FedProto on the same devices, one round each in turn, so that a noisy machine is
noisy for all; a contender's time is the median of its rounds after the first two.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean, median

from edge_agent.workshop import settle
from protofleet.contract import Numerics, Training
from protofleet.exchange import GlobalState
from simulators.bench import reference
from simulators.config import LabConfig, Run
from simulators.crew import Crew, Here, Processes
from simulators.lab import one_round
from simulators.partitions import PartitionOptions
from simulators.setup import Setup, prepare

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
        Run(method="fedproto", dataset="cifar10", agents=20, partition="few-shot", backbone="lenet", rounds=100),
        PartitionOptions(ways=3, shots=100, spread=1, test_shots=15, validation=0.0),
        Training(batch_size=8, lr=0.01, momentum=0.5, augment="crop-flip"),
    )


def fashion_cnn4() -> LabConfig:
    """20 devices with 600 samples each of Fashion-MNIST, batch 32, the 4-layer CNN."""
    return LabConfig(
        Run(method="fedproto", dataset="fashion-mnist", agents=20, partition="iid", backbone="cnn4", rounds=100),
        PartitionOptions(limit=16_000, validation=0.0),
        Training(batch_size=32, lr=0.01, momentum=0.5),
    )


def ours(setup: Setup, crew: Crew) -> Round:
    """Our round, evaluation, codec and fusion included."""
    state = GlobalState()
    crew.receive(0, state, False)

    def round(number: int) -> float | None:
        nonlocal state
        state, row = one_round(setup, crew, state, number)
        return row.accuracy.get("prototype")

    return round


def theirs(setup: Setup, feed: reference.Feed) -> Round:
    """A reference loop on the same devices and the same initial weights."""
    plain = replace(setup.contract, numerics=Numerics())
    setup = replace(setup, contract=plain)
    agents = [setup.agent(shard, setup.workshop()) for shard in setup.partition.shards]
    models = []
    for agent in agents:
        model = setup.workshop().stepper(agent.backbone).net
        model.load_state_dict(agent.workshop.initial_weights(agent.backbone, agent.name))
        models.append(model)
    loop = reference.PlainFedProto(models, [a.data.train for a in agents], [a.data.test for a in agents], plain, feed)
    return lambda number: loop.round()


def floor(setup: Setup) -> Round:
    """The bare arithmetic of as many steps."""
    plain = replace(setup, contract=replace(setup.contract, numerics=Numerics()))
    agents = [plain.agent(shard, plain.workshop()) for shard in plain.partition.shards]
    size = plain.contract.training.batch_size
    steps = sum(-(-len(agent.data.train) // size) for agent in agents)
    net = plain.workshop().stepper(agents[0].backbone).net

    def round(number: int) -> None:
        reference.floor(net, agents[0].data.train, plain.contract, steps)

    return round


def variant(config: LabConfig, **numerics: object) -> Setup:
    """The same run under other numerics."""
    return prepare(replace(config, numerics=replace(config.numerics, **numerics)))  # type: ignore[arg-type]


def measure(contenders: dict[str, Round], rounds: int, tell: Callable[[str], None]) -> list[Timed]:
    """All contenders, a round each in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    accuracy: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(1, rounds + 1):
        for name, round in contenders.items():
            began = time.perf_counter()
            seen = round(number)
            seconds[name].append(time.perf_counter() - began)
            if seen is not None:
                accuracy[name].append(seen)
        tell(f"round {number}/{rounds}")
    warm = min(WARM_UP, rounds - 1)
    return [
        Timed(name, median(seconds[name][warm:]), fmean(accuracy[name][-5:]) if accuracy[name] else None)
        for name in contenders
    ]


def bench_cifar(rounds: int, tell: Callable[[str], None]) -> list[Timed]:
    """LeNet, few-shot: where a step is so short that everything around it counts."""
    base = variant(cifar_few_shot())
    fast = {
        "ours": base,
        "ours, compiled": variant(cifar_few_shot(), compile=True),
        "ours, compiled, channels-last": variant(cifar_few_shot(), compile=True, layout="channels-last"),
    }
    contenders = {name: ours(setup, Here(setup, setup.agents)) for name, setup in fast.items()}
    settle(Numerics())
    contenders |= {
        "in-memory loop": theirs(base, reference.in_memory),
        "DataLoader way": theirs(base, reference.with_loader),
        "floor": floor(base),
    }
    return measure(contenders, rounds, tell)


def bench_fashion(rounds: int, tell: Callable[[str], None]) -> list[Timed]:
    """The 4-layer CNN: where the arithmetic itself decides."""
    base = variant(fashion_cnn4())
    last = variant(fashion_cnn4(), layout="channels-last")
    quick = variant(fashion_cnn4(), layout="channels-last", dtype="bf16")
    quickest = variant(fashion_cnn4(), layout="channels-last", dtype="bf16", compile=True)
    contenders = {
        "ours": ours(base, Here(base, base.agents)),
        "ours, channels-last": ours(last, Here(last, last.agents)),
        "ours, channels-last, bf16": ours(quick, Here(quick, quick.agents)),
        "ours, channels-last, bf16, compiled": ours(quickest, Here(quickest, quickest.agents)),
        "in-memory loop": theirs(base, reference.in_memory),
        "DataLoader way": theirs(base, reference.with_loader),
        "floor": floor(base),
    }
    return measure(contenders, rounds, tell)


def bench_workers(rounds: int, tell: Callable[[str], None]) -> list[Timed]:
    """One worker and two, same devices, same result."""
    setup = variant(fashion_cnn4(), layout="channels-last")
    two = Processes(setup, 2)
    try:
        contenders = {
            "ours, 1 worker": ours(setup, Here(setup, setup.agents)),
            "ours, 2 workers": ours(setup, two),
        }
        return measure(contenders, rounds, tell)
    finally:
        two.close()
