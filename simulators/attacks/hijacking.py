"""The feature space hijacking attack of FedMPS's section IV-H: what an eavesdropper restores from
the vectors that a device uploads, whatever its method.
"""

# Theory of operation
#
# The paper's eavesdropper reads client 1's upload (CIFAR-10, three classes a client) and may query
# that client's network. It trains a decoder on what the network answers to public images and lets
# it make images of the uploaded vectors. The paper prints a picture and a curve of the
# reconstruction loss over 10,000 steps, and concludes that nothing can be recognised.
#
# Here the same for every method of the registry:
#
# 1. The method runs in the laboratory for some rounds; the first round of exchange from there on is
#    the one that is overheard. What is attacked has passed the codec.
# 2. Which numbers an image becomes is not written down per method: the recipe is asked. Its own
#    `summarise` runs with the victim's network on public images that are handed in as one sample a
#    class. So normalised levels, mixtures, logits, and methods that nobody has thought of yet, are
#    all met by the same lines.
# 3. Parts that were taken down before training (FedPAC's statistics) are left out: they do not
#    follow from the network as it is, which is seen by handing in other samples. Weights are no
#    vectors; whoever ships them gives the network away as well, which this attacker has anyhow.
#    A method that says nothing of a class with few samples is asked with copies of each image, and
#    one that speaks of its samples only once (`fleet`) is overheard then.
# 4. Where parts have the same rows (FedMPS's levels) they are attacked one by one and together.
# 5. Public images are those that no device holds; the decoder sees no others.
#
# What one prototype tells depends on how many samples it is the mean of, which the paper does not
# vary. So beside the upload as it is (`samples` = all that the device has of a class) the same
# device's uploads with 1 and with 5 samples a class are attacked; and beside each figure stands
# what a stranger's vector of the same class and size would have given. The difference is what the
# upload told.

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from coordinator.uploads.fuse import start_state
from edge_agent.data.dataset import Ints
from edge_agent.training.agent import Agent, LocalLearner
from edge_agent.training.batches import LocalData, SampleTensors
from protofleet import wire
from protofleet.errors import DataError
from protofleet.recipe import Turn
from protofleet.util import seeds
from protofleet.values.prototypes import Floats, Mixtures, Parts, Prototypes
from simulators.attacks import decoder
from simulators.attacks.decoder import Decoder, Say
from simulators.attacks.restored import Restoration, Restored, judged
from simulators.attacks.similarity import Images
from simulators.run.config import LabConfig
from simulators.run.rounds import one_round
from simulators.run.setup import Setup, prepare
from simulators.run.workers import Here

TOGETHER = "all"
Memory = Mapping[str, Parts]
_COPIES = (1, 5, 20)
_FURTHER = 100  # rounds after the one that was asked for in which a method may still exchange


@dataclass(frozen=True)
class Hijack:
    """How much is done."""

    steps: int = 3000  # of the decoder; the paper: 10,000
    public: int = 8000  # images, of which a tenth is not trained on
    fewer: tuple[int, ...] = (1, 5)  # samples a class, beside all that there are
    uploads: int = 20  # of fewer samples
    victim: int = 1  # the paper's client 1


@dataclass(frozen=True)
class PartRestored:
    """What one part of a method's upload gave away."""

    part: str
    width: int
    loss: tuple[tuple[int, float], ...]
    by_samples: tuple[Restored, ...]  # the last is the upload as it was sent


@dataclass(frozen=True)
class MethodRestored:
    """A method: the round that was overheard, and its parts."""

    method: str
    round: int
    classes: int  # in the upload
    public: int  # images that the decoder learned from, and was looked at with
    parts: tuple[PartRestored, ...]


