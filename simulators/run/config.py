"""A laboratory run as one frozen dataclass; its fields are the command line of `protofleet
simulate`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from coordinator.config import UploadLimits
from protofleet.contract import Numerics, Resize, Training, Wire
from protofleet.settings.fields import setting
from simulators.run.partitions import PartitionOptions

PartitionKind = Literal["few-shot", "dirichlet", "pathological", "iid", "feature-skew"]


@dataclass(frozen=True)
class Run:
    """What is run, on what, by how many."""

    method: str = setting("fleet", "a method of `protofleet methods`")
    dataset: str = setting(
        "digits",
        "digits, spiral, mnist, fashion-mnist, cifar10, cifar100, a folder, or an .npz file",
    )
    agents: int = setting(20, "how many devices", low=1)
    partition: PartitionKind = setting("dirichlet", "how data is dealt out")
    backbone: str = setting(
        "",
        "the devices' network, or several (a,b,c) that they take in turn, or mixed; "
        "by default one that fits the data",
    )
    embedding: int = setting(0, "size of the embedding; 0: the network's own", low=0)
    resize: Resize = setting(
        "linear",
        "what takes a network's own features to that size: a linear layer, or means over windows "
        "of them, without parameters",
    )
    unit_embedding: bool = setting(
        False, "every network scales its embedding to length one, whatever the method"
    )
    head_relu: bool = setting(False, "a ReLU after the classifier's last layer, too (MP-FedCL)")
    unit_logits: bool = setting(False, "logits are scaled to length one (FedPCL's code)")
    weights: str = setting("", "start from pretrained weights: imagenet, or a file")
    freeze: bool = setting(False, "keep the extractor as it is")
    common_start: Literal["auto", "yes", "no"] = setting(
        "auto", "all devices begin from the same weights; auto: where the method says so"
    )
    averaging: int = setting(
        0,
        "rounds over which devices average their weights for all but training; 0: they do not",
        low=0,
    )
    rounds: int = setting(20, "rounds of exchange", low=1)
    participation: float = setting(
        1.0, "share of the devices that takes part in a round", low=0, high=1
    )
    seed: int = setting(0, "everything random comes from it", low=0)
    partition_seed: int | None = setting(
        None, "deal the data out by this seed instead (the papers' few-shot: 1234)", low=0
    )
    wire: Wire = setting("half", "precision of prototypes on the wire")
    image_size: int = setting(
        0, "resize images to this many pixels; 0: as the data set has them", low=0
    )
    pixels: Literal["set", "unit"] = setting(
        "set", "images as their set's mean and deviation have them, or from 0 to 1"
    )
    train_on: Literal["own", "everyone"] = setting(
        "own",
        "a device's training samples are its own, or all devices' of the classes that it holds: a "
        "bound, which no exchange can give it",
    )
    test_on: Literal["own", "everyone"] = setting(
        "own",
        "a device's test samples are its own, or all devices' together (one test set for all)",
    )
    eval_every: int = setting(1, "evaluate every so many rounds (and after the last)", low=1)


@dataclass(frozen=True)
class MaskOptions:
    """Sums that nobody can read, and what they have room for: of uploads that are larger than this
    a device sends none.
    """

    secure_sum: bool = setting(
        False, "mask what devices send, so that the coordinator learns its total and nothing else"
    )
    dropouts: int = setting(
        0, "with --secure-sum: devices that are lost in every round, each at some step", low=0
    )
    mask_norm: float = setting(
        128.0, "with --secure-sum: largest length of a prototype that has room", low=1e-6
    )
    mask_largest: float = setting(
        1024.0, "with --secure-sum: largest number of a network's weights that has room", low=1e-6
    )
    mask_samples: int = setting(
        2**17, "with --secure-sum: most samples of one device that have room", low=1
    )


@dataclass(frozen=True)
class BudgetOptions:
    """What a run may tell of one sample (where the extractor stays) or one device (where it
    trains).
    """

    epsilon: float = setting(
        0.0, "noise on what is released, so that the whole run tells no more; 0: none", low=0
    )
    delta: float = setting(1e-5, "with --epsilon: how likely it may tell more", low=1e-300, high=1)
    clip: float = setting(
        16.0, "with --epsilon: a sample's features, or a device's mean, no longer than this", low=0
    )
    publications: int = setting(
        0,
        "with --epsilon, where devices train: in how many rounds it is spent, after which they "
        "fall silent; 0: in all",
        low=0,
    )
    noise: Literal["seed", "system"] = setting(
        "seed",
        "with --epsilon: drawn from the run's seed, to measure (who knows the seed knows the "
        "noise), or of the system's randomness, exactly, so that what comes out may be shown",
    )


@dataclass(frozen=True)
class LabConfig:
    """Everything a run depends on; what decides only how fast it goes (workers) is not here."""

    run: Run = field(default_factory=Run)
    partition: PartitionOptions = field(default_factory=PartitionOptions)
    training: Training = field(default_factory=Training)
    numerics: Numerics = field(default_factory=Numerics)
    settings: tuple[str, ...] = ()  # the method's own, as name=value
    admission: UploadLimits = field(default_factory=UploadLimits)
    masks: MaskOptions = field(default_factory=MaskOptions)
    budget: BudgetOptions = field(default_factory=BudgetOptions)
