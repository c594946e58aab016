"""A method under a budget: what its devices send is bounded, what is released of it is noisy, and
after the last publication that is paid for nobody is asked any more.
"""

# Theory of operation
#
# Whose secret is kept depends on what a method does with samples, and `private` decides it:
#
#   the extractor stays (`fleet`)   one sample's. It is in one row of each sum, shortened to a norm
#   devices train (`fedproto`, …)   one device's. A sample changes a network, and with it the
#                                   features of all samples of that device, so no bound on one
#                                   sample's part holds. A device's rows are shortened, one a class
#
# A device more or less moves C rows by R each, so R √C, and as many weights by 1. That holds for
# methods whose fusion counts every device once: where a device weighs as much as it has samples its
# part has no bound that would be of use, and it is refused. So is whatever sends weights of
# networks.
#
# `fleet` publishes twice.
#
#   1  a tenth of ρ   N, Σ x, Σ ‖x‖², of features x no longer than R. From these, noise and all:
#                     a centre c, and R₂, the root of the samples' mean squared distance from it.
#                     Features have much in common, and noise is in proportion to what they are
#                     cut at; who lies farther still says in which direction
#   2  the rest       z = x − c, no longer than R₂. For each class Σ z and its count; Σ ‖z‖²; and
#                     the scatter Σ z zᵀ, whose upper triangle one sample moves by R₂² at most.
#                     That is half of ρ, and said only where the noise is known to be below it:
#                     where a direction that has a tenth of all spread would stand out of it
#
# Both are of all samples, so their ρ add up. What comes of the second is a total like any other:
#
#   M_c = Σ z / N_c + c          S from Σ z zᵀ − Σ N_c m_c m_cᵀ as `spread` says, with the trace
#   s = (Σ ‖z‖² − Σ N_c ‖m_c‖² + d σ² Σ 1/N_c) / N
#
# (noise makes means longer than they are: the last term takes that back). Counts against the total
# are not asked for: they would be a publication.
#
# What is not shortened is refused: a device's rows are held to the norm one by one; of samples
# there are only sums, so these are held to what so many samples can come to:
#
#   ‖Σ z‖ ≤ N_c R a class      Σ ‖z‖² ≤ N R²      trace of the scatter ≤ Σ ‖z‖²
#
# A device that lies within that gives its own samples away and nobody else's.
#
# Which of the two a round is goes by its number, at every device for itself, whatever the state
# says: so nobody who makes up states or rounds has the second part of ρ twice. A first publication
# that came to nothing is paid for like any other; the second is then about no centre, and of means
# alone. What a device is told of the centre is held to what a first publication can come to;
# whatever it says then, samples are cut and noise is drawn by the same length.
#
# What this does not do. The coordinator that adds the noise sees sums without it: against it masks
# are the remedy, since each device then adds its own. Whoever publishes besides (reports of
# accuracy, offers of new classes) tells more than ε says.

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from protofleet.budget.accountant import Accountant
from protofleet.budget.clipping import POINT, clipped
from protofleet.budget.noise import Sampler
from protofleet.budget.released import Mechanism, Released, sum_of_steps
from protofleet.budget.spread import RIDGE, Matrix, denoised
from protofleet.contract import Budget, Contract
from protofleet.errors import FusionError, UsageError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.masking.rooms import Ceilings, Room, Rooms
from protofleet.recipe import Learner, Recipe, Turn
from protofleet.statistics.contribution import MEANS, SCATTER, square, triangle
from protofleet.toolbox.access import find, need
from protofleet.values.prototypes import Floats, Ints, Parts, Prototypes, Tensors
from protofleet.values.sums import Partial, Sum

CENTRE, LENGTH, SUMS, OCTETS = "centre", "length", "sums", ".octets"
FIRST = 0.1  # of ρ, for the centre
STRONG = 0.1  # of all spread: the share of a direction that must be seen through the noise
_ROUNDED = 2.0**-10  # by so much half precision may lengthen a row
_SLACK = 1 + 2.0**-30  # of floats, where lengths are compared
_SOME = Ceilings(1, 1.0, 1.0, 2, 1.0)  # any that tell which sums there are, and what they weigh

