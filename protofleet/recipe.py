"""What a method is: a recipe of four moves, as plain functions in one short file.

1 `train`: what the device minimises. 2 `summarise`: what it sends. 3 `fold` and `fuse`: how the
coordinator makes the next state of it. 4 `receive` and `adapt`: what a device does with what comes
back. `scorers` says how it then classifies. A recipe file reads from top to bottom and ends in
`recipe = Recipe(...)`; its entry point in the group "protofleet.methods" is all the registration
there is.
"""

# Theory of operation
#
# The laboratory and the live fleet call the same functions in the same order, so that they end in
# the same state, to the bit. On a device, when a state arrives and when a round is trained:
#
#     receive(turn, me, state)            the state a round ended in; `turn` is of that round
#     adapt(turn, me, state)              phases to run at once, before anything is measured
#     scorers(turn, me, state)            how it classifies now, whenever it is evaluated
#     train(turn, me, state)              phases of local training; `turn` is of the new round
#     summarise(turn, me, state)          parts for the coordinator
#
# and at the coordinator:
#
#     fold(turn, upload, weight)          for every upload, in any order, as it comes
#     fuse(turn, total, before)           once a round: the next state
#
# What keeps the two the same, and what a new method has to keep to:
#
# - A move is a function of its arguments. Chance comes from `turn.rng(purpose)`, a generator of its
#   own for (seed, run, round, agent, purpose): no draw depends on what ran before, so a device that
#   was killed and trains again sends the same bytes.
# - What a device remembers between rounds is in `me.memory`, as parts, and in its network. Both are
#   in its checkpoint; a variable of the recipe's module is not.
# - `fold` may only add (`Sum`) or keep whole (`Bag`). Everything that is not linear belongs to
#   `fuse`, which sees the total. Then a round may be folded in any order, in pieces, and again from
#   the journal.
# - `fuse` may depend on what is in the total and on nothing else: not on time, nor on who was asked
#   and did not answer. A replay has only the cut.
# - Where `talks` is false, a round is one of local training: nothing is sent, folded or fused.
# - Only devices have torch: a recipe says `Tensor` in annotations, and its losses import what they
#   use. What `fuse` needs beside numpy stands in `Traits.server_needs`.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from protofleet.contract import Contract, Wire
from protofleet.errors import FusionError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.masking.layout import Layout, Shapes
from protofleet.masking.rooms import Ceilings, Rooms
from protofleet.util import seeds
from protofleet.values.prototypes import (
    Floats,
    Head,
    Ints,
    Mixtures,
    Parts,
    Prototypes,
    Tensors,
    count_floats,
)
from protofleet.values.sums import Partial

if TYPE_CHECKING:
    from torch import Tensor

H = TypeVar("H")


@dataclass(frozen=True)
class Turn(Generic[H]):
    """All that a move may depend on: the contract, the method's settings, the round and whose turn
    it is.
    """

    contract: Contract
    hyper: H
    round: int
    agent: str = ""

    def rng(self, purpose: str) -> np.random.Generator:
        """A generator for this (fleet seed, run, round, agent, purpose)."""
        return seeds.generator(*self._name(purpose))

    def seed(self, purpose: str) -> int:
        """A seed for libraries that want a number."""
        return seeds.seed_of(*self._name(purpose))

    def fleet_rng(self, purpose: str) -> np.random.Generator:
        """A generator that is the same on every device and in every round."""
        return seeds.generator(self.contract.seed, self.contract.run, purpose)

    def _name(self, purpose: str) -> tuple[seeds.Name, ...]:
        return (self.contract.seed, self.contract.run, self.round, self.agent, purpose)


@dataclass(frozen=True)
class Features:
    """A clean pass over a device's training data (evaluation mode, nothing augmented)."""

    high: Floats
    logits: Floats
    labels: Ints
    low: Floats | None = None


class Learner(Protocol):
    """What a recipe sees of the device it runs on."""

    agent: str
    classes: Ints
    samples: int
    memory: dict[str, Parts]  # what a method remembers between rounds; kept across restarts

    def features(self, *, low: bool = False) -> Features: ...
    def folds(self, parts: int) -> Ints: ...
    def validation(self) -> Features: ...
    def weights(self, *modules: str) -> Tensors: ...
    def load(self, weights: Tensors) -> None: ...


class Net(Protocol):
    """What a loss sees of the network: the two feature levels, the classifier, and heads a recipe
    asked for.
    """

    def features(self, x: Tensor) -> tuple[Tensor, Tensor]: ...
    def head(self, z: Tensor) -> Tensor: ...
    def extra(self, name: str, z: Tensor) -> Tensor: ...
    def weights(self, *modules: str) -> Mapping[str, Tensor]: ...
    def features_with(self, weights: Mapping[str, Tensor], x: Tensor) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True)
class Batch:
    """One step's samples: inputs (features, in a phase that brings its own data) and labels."""

    x: Tensor
    y: Tensor


Drawn = tuple[Floats, Ints]  # features, and their labels
Given = Mapping[str, "Tensor"]
Loss = Callable[[Net, Batch, Given, Any], "Tensor"]


@dataclass(frozen=True)
class Phase:
    """One stretch of local training.

    `loss(net, batch, given, hyper)` is a plain function: whatever it needs beside the batch is in
    `given`, as arrays of one shape from round to round, so that one compiled step serves the whole
    run.
    """

    loss: Loss
    given: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    train: tuple[str, ...] = ()  # modules that learn ("backbone", "head", ...); all when empty
    epochs: int | None = None  # None: as the fleet's training settings say; so for the next ones
    batch_size: int | None = None
    lr: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    # Instead of the device's own samples: features, or what draws some anew for every pass.
    data: Drawn | Callable[[np.random.Generator], Drawn] | None = None
    between: Phase | None = None  # run whole after every step of this one
    rows: Ints | None = None  # which of the device's samples it learns from; None: all
    still: bool = False  # running statistics and dropout are as when the network classifies