@dataclass(frozen=True, eq=False)
class _Way:
    """How a device is asked."""

    memory: Memory
    copies: int
    parts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Victim:
    """A device as it stood when it sent."""

    setup: Setup
    agent: Agent
    turn: Turn[Any]
    received: Parts
    upload: Parts
    before: Memory  # the method's, before this round

    @property
    def telling(self) -> tuple[str, ...]:
        """Parts of the upload that are vectors of the samples, and follow from the network as it
        is.
        """
        return self._way.parts

    @property
    def copies(self) -> int:
        """How often an image must be handed in to be spoken of."""
        return self._way.copies

    @cached_property
    def vectors(self) -> dict[str, Prototypes]:
        """Of the upload as it was sent."""
        return self._telling(_vectors(self.upload))

    def would_send(self, x: Images, y: Ints) -> dict[str, Prototypes]:
        """The vectors of its upload if these were its samples; none where it would be silent."""
        return self._telling(self._summary(x, y, self._way.memory))

    @cached_property
    def _way(self) -> _Way:
        after = {name: parts for name, parts in self.agent.checkpoint().items() if name}
        # A method that speaks once is asked as it was before it spoke; one that took statistics
        # down in training as it is after.
        for memory in (after, self.before) if _vectors(self.upload) else ():
            for copies in _COPIES:
                parts = self._varying(memory, copies)
                if parts:
                    return _Way(memory, copies, parts)
        return _Way(after, 1, ())

    def _varying(self, memory: Memory, copies: int) -> tuple[str, ...]:
        """Seen by trying: what stays as it was when samples are others was taken down before."""
        x, most = self.setup.data.x, self.setup.contract.n_classes
        labels = np.repeat(np.arange(most), copies)
        one, two = (
            self._summary(np.repeat(x[i * most :][:most], copies, 0), labels, memory)
            for i in (0, 1)
        )
        return tuple(
            name
            for name in one
            if len(one[name].classes) and not np.array_equal(one[name].vectors, two[name].vectors)
        )

    def _summary(self, x: Images, y: Ints, memory: Memory) -> dict[str, Prototypes]:
        context, contract = self.agent.context, self.setup.contract
        self.agent.network()  # puts its weights into the resident network
        empty = SampleTensors.of(x[:0], y[:0], contract.input)
        samples = LocalData(SampleTensors.of(x, y, contract.input), empty, empty)
        stepper = context.stepper(self.agent.backbone)
        learner = LocalLearner(
            self.agent.name, np.unique(y), len(y), dict(memory), stepper, samples, context
        )
        return _vectors(self.setup.recipe.summarise(self.turn, learner, self.received))

    def _telling(self, parts: Mapping[str, Prototypes]) -> dict[str, Prototypes]:
        """Those parts, and several that have the same rows as one."""
        rows = {name: parts[name] for name in self.telling if name in parts}
        first = next(iter(rows.values()), None)
        if first is None or len(rows) < 2:
            return rows
        if any(not np.array_equal(part.classes, first.classes) for part in rows.values()):
            return rows
        wide = np.concatenate([part.vectors for part in rows.values()], 1)
        return {**rows, TOGETHER: Prototypes(first.classes, wide)}


def _vectors(parts: Parts) -> dict[str, Prototypes]:
    return {
        name: part if isinstance(part, Prototypes) else Prototypes(part.classes, part.means)
        for name, part in parts.items()
        if isinstance(part, Prototypes | Mixtures)
    }


def hijacked(config: LabConfig, hijack: Hijack, say: Say) -> MethodRestored | None:
    """The attack on this method; None where it sends no vectors."""
    setup = prepare(config)
    if setup.contract.input.kind != "image":
        raise DataError("the attack restores images, and these samples are none")
    early = overheard(setup, hijack.victim, 1, say)
    if early is None or not early.telling:
        return None
    victim = overheard(setup, hijack.victim, config.run.rounds, say)
    if victim is None or not victim.telling:
        victim = early  # it speaks of its samples once, and then of other things
    public, strangers = _public(setup, hijack.public)
    say("asking the network")
    answers = _answers(victim, setup.data.x[public])
    parts = []
    for name, part in victim.vectors.items():
        learned = decoder.trained(
            answers[name],
            _pixels(setup.data.x[public]),
            hijack.steps,
            setup.contract.seed,
            lambda words, name=name: say(f"{name}: {words}"),  # type: ignore[misc]
        )
        figures = _restored(victim, name, learned, strangers, hijack)
        parts.append(PartRestored(name, part.dim, learned.curve, figures))
    first = next(iter(victim.vectors.values()))
    classes = len(np.unique(first.classes))
    return MethodRestored(setup.recipe.name, victim.turn.round, classes, len(public), tuple(parts))


def overheard(setup: Setup, number: int, rounds: int, say: Say) -> Victim | None:
    """The fleet runs up to its first exchange from this round on; None where there is none."""
    recipe = setup.recipe
    turns = (
        Turn(setup.contract, setup.hyper, round, setup.agents[number])
        for round in range(rounds, rounds + _FURTHER)
    )
    turn = next((turn for turn in turns if recipe.talks(turn)), None)
    if turn is None:
        return None
    crew = Here(setup, setup.agents)
    state = start_state(recipe, Turn(setup.contract, setup.hyper, 0))
    crew.receive(0, state)
    # Of the first exchange only the victim's part is looked at: nobody has to train before it.
    for round in range(1, turn.round) if rounds > 1 else ():
        say(f"{recipe.name}: round {round} of {turn.round}")
        state, _ = one_round(setup, crew, state, round)
    agent = crew.agents[turn.agent]
    before = {name: parts for name, parts in agent.checkpoint().items() if name}
    message = crew.work(turn.round, [turn.agent])[turn.agent]
    received = {**state.shared, **state.for_agent(turn.agent)}
    upload = wire.decode(message).body
    return Victim(setup, agent, turn, received, upload, before)