Stage = Callable[[Turn[Any], GlobalState], Mechanism]
# Why parts that answer a round, on this state, are not shortened as agreed; empty if they are.
Unclipped = Callable[[Turn[Any], GlobalState, Parts], str]


@dataclass(frozen=True)
class Private:
    """A method, and what its publications cost."""

    recipe: Recipe[Any]
    stage: Stage  # what is released in a round, after this state
    accountant: Accountant
    unit: str  # whose secret is kept: one sample's, or one device's
    unclipped: Unclipped

    def noise(
        self, turn: Turn[Any], before: GlobalState, sample: Sampler, share: float = 1.0
    ) -> Partial:
        """What is added to a total before it is fused."""
        return self.stage(turn, before).noise(sample, share)

    def publications(self, turn: Turn[Any]) -> int:
        """How many there were up to this round."""
        return _talked(self.recipe.talks, turn)

    def spent(self, turn: Turn[Any]) -> float:
        """ε after this round."""
        return self.accountant.spent(self.publications(turn))


def of_contract(recipe: Recipe[Any], contract: Contract, hyper: Any) -> Private | None:
    """The method under the contract's budget, where it has one."""
    if contract.budget is None:
        return None
    return private(recipe, Turn(contract, hyper, 1), contract.budget)


def private(recipe: Recipe[Any], turn: Turn[Any], budget: Budget) -> Private:
    """The method under this budget, or one line on why there is none."""
    rooms = recipe.rooms(turn, _SOME)
    if recipe.traits.frozen and {MEANS, SCATTER} <= rooms.keys():
        return _of_samples(recipe, budget)
    if not rooms or any(room.shape is None for room in rooms.values()):
        raise UsageError(
            f"{recipe.name} sends more than means: no noise that hides it leaves anything of it",
            "--epsilon is for fleet, fedproto, protonorm, feddistill",
        )
    if any(room.weight != 1 for room in rooms.values()):
        raise UsageError(
            f"{recipe.name} weighs devices by samples: no bound on a device's part is of use then",
            "--set weighted=no",
        )
    if turn.contract.wire == "int8":
        raise UsageError(
            "wire int8 makes rows of a length that nobody can promise", "half or float32"
        )
    return _of_devices(recipe, rooms, budget)


def _of_devices(recipe: Recipe[Any], rooms: Rooms, budget: Budget) -> Private:
    times = budget.publications
    accountant = Accountant(budget, (1 / times,) * times)
    sums = {name: _of_device(room, budget.norm, 1 / len(rooms)) for name, room in rooms.items()}
    mechanism = Mechanism(sums, accountant.rho_at(1))

    def summarise(turn: Turn[Any], me: Learner, state: Parts) -> Parts:
        return _shortened(recipe.summarise(turn, me, state), rooms, budget.norm)

    def fold(turn: Turn[Any], upload: Upload, weight: int) -> Partial:
        return mechanism.widened(recipe.fold(turn, upload, _once(weight)))

    def fuse(turn: Turn[Any], total: Partial, before: GlobalState) -> GlobalState:
        narrow = _as_it_is(mechanism, turn.contract, total).narrowed(total)
        return recipe.fuse(turn, narrow, before) if total else before

    def unclipped(turn: Turn[Any], before: GlobalState, parts: Parts) -> str:
        for name in rooms:
            part = parts.get(name)
            longest = _longest(part.vectors) if isinstance(part, Prototypes) else 0.0
            if longest > budget.norm * _SLACK:
                return f"{name}: a row of length {longest:.4g} where {budget.norm:g} was agreed"
        return ""

    changed = replace(
        recipe,
        summarise=summarise,
        fold=fold,
        fuse=fuse,
        talks=_paid(recipe, times),
        rooms=lambda turn, ceilings: mechanism.rooms(),
    )
    return Private(changed, lambda turn, before: mechanism, accountant, "device", unclipped)


