"""The papers' protocols as configurations of the laboratory, at the papers' own length; what was
cut is said beside the cells that use them.
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
    # The paper says three classes a device: with a spread of 2 the published draw has 3.55 of them,
    # since a device has at least two; with 1 it has 2.95. With four and five 2 is right.
    return quick(
        changed(
            few_shot("mnist", "cnn-mnist", 1 if ways == 3 else 2, "none"),
            ways=ways,
            test_shots=40,
            batch_size=4,
        )
    )


def cifar_resnet(shot_spread: int) -> LabConfig:
    """GFPL's protocol on CIFAR-10 for its table 2: four classes a device, ResNet-18, d = 128."""
    return changed(
        few_shot("cifar10", "resnet18", 1, "crop-flip"),
        ways=4,
        shot_spread=shot_spread,
        embedding=128,
        batch_size=32,
        rounds=100,
        layout="channels-last",
    )


CIFAR = few_shot("cifar10", "lenet", 1, "crop-flip")
FASHION = few_shot("fashion-mnist", "cnn-mnist", 2, "none")
# FedMPS's rounds are those of its code's README, which counts 500 on CIFAR-10 and 800 on
# Fashion-MNIST for every method; there every network normalises its embedding.
MPS_CIFAR = quick(changed(CIFAR, method="fedmps", rounds=500))
MPS_FASHION = quick(
    changed(FASHION, ("alpha=1", "mu=1"), method="fedmps", backbone="cnn-fashion", rounds=800)
)

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

# Its table III has a ReLU behind the last layer too, for every method.
POOLED_AS_PRINTED = changed(POOLED, head_relu=True)

SPIRAL = LabConfig(
    Run(method="fedproto", dataset="spiral", agents=10, backbone="mlp-spiral", rounds=200),
    PartitionOptions(alpha=0.1, validation=0.0),
    Training(batch_size=32, lr=0.01, momentum=0.0),
    Numerics(compile=True),
)

# ProtoNorm: all 60,000 images, three quarters of a device's to train on, the paper's four networks
# in turn. As its code has it (PFLlib), features are pooled to d = 512 without parameters, and a
# last batch that is not full is left out; with it three of the four networks diverge.
MIXED = LabConfig(
    Run(
        method="fedproto",
        dataset="cifar10",
        agents=20,
        backbone="resnet8,efficientnet_b0,shufflenet_v2_x1_0,mobilenet_v2",
        embedding=512,
        resize="pool",
        rounds=300,
    ),
    PartitionOptions(alpha=0.1, validation=0.0),
    Training(batch_size=32, lr=0.01, momentum=0.0, last_batch="drop"),
    Numerics(layout="channels-last"),
)
# For its settings one at a time: a tenth of the images, and of the rounds a quarter.
MIXED_SHORT = changed(MIXED, limit=6000, rounds=80)

# FedIC: all images, 800 rounds. Its table 1 counts 156.92 MB a round for 20 clients on CIFAR-100
# and 151.52 MB for FedProto, which ships weights: the four-layer CNN's 0.92 M weights up and down
# are 147.95 MB, and 152.5 MB with prototypes. Pairs, shares and last batches as in the code that it
# is built on (PFLlib).
CLUSTERED = LabConfig(
    Run(
        method="fedic",
        dataset="fashion-mnist",
        agents=20,
        partition="pathological",
        backbone="cnn4",
        common_start="yes",
        rounds=800,
    ),
    PartitionOptions(
        classes_per_agent=2, alpha=0.1, validation=0.0, pairs="consecutive", shares="unequal"
    ),
    Training(batch_size=10, lr=0.005, momentum=0.0, last_batch="drop"),
    Numerics(layout="channels-last", dtype="bf16"),
)
CLUSTERED_SHORT = changed(CLUSTERED, limit=10_000, rounds=100)