def _answers(victim: Victim, images: Images) -> Mapping[str, Floats]:
    """What each of these would be in an upload, one image a class at a time."""
    most = victim.setup.contract.n_classes
    blocks: dict[str, list[Floats]] = {}
    for start in range(0, len(images), most):
        x = images[start : start + most]
        labels = np.repeat(np.arange(len(x)), victim.copies)
        for name, part in victim.would_send(np.repeat(x, victim.copies, 0), labels).items():
            blocks.setdefault(name, []).append(part.vectors)
    return {name: np.concatenate(rows) for name, rows in blocks.items()}


def _restored(
    victim: Victim, name: str, learned: Decoder, strangers: Ints, hijack: Hijack
) -> tuple[Restored, ...]:
    """By how many samples a class stand behind the vectors; as it was sent last."""
    data = victim.setup.data
    shard = next(s for s in victim.setup.partition.shards if s.agent == victim.agent.name)
    rng = seeds.generator(victim.setup.contract.seed, "hijack", name)
    mine = {c: shard.train[data.y[shard.train] == c] for c in np.unique(data.y[shard.train])}
    theirs = {c: strangers[data.y[strangers] == c] for c in mine}
    most = {c: min(len(mine[c]), len(theirs[c])) for c in mine}
    figures = []
    for n in hijack.fewer:
        several: list[Restoration] = []
        for _ in range(hijack.uploads):
            own = {c: rng.choice(mine[c], n, replace=False) for c in mine if most[c] >= n}
            if own:
                other = {c: rng.choice(theirs[c], n, replace=False) for c in own}
                several += _one(victim, name, learned, (own, other), shard.train)
        if several:
            figures.append(judged(n, several))
    other = {c: rng.choice(theirs[c], most[c], replace=False) for c in mine if most[c]}
    whole = list(_one(victim, name, learned, (mine, other), shard.train, as_sent=True))
    figures.append(judged(round(np.mean([len(rows) for rows in mine.values()])), whole))
    return tuple(figures)


def _one(
    victim: Victim,
    name: str,
    learned: Decoder,
    rows: tuple[Mapping[int, Ints], Mapping[int, Ints]],
    everything: Ints,
    *,
    as_sent: bool = False,
) -> Iterator[Restoration]:
    """Every vector of an upload of the victim's rows, beside one of a stranger's rows."""
    x, y = victim.setup.data.x, victim.setup.data.y
    mine, theirs = rows

    def of(chosen: Mapping[int, Ints]) -> Prototypes | None:
        every = np.concatenate(list(chosen.values()))
        return victim.would_send(x[every], y[every]).get(name)

    rows_up = victim.vectors[name] if as_sent else of(mine)
    strange = of(theirs)
    if rows_up is None or strange is None:
        return  # silent
    pictures, guesses = learned.images(rows_up.vectors), learned.images(strange.vectors)
    for c, picture in zip(rows_up.classes, pictures, strict=True):
        alike = guesses[strange.classes == c]
        if len(alike):
            rest = np.setdiff1d(everything, mine[int(c)])
            yield Restoration(picture, _pixels(x[mine[int(c)]]), _pixels(x[rest]), alike[0])


def _public(setup: Setup, most: int) -> tuple[Ints, Ints]:
    """Rows that no device holds: to train the decoder on, and strangers' samples."""
    shards = setup.partition.shards
    used = np.concatenate([rows for s in shards for rows in (s.train, s.validation, s.test)])
    free = np.setdiff1d(np.arange(len(setup.data.y)), used)
    rng = seeds.generator(setup.contract.seed, "public images")
    free = rng.permutation(free)
    count = min(most, 2 * len(free) // 3)
    if count < 20:
        raise DataError(
            f"{count} images are left to the public, too few for a decoder", "a larger --public"
        )
    return free[:count], free[count:]


def _pixels(x: Any) -> Images:
    pixels: Images = np.asarray(x, np.float32) / np.float32(255)
    return pixels