def _of_device(room: Room, norm: float, share: float) -> Released:
    moved = float(np.sqrt(room.rows))
    shape = room.shape or ()
    return Released(room.rows, shape, norm * moved, 0.9 * share, moved, 0.1 * share, norm)


def _of_samples(recipe: Recipe[Any], budget: Budget) -> Private:
    accountant = Accountant(budget, (FIRST, 1 - FIRST))

    def is_first(turn: Turn[Any]) -> bool:
        return _talked(recipe.talks, turn) < 2

    def middle(turn: Turn[Any], state: Parts) -> Middle:
        return _middle(state, turn.contract.embedding, budget.norm)

    def stage(turn: Turn[Any], before: GlobalState) -> Mechanism:
        fleet = turn.contract
        if is_first(turn):
            return Mechanism(_first(fleet.embedding, budget.norm), accountant.rho_at(1))
        about, rho = middle(turn, before.shared), accountant.rho_at(2)
        sums = _second(fleet.n_classes, fleet.embedding, about.norm)
        radius = 2 * Mechanism(sums, rho).scales(SCATTER)[0] * fleet.embedding**0.5
        if radius > STRONG * about.samples * about.norm**2:
            sums = _second(fleet.n_classes, fleet.embedding, about.norm, scatter=False)
        return Mechanism(sums, rho)

    def widest(turn: Turn[Any], first: bool) -> Mechanism:
        fleet = turn.contract
        if first:
            return Mechanism(_first(fleet.embedding, budget.norm), accountant.rho_at(1))
        # Nothing is farther from a centre among them than twice the norm.
        sums = _second(fleet.n_classes, fleet.embedding, 2 * budget.norm)
        return Mechanism(sums, accountant.rho_at(2))

    def summarise(turn: Turn[Any], me: Learner, state: Parts) -> Parts:
        # Who has no samples says that, in the very form of who has some.
        features = me.features()
        if is_first(turn):
            return sent_first(features.high, budget.norm)
        about, released = middle(turn, state), stage(turn, GlobalState(state)).sums
        own = sent_second(features.high - about.centre, features.labels, about.norm)
        return {SUMS: _only(need(own, SUMS, Tensors), released)}

    def fold(turn: Turn[Any], upload: Upload, weight: int) -> Partial:
        own = folded(upload.parts) if _once(weight) else {}
        whole = widest(turn, CENTRE in own)
        return replace(whole, sums={n: one for n, one in whole.sums.items() if n in own}).widened(
            own
        )

    def fuse(turn: Turn[Any], total: Partial, before: GlobalState) -> GlobalState:
        if not total:
            return before
        mechanism = _as_it_is(stage(turn, before), turn.contract, total)
        sums = mechanism.narrowed(total)
        if CENTRE in mechanism.sums:
            return GlobalState({CENTRE: centred(sums, turn.contract.embedding, budget.norm)})
        centre = middle(turn, before.shared).centre
        return recipe.fuse(turn, with_spread(sums, mechanism, centre), GlobalState())

    def unclipped(turn: Turn[Any], before: GlobalState, parts: Parts) -> str:
        norm = budget.norm if is_first(turn) else middle(turn, before.shared).norm
        return _too_long(folded(parts), stage(turn, before), norm)

    def rooms(turn: Turn[Any], ceilings: Ceilings) -> Rooms:
        return widest(turn, is_first(turn)).rooms(ceilings.samples)

    changed = replace(
        recipe,
        summarise=summarise,
        fold=fold,
        fuse=fuse,
        talks=_paid(recipe, accountant.publications),
        rooms=rooms,
        precision={**recipe.precision, CENTRE: "float32"},
    )
    return Private(changed, stage, accountant, "sample", unclipped)


