"""What a whole fleet agrees on: announced once, the same for every device, in the lab as in the
field.

Everything that changes bits is here as a resolved setting, so that two runs with equal contracts
and equal seeds end in equal bytes on one machine. Class ids are positions in `Contract.classes`,
never the order of folders on a device.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from protofleet.errors import SettingError
from protofleet.masking.rooms import MaskTerms
from protofleet.settings.fields import setting, to_plain

Augment = Literal["none", "crop-flip"]
Wire = Literal["half", "float32", "int8"]
Kind = Literal["image", "vector", "series"]
Resize = Literal["linear", "pool"]
# Options that came after the first fleets.
_LATER = {
    "unit_embedding",
    "head_relu",
    "unit_logits",
    "neck",
    "resize",
    "masks",
    "training.last_batch",
    "budget",
}


@dataclass(frozen=True)
class Input:
    """What a device feeds its network: images are uint8 H×W×C scaled to [0, 1], then (x − mean) /
    std per channel.
    """

    kind: Kind
    shape: tuple[int, ...]
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        rank = {"image": 3, "vector": 1, "series": 2}[self.kind]
        if len(self.shape) != rank or min(self.shape) < 1:
            raise SettingError(
                f"input.shape: {list(self.shape)} is not the shape of one {self.kind}"
                f" ({rank} sizes)"
            )
        if any(s <= 0 for s in self.std) or len(self.std) != len(self.mean):
            raise SettingError("input.std: one positive number per mean is due")


@dataclass(frozen=True)
class Numerics:
    """What changes the bits of a training step, resolved: never a heuristic at run time."""

    device: str = setting("cpu", "cpu, cuda, mps, or auto: the best there is")
    threads: int = setting(1, "threads of one training process", low=1)
    compile: bool = setting(
        False, "compile the training step (needs a C++ compiler; faster from a few rounds on)"
    )
    layout: Literal["contiguous", "channels-last"] = setting(
        "contiguous", "memory layout of images and convolutions"
    )
    dtype: Literal["float32", "bf16"] = setting(
        "float32", "arithmetic of a training step (bf16: autocast)"
    )


@dataclass(frozen=True)
class Training:
    """Local training, the same on every device."""

    local_epochs: int = setting(1, "epochs of local training a round", low=1)
    batch_size: int = setting(8, "samples a step", low=1)
    lr: float = setting(0.01, "learning rate", low=0)
    momentum: float = setting(0.5, "momentum of SGD", low=0, high=1)
    weight_decay: float = setting(0.0, "weight decay of SGD", low=0)
    lr_decay: float = setting(
        1.0, "the learning rate is multiplied by this every round", low=0, high=1
    )
    last_batch: Literal["keep", "drop"] = setting(
        "keep",
        "a pass's last batch where it is not full; drop: left out, unless it is the only one "
        "(networks whose batch statistics would be of two or three numbers diverge on it)",
    )
    augment: Augment = setting(
        "none", "crop-flip: random crop after padding by 4, random horizontal flip"
    )


@dataclass(frozen=True)
class Budget:
    """What a whole run may tell of one sample (where the extractor stays) or one device (where it
    trains); `rho` is the same as ρ, so that nobody but who sets it needs an accountant.
    """

    epsilon: float
    delta: float
    rho: float
    norm: float  # longer features, or means of a device, are shortened to this
    publications: int  # of methods that train, whose rounds are alike


@dataclass(frozen=True)
class Contract:
    """The fleet's agreement."""

    fleet: str
    run: str
    seed: int
    classes: tuple[str, ...]
    input: Input
    embedding: int
    head_hidden: tuple[int, ...] = ()
    training: Training = field(default_factory=Training)
    numerics: Numerics = field(default_factory=Numerics)
    wire: Wire = "half"
    averaging: int = (
        0  # rounds over which a device averages its weights for all but training; 0: it does not
    )
    common_start: bool = False  # every device derives the same initial weights from the seed
    pretrained: str = ""
    freeze: bool = False
    unit_embedding: bool = False  # every network scales its embedding to length one
    head_relu: bool = False  # the classifier's last layer has a ReLU too: no logit is below zero
    unit_logits: bool = False  # a sample's logits are scaled to length one, after that ReLU
    # Widths before the embedding, the last of them its own: a classifier's hidden layers, where the
    # method counts them as the extractor's (`Traits.linear_head`).
    neck: tuple[int, ...] = ()
    resize: Resize = "linear"  # what takes a network's own features to the embedding's size
    masks: MaskTerms | None = None  # what devices send is masked, and only its total is learned
    budget: Budget | None = None  # of what is published; none: there is none

    def __post_init__(self) -> None:
        # There may be none: of a fleet that adds up contributions devices bring theirs.
        if len(set(self.classes)) != len(self.classes) or "" in self.classes:
            raise SettingError("classes: names must differ, and none may be empty")
        if self.embedding < 1:
            raise SettingError(f"embedding: {self.embedding} is not a size")
        if self.neck and (self.neck[-1] != self.embedding or min(self.neck) < 1):
            raise SettingError(
                f"neck: {list(self.neck)} does not end in an embedding of {self.embedding}"
            )

    @property
    def n_classes(self) -> int:
        """How many classes the fleet knows."""
        return len(self.classes)

    def announced(self) -> dict[str, Any]:
        """A plain document: as devices are told it, and as a run is identified by it."""
        # Later options are left out at their default: a device of an older version takes part in a
        # fleet that does not use them, and journals and lineages from before go on fitting.
        document: dict[str, Any] = to_plain(self)
        for option in _LATER:
            section, _, name = option.rpartition(".")
            owner = getattr(self, section) if section else self
            default = next(f.default for f in fields(owner) if f.name == name)
            if getattr(owner, name) == default:
                del (document[section] if section else document)[name]
        return document