@dataclass(frozen=True)
class Linear:
    """A further linear head that a recipe asks for, beside the classifier."""

    out: int
    bias: bool = True


@dataclass(frozen=True)
class NearestPrototype:
    """Classify by the nearest prototype; the score is minus the squared distance (or the
    cosine).
    """

    prototypes: Prototypes
    metric: Literal["euclidean", "cosine"] = "euclidean"
    # Compare what this further head makes of the embedding, instead of the embedding.
    through: str = ""
    of_unit: bool = False  # compare the embedding scaled to length one


@dataclass(frozen=True)
class LikeliestMixture:
    """Classify by the class under whose mixture the embedding is likeliest."""

    mixtures: Mixtures


@dataclass(frozen=True)
class ByHead:
    """Classify by the classifier's logits."""

    of_unit: bool = False  # the classifier reads the embedding scaled to length one
    rows: Head | None = None  # a linear classifier of the embedding instead of the network's own


Scorer = NearestPrototype | LikeliestMixture | ByHead


@dataclass(frozen=True)
class Widths:
    """Sizes of a fleet's network, as a contract has them."""

    embedding: int
    head_hidden: tuple[int, ...] = ()
    neck: tuple[int, ...] = ()


@dataclass(frozen=True)
class Traits:
    """What the rest of the house must know of a method."""

    mixed_backbones: bool = True  # devices may have different networks
    common_start: bool = False  # devices begin from the same weights, derived from the fleet's seed
    # The extractor stays as it began, and the classifier is one linear layer on it.
    frozen: bool = False
    # The classifier is its last layer alone: layers before it belong to the extractor.
    linear_head: bool = False
    backbone: str = ""  # what devices take where nobody names one
    embedding: int = 0  # and its size
    asynchronous: bool = False  # uploads may be fused as they come
    server_needs: tuple[str, ...] = ()  # extras that `fuse` needs, e.g. "torch"
    own_width: tuple[str, ...] = ()  # parts whose rows are not as long as the fleet's embedding

    def widths(self, embedding: int, head_hidden: tuple[int, ...]) -> Widths:
        """The sizes of a network whose classifier has these hidden layers on this embedding."""
        if not self.linear_head or not head_hidden:
            return Widths(embedding, head_hidden)
        # The same layers on the other side of the cut: what the last layer reads is the embedding.
        return Widths(head_hidden[-1], neck=(embedding, *head_hidden))


def always(turn: Turn[Any]) -> bool:
    """Every round is one of exchange."""
    return True


def start_empty(turn: Turn[Any]) -> GlobalState:
    """Nothing is known before the first round."""
    return GlobalState()


def no_heads(turn: Turn[Any]) -> Mapping[str, Linear]:
    """The classifier is enough."""
    return {}


def take_nothing(turn: Turn[Any], me: Learner, state: Parts) -> None:
    """What comes back is only read, by losses and scorers."""


def no_rooms(turn: Turn[Any], ceilings: Ceilings) -> Rooms:
    """Its partial is not of sums alone: there is nothing that a mask could hide."""
    return {}


def no_phases(turn: Turn[Any], me: Learner, state: Parts) -> Sequence[Phase]:
    """No training on arrival."""
    return ()


def floats_up(turn: Turn[Any], uploads: Sequence[Parts], after: GlobalState) -> int:
    """What the devices sent, counted as most papers do."""
    return sum(count_floats(parts) for parts in uploads)


@dataclass(frozen=True)
class Recipe(Generic[H]):
    """A method. In its moves `state` is the shared state and the device's own part, as one."""

    name: str
    title: str
    hyper: type[H]
    train: Callable[[Turn[H], Learner, Parts], Sequence[Phase]]  # 1
    summarise: Callable[[Turn[H], Learner, Parts], Parts]  # 2
    fold: Callable[[Turn[H], Upload, int], Partial]  # 3a: one upload into sums and bags
    fuse: Callable[[Turn[H], Partial, GlobalState], GlobalState]  # 3b: the next state
    scorers: Callable[[Turn[H], Learner, Parts], Mapping[str, Scorer]]
    # 4, before anything else is done with it
    receive: Callable[[Turn[H], Learner, Parts], None] = take_nothing
    # 4, training on arrival
    adapt: Callable[[Turn[H], Learner, Parts], Sequence[Phase]] = no_phases
    start: Callable[[Turn[H]], GlobalState] = start_empty
    talks: Callable[[Turn[H]], bool] = always  # False: a round of local training only
    heads: Callable[[Turn[H]], Mapping[str, Linear]] = no_heads
    # what its sums may hold, so that they can be masked
    rooms: Callable[[Turn[H], Ceilings], Rooms] = no_rooms
    # a round by the paper's own count
    paper_floats: Callable[[Turn[H], Sequence[Parts], GlobalState], int] = floats_up
    traits: Traits = Traits()
    # per part, where the fleet's default does not fit
    precision: Mapping[str, Wire] = field(default_factory=dict)

    def layout(self, turn: Turn[H], shapes: Shapes, devices: int) -> Layout:
        """The numbers of a masked sum of so many devices, by the fleet's contract."""
        masks = turn.contract.masks
        if masks is None:
            raise FusionError("the fleet's contract says nothing of masked sums")
        rooms = self.rooms(turn, masks.ceilings(devices))
        if not rooms:
            raise FusionError(f"{self.name} sends more than sums: nothing of it can be masked")
        return Layout.shaped(rooms, shapes, devices)