@dataclass(frozen=True)
class Middle:
    """What came of the first publication: where samples lie, how far from there they are let count,
    and about how many there are.
    """

    centre: Floats
    norm: float
    samples: float


def _middle(state: Parts, width: int, norm: float) -> Middle:
    """As a state says it; none at all, where the first publication came to nothing."""
    said = find(state, CENTRE, Tensors)
    if said is None:
        return Middle(np.zeros(width, np.float32), norm, 0.0)
    centre, reach, samples = (said.arrays.get(name) for name in ("centre", "norm", "samples"))
    if centre is None or reach is None or samples is None or reach.size != 1 or samples.size != 1:
        raise FusionError("a centre, a norm and a number of samples are due")
    about = Middle(np.asarray(centre, np.float32), float(reach.item()), float(samples.item()))
    if about.centre.shape != (width,) or not 0 < about.norm <= 2 * norm * _SLACK:
        raise FusionError("a centre that no publication comes to")
    return about


def _first(width: int, norm: float) -> dict[str, Released]:
    return {
        CENTRE: Released(1, (width,), norm, 0.6, 1.0, 0.1, max(norm, 1.0)),
        LENGTH: Released(1, (), norm**2, 0.3, most=norm**2),
    }


def _second(classes: int, width: int, norm: float, *, scatter: bool = True) -> dict[str, Released]:
    entries, share = width * (width + 1) // 2, 0.4 if scatter else 0.9
    # A device rounds its scatter to the grid, where one sample may move every entry by a step.
    moved = norm**2 + float(np.sqrt(entries)) * 2.0**-POINT
    sums = {
        MEANS: Released(classes, (width,), norm, share, 1.0, 0.05, max(norm, 1.0)),
        LENGTH: Released(1, (), norm**2, 0.05, most=norm**2),
    }
    if scatter:
        sums[SCATTER] = Released(1, (entries,), moved, 0.5, most=norm**2)
    return sums


def sent_first(features: Floats, norm: float) -> Parts:
    """A device's samples, each shortened: their sum, and that of their squared lengths."""
    steps = clipped(features, norm)
    one, count = np.zeros(1, np.int64), np.array([len(steps)])
    some = slice(None if len(steps) else 0)  # no row, where nobody stands behind it
    middle = (one[some], steps.sum(0)[None][some], count[some])
    return _parts({CENTRE: middle, LENGTH: _length(steps)})


def sent_second(offsets: Floats, labels: Ints, norm: float) -> Parts:
    """A device's samples about the centre, each shortened: a sum a class, squared lengths, and the
    scatter.
    """
    steps = clipped(offsets, norm)
    classes, index, counts = np.unique(labels, return_inverse=True, return_counts=True)
    sums = np.zeros((len(classes), steps.shape[1]), np.int64)
    np.add.at(sums, index, steps)
    exact = steps * 2.0**-POINT  # products are whole numbers of 2⁻²⁴, and their sums exact
    entries = np.floor(triangle(exact.T @ exact) * 2.0**POINT).astype(np.int64)
    return _parts(
        {
            MEANS: (classes, sums, counts),
            LENGTH: _length(steps),
            SCATTER: (np.zeros(1, np.int64), entries[None], np.ones(1, np.int64)),
        }
    )


def _length(steps: Ints) -> tuple[Ints, Ints, Ints]:
    squares = ((steps * 2.0**-POINT) ** 2).sum(1) * 2.0**POINT
    one = np.zeros(1, np.int64)
    return one, np.floor(squares).astype(np.int64).sum().reshape(1, 1), one + 1


def _parts(sums: Mapping[str, tuple[Ints, Ints, Ints]]) -> Parts:
    arrays: dict[str, Ints] = {}
    for name, (keys, steps, weights) in sums.items():
        arrays |= {f"{name}.keys": keys, f"{name}.weights": weights}
        arrays[f"{name}{OCTETS}"] = _octets(steps)
    return {SUMS: Tensors(arrays)}


