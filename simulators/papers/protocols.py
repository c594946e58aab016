"""The papers' protocols as configurations of the laboratory; what was cut is said beside the cells
that use them.
"""

from __future__ import annotations

from protofleet.contract import Numerics, Training
from simulators.papers.cell import changed
from simulators.run.config import LabConfig, Run
from simulators.run.partitions import PartitionOptions


def few_shot(dataset: str, backbone: str, spread: int, augment: str) -> LabConfig:
    """FedProto's and FedMPS's protocol, on the devices that the papers' own code draws."""
    return LabConfig(
        Run(
            method="fedproto",
            dataset=dataset,
            agents=20,
            partition="few-shot",
            backbone=backbone,
            rounds=80,
            partition_seed=1234,
        ),
        PartitionOptions(ways=3, shots=100, spread=spread, test_shots=15),
        Training(
            batch_size=8,
            lr=0.01,
            momentum=0.5,
            augment="crop-flip" if augment == "crop-flip" else "none",
        ),
    )


def quick(config: LabConfig) -> LabConfig:
    """The same with compiled steps and channels-last, where that measured faster."""
    return changed(config, compile=True, layout="channels-last")


def mnist_few_shot(ways: int) -> LabConfig:
    """GFPL's protocol on MNIST, evaluated on 40 samples a class as FedProto's code does there."""
    config = changed(
        few_shot("mnist", "cnn-mnist", 2, "none"), ways=ways, test_shots=40, batch_size=4, rounds=40
    )
    return quick(config)


CIFAR = few_shot("cifar10", "lenet", 1, "crop-flip")
FASHION = few_shot("fashion-mnist", "cnn-mnist", 2, "none")
MPS_CIFAR = quick(changed(CIFAR, method="fedmps", rounds=120))
MPS_FASHION = quick(changed(FASHION, ("alpha=1", "mu=1"), method="fedmps", backbone="cnn-fashion"))

# MP-FedCL: 2,000 training samples in all; as many test samples as the split leaves, the same for
# every client.
POOLED = LabConfig(
    Run(
        method="mpfedcl",
        dataset="mnist",
        agents=5,
        backbone="mlp-mnist",
        common_start="yes",
        rounds=60,
        test_on="everyone",
    ),
    # A quarter of each device's samples is for testing: 2,667 leave 2,000 to train on.
    PartitionOptions(alpha=0.05, limit=2667, validation=0.0),
    Training(batch_size=32, lr=0.01, momentum=0.5, lr_decay=0.95),
)

SPIRAL = LabConfig(
    Run(method="fedproto", dataset="spiral", agents=10, backbone="mlp-spiral", rounds=200),
    PartitionOptions(alpha=0.1, validation=0.0),
    Training(batch_size=32, lr=0.01, momentum=0.0),
    Numerics(compile=True),
)

MIXED = LabConfig(
    Run(
        method="fedproto", dataset="cifar10", agents=20, backbone="mixed", embedding=512, rounds=80
    ),
    PartitionOptions(alpha=0.1, validation=0.0, limit=6000),
    Training(batch_size=32, lr=0.01, momentum=0.0),
    Numerics(layout="channels-last"),
)

_CLUSTERED = LabConfig(
    Run(
        method="fedic",
        dataset="fashion-mnist",
        agents=20,
        partition="pathological",
        backbone="lenet",
        common_start="yes",
        rounds=60,
    ),
    PartitionOptions(classes_per_agent=2, alpha=0.1, validation=0.0, limit=10_000),
    Training(batch_size=10, lr=0.02, momentum=0.0),
)
CLUSTERED = quick(_CLUSTERED)