def _only(part: Tensors, names: Mapping[str, Released]) -> Tensors:
    """Of these sums alone."""
    arrays = part.arrays.items()
    return Tensors({name: array for name, array in arrays if name.rpartition(".")[0] in names})


def _octets(steps: Ints) -> Ints:
    """Whole numbers in no more bytes than the largest of them takes, the lowest bytes first."""
    width = max(1, (int(np.abs(steps).max(initial=0)).bit_length() + 8) // 8)
    return np.stack([(steps >> (8 * at)) & 255 for at in range(width)])


def _whole(octets: Ints) -> Ints:
    """And back, from two's complement."""
    steps = np.zeros(octets.shape[1:], np.int64)
    for at, octet in enumerate(octets):
        steps |= octet << (8 * at)
    spare = 64 - 8 * len(octets)
    signed: Ints = (steps << spare) >> spare
    return signed


def folded(parts: Parts) -> Partial:
    """From what came, checked: sums with their weights, exactly."""
    arrays = need(parts, SUMS, Tensors).arrays
    sums: dict[str, Sum] = {}
    for name in sorted({name.rpartition(".")[0] for name in arrays}):
        columns = [arrays.get(f"{name}.{of}") for of in ("keys", "weights", "octets")]
        keys, weights, octets = (np.asarray(column) for column in columns)
        whole = all(column.dtype.kind == "i" for column in (keys, weights, octets))
        if not whole or octets.ndim != 3 or not 1 <= len(octets) <= 6:
            raise FusionError(f"{SUMS}.{name}: keys, weights and octets of numbers are due")
        if keys.shape != octets.shape[1:2] or weights.shape != keys.shape:
            raise FusionError(f"{SUMS}.{name}: a key and a weight for every row are due")
        if len(keys) and (np.any(np.diff(keys) <= 0) or keys[0] < 0 or weights.min() < 1):
            raise FusionError(f"{SUMS}.{name}: rising keys, and weights from 1 up, are due")
        if octets.size and (octets.min() < 0 or octets.max() > 255):
            raise FusionError(f"{SUMS}.{name}: octets from 0 to 255 are due")
        sums[name] = sum_of_steps(keys, _whole(octets), weights)
    return sums


def centred(sums: Partial, width: int, norm: float) -> Tensors:
    """Where samples lie, and how far from there they are let count."""
    middle, length = sums.get(CENTRE), sums.get(LENGTH)
    if not isinstance(middle, Sum) or not isinstance(length, Sum) or not len(middle.keys):
        # Fewer samples than noise: no better centre than none.
        zeros, nobody = np.zeros(width, np.float32), np.array(0, np.float32)
        return Tensors({"centre": zeros, "norm": np.array(norm, np.float32), "samples": nobody})
    centre = middle.mean()[0].astype(np.float32)
    squared = float(length.total()[0]) / float(middle.weights[0]) - float((centre**2).sum())
    reach = float(np.sqrt(max(squared, 0.0)))
    reach = min(max(reach, norm / 64), 2 * norm)
    count = np.array(middle.weights[0], np.float32)
    return Tensors({"centre": centre, "norm": np.array(reach, np.float32), "samples": count})


def with_spread(sums: Partial, mechanism: Mechanism, centre: Floats) -> Partial:
    """A total of means and scatter, as `fleet` fuses it."""
    means, length, scatter = (sums.get(name) for name in (MEANS, LENGTH, SCATTER))
    if not isinstance(means, Sum) or not isinstance(length, Sum) or not len(means.keys):
        return {}
    rows, counts = means.mean(), means.weights.astype(np.float64)
    samples, width = float(counts.sum()), rows.shape[1]
    about = float(length.total()[0]) - float((counts * (rows**2).sum(1)).sum())
    about += width * mechanism.scales(MEANS)[0] ** 2 * float((1 / counts).sum())
    trace = max(about / samples, width * 2.0**-20)
    if isinstance(scatter, Sum):
        within: Matrix = square(scatter.total()[0], width)
        within = (within - (rows * counts[:, None]).T @ rows) / samples
        spread = denoised(within, mechanism.scales(SCATTER)[0] / samples, trace)
    else:
        spread = np.eye(width) * trace / width
    spread[np.diag_indices(width)] += RIDGE * trace / width
    placed = rows + centre.astype(np.float64)
    whole = spread + (placed * counts[:, None]).T @ placed / samples
    return {
        MEANS: Sum.of(means.keys, placed, means.weights),
        SCATTER: Sum.of([0], triangle(whole)[None], int(samples)),
    }


def _shortened(parts: Parts, names: Mapping[str, Any], norm: float) -> Parts:
    """Each row of these parts within the norm, as it will come over the wire."""
    short = dict(parts)
    for name in names:
        part = short.get(name)
        if isinstance(part, Prototypes):
            rows = clipped(part.vectors, norm * (1 - _ROUNDED)) * 2.0**-POINT
            short[name] = Prototypes(part.classes, rows.astype(np.float32), part.counts)
    return short


def _longest(rows: Floats | Matrix) -> float:
    return float(np.linalg.norm(np.asarray(rows, np.float64), axis=-1).max(initial=0.0))


def _too_long(sums: Partial, released: Mechanism, norm: float) -> str:
    """Why these sums are of samples that are longer, or of another publication."""
    if sums.keys() != released.sums.keys():
        return f"{SUMS}: {', '.join(sorted(released.sums))} are due"
    shapes = {name: one.low.shape[1:] for name, one in sums.items() if isinstance(one, Sum)}
    if shapes != {name: one.shape or (1,) for name, one in released.sums.items()}:
        return f"{SUMS}: rows of other sizes"
    rows, length = sums[CENTRE if CENTRE in sums else MEANS], sums[LENGTH]
    assert isinstance(rows, Sum)
    assert isinstance(length, Sum)  # they have shapes
    samples, squares = float(rows.weights.sum()), float(length.total().sum())
    far = np.linalg.norm(rows.total(), axis=1) > norm * _SLACK * rows.weights
    if far.any() or not 0 <= squares <= norm**2 * _SLACK * samples:
        return f"{SUMS}: of samples longer than the {norm:.4g} that was agreed"
    scatter = sums.get(SCATTER)
    if isinstance(scatter, Sum):
        # Each sample's squared length is rounded down by itself, the scatter as a whole.
        trace = float(np.trace(square(scatter.total()[0], rows.low.shape[1])))
        if trace > (squares + samples * 2.0**-POINT) * _SLACK:
            return f"{SUMS}: a scatter of samples longer than their squared lengths say"
    return ""


def _as_it_is(mechanism: Mechanism, contract: Contract, total: Partial) -> Mechanism:
    """With as much noise as a total may have: under masks that of all who are in it, of whom each
    added enough for the fewest of a group that may have been no larger.
    """
    some = next((one for one in total.values() if isinstance(one, Sum) and len(one.weights)), None)
    if contract.masks is None or some is None:
        return mechanism
    there = int(some.weights[0])  # each stands behind every row
    return replace(mechanism, rho=mechanism.rho * max(1, there - contract.masks.dropouts) / there)


def _once(weight: int) -> int:
    if weight != 1:
        raise FusionError("under a budget an upload counts once: no staleness")
    return weight


def _paid(recipe: Recipe[Any], publications: int) -> Callable[[Turn[Any]], bool]:
    """Whether the method talks, and there is a publication left to talk for."""
    return lambda turn: recipe.talks(turn) and _talked(recipe.talks, turn) <= publications


def _talked(talks: Callable[[Turn[Any]], bool], turn: Turn[Any]) -> int:
    """In how many rounds up to this one the method talks."""
    return sum(talks(replace(turn, round=round)) for round in range(1, turn.round + 1))
