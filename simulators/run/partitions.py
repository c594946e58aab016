"""Who holds what: one pool of samples dealt out to a fleet of devices, by a seed and by a rule of
the literature.

`few_shot` keeps the set's own training and test rows apart (FedProto's protocol); every other kind
deals out the whole pool and lets each device split its own share 75/25 per class (PFLlib's
protocol). No sample is ever held twice.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from edge_agent.data.dataset import DataSet, Ints, rows_by_class, stratified
from protofleet.errors import DataError, UsageError
from protofleet.settings.fields import setting
from protofleet.util.seeds import generator

TEST_SHARE = 0.25
VALIDATION_SHARE = 0.1
DIRICHLET_TRIES = 1000
DOMAINS = 8  # four quarter turns, each as it is and inverted

Part = Literal["train", "validation", "test"]
_PARTS: tuple[Part, ...] = ("train", "validation", "test")


@dataclass(frozen=True)
class PartitionOptions:
    """How data is dealt out; a kind reads what concerns it."""

    ways: int = setting(3, "few-shot: classes a device, on average", low=1)
    spread: int = setting(2, "few-shot: classes a device vary by this, shots by one less", low=0)
    shots: int = setting(100, "few-shot: training samples a class", low=1)
    shot_spread: int | None = setting(
        None, "few-shot: shots vary by this; none: by one less than classes", low=0
    )
    test_shots: int = setting(15, "few-shot: test samples a class", low=1)
    alpha: float = setting(0.1, "dirichlet: the lower, the fewer classes a device holds", low=0.001)
    min_samples: int = setting(10, "dirichlet: every device has at least so many samples", low=1)
    balance: Literal["yes", "no"] = setting(
        "yes", "dirichlet: a device that has an equal share of the whole gets no more"
    )
    classes_per_agent: int = setting(2, "pathological: classes a device", low=1)
    pairs: Literal["random", "consecutive"] = setting(
        "random",
        "pathological: which classes go together: drawn, or in order, the same for many devices",
    )
    shares: Literal["equal", "unequal"] = setting(
        "equal", "pathological: a class's holders have as much of it, or anything up to that"
    )
    validation: float | None = setting(
        None,
        "share of the training part (few-shot: of what the shots leave); none: 0.1, few-shot all",
        low=0,
        high=1,
    )
    limit: int | None = setting(
        None, "use only so many samples of the whole set (not few-shot)", low=1
    )


@dataclass(frozen=True, eq=False)
class Shard:
    """One device's rows of the set; `domain` says whose look they have, or which one `apply_domain`
    gives them.
    """

    agent: str
    train: Ints
    validation: Ints
    test: Ints
    domain: int | None = None


@dataclass(frozen=True, eq=False)
class Partition:
    """The whole fleet's shards."""

    kind: str
    shards: tuple[Shard, ...]

    def table(self, y: Ints, n_classes: int, part: Part | None = None) -> npt.NDArray[np.int64]:
        """Samples per device and class [agents, classes], of one part or of all three."""
        parts = _PARTS if part is None else (part,)
        rows_of = [np.concatenate([getattr(shard, p) for p in parts]) for shard in self.shards]
        return np.stack([np.bincount(y[rows], minlength=n_classes) for rows in rows_of])

    def to_plain(self, y: Ints, classes: Sequence[str]) -> dict[str, Any]:
        """What a report says of it: per device its classes and how many samples of each part."""
        agents: dict[str, Any] = {}
        for shard, counts in zip(self.shards, self.table(y, len(classes)), strict=True):
            names = [name for name, count in zip(classes, counts, strict=True) if count]
            agents[shard.agent] = {"classes": names} | {p: len(getattr(shard, p)) for p in _PARTS}
            if shard.domain is not None:
                agents[shard.agent]["domain"] = shard.domain
        return {"kind": self.kind, "agents": agents}


def make(kind: str, data: DataSet, agents: int, seed: int, options: PartitionOptions) -> Partition:
    """A partition of any kind; the same seed and options give the same one."""
    kinds = {
        "few-shot": few_shot,
        "dirichlet": dirichlet,
        "pathological": pathological,
        "iid": iid,
        "feature-skew": feature_skew,
    }
    if kind not in kinds:
        raise UsageError(f"partition {kind!r} is not one of {', '.join(kinds)}")
    if agents < 1:
        raise UsageError(f"{agents} agents: at least one is due")
    return kinds[kind](data, agents, seed, options)


def given(
    data: DataSet, rows_of: Sequence[Ints], seed: int, options: PartitionOptions
) -> Partition:
    """Each device holds the rows that somebody chose for it, and tests on a quarter of them."""
    for agent, rows in enumerate(rows_of):
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise UsageError(f"partition: the rows of {_name(agent)} are no list of whole numbers")
        if rows.size and (rows.min() < 0 or rows.max() >= len(data.y)):
            raise UsageError(
                f"partition: {_name(agent)} has rows beyond the {len(data.y)} there are"
            )
    everyone = np.concatenate([*rows_of, np.zeros(0, np.int64)])
    if len(np.unique(everyone)) != len(everyone):
        raise UsageError("partition: a row is held twice", "each sample is one device's")
    return _dealt("given", data, rows_of, seed, options)


def few_shot(data: DataSet, agents: int, seed: int, options: PartitionOptions) -> Partition:
    """Few classes a device, few samples a class; one number of shots per device (FedProto)."""
    shots, n_classes = options.shots, len(data.classes)
    low, high = max(2, options.ways - options.spread), min(n_classes, options.ways + options.spread)
    if options.limit is not None:
        raise UsageError(
            "limit: few-shot counts samples a class", "set shots and test_shots instead"
        )
    if low > high:
        raise DataError(
            f"{data.name}: {low} classes a device are due, the set has {n_classes}", "lower ways"
        )
    jitter = max(options.spread - 1, 0) if options.shot_spread is None else options.shot_spread
    holders: list[list[int]] = [[] for _ in range(n_classes)]
    shots_of = []
    # Who holds what is drawn as FedProto's code draws it, so that its seed (1234) gives the papers'
    # own devices.
    ways = np.random.RandomState(seed).randint(low, high + 1, agents)
    draw = random.Random(seed)
    for agent in range(agents):
        for label in draw.sample(range(n_classes), int(ways[agent])):
            holders[label].append(agent)
        rng = generator("partition", "few-shot", seed, agent)
        shots_of.append(int(rng.integers(max(1, shots - jitter), shots + jitter + 1)))
    # A tenth more than its shots, rounded up, is reserved for a device and class: 110 where shots
    # are 100.
    block = max(shots - (-shots // 10), shots + jitter)
    blocks = _blocks(data, seed, "training", holders, block)
    tests = _blocks(data, seed, "test", holders, options.test_shots)
    share = 1.0 if options.validation is None else options.validation
    shards = []
    for agent, k in enumerate(shots_of):
        end = k + int(share * (block - k) + 0.5)
        train = np.concatenate([rows[:k] for rows in blocks[agent]])
        checked = np.concatenate([rows[k:end] for rows in blocks[agent]])
        shards.append(Shard(_name(agent), train, checked, np.concatenate(tests[agent])))
    return Partition("few-shot", tuple(shards))


def dirichlet(data: DataSet, agents: int, seed: int, options: PartitionOptions) -> Partition:
    """Each class is dealt out by proportions drawn from Dir(alpha)."""
    pool = _pool(data, seed, options.limit)
    sizes = [len(rows) for rows in pool]
    rng = generator("partition", "dirichlet", seed, "proportions")
    for _ in range(DIRICHLET_TRIES):
        counts = _proportions(rng, sizes, agents, options)
        # A device with one sample of each class would have nothing to be tested on.
        if counts.sum(1).min() >= options.min_samples and counts.max(1).min() >= 2:
            cuts = np.cumsum(counts, axis=0)[:-1]  # [agents − 1, classes]
            pieces = [np.split(rows, cuts[:, c]) for c, rows in enumerate(pool)]
            rows_of = [np.concatenate([of_class[a] for of_class in pieces]) for a in range(agents)]
            return _dealt("dirichlet", data, rows_of, seed, options)
    raise DataError(
        f"{data.name}: no draw of {DIRICHLET_TRIES} gave each of {agents} devices "
        f"{options.min_samples} samples of {sum(sizes)} at alpha {options.alpha:g}",
        "a larger alpha, fewer agents or a smaller min_samples would",
    )


def pathological(data: DataSet, agents: int, seed: int, options: PartitionOptions) -> Partition:
    """Each device holds exactly so many classes, drawn or in order; a class's samples are shared
    equally or not.
    """
    pool = _pool(data, seed, options.limit)
    classes_per_agent = options.classes_per_agent
    if classes_per_agent > len(pool):
        words = f"{classes_per_agent} classes a device are due, the set has {len(pool)}"
        raise DataError(f"{data.name}: {words}", "lower classes_per_agent")
    if options.pairs == "consecutive":
        holders = classes_in_order(len(pool), agents, classes_per_agent)
    else:
        holders = _classes_at_random(len(pool), agents, classes_per_agent, seed)
    pieces_of: list[list[Ints]] = [[] for _ in range(agents)]
    for label, (rows, by) in enumerate(zip(pool, holders, strict=True)):
        if len(rows) < len(by):
            words = f"class {data.classes[label]!r} has {len(rows)} samples for {len(by)} devices"
            raise DataError(
                f"{data.name}: {words}", "fewer agents or classes_per_agent, or a larger limit"
            )
        if by:
            equal = options.shares == "equal"
            counts = (
                _equal_shares(len(rows), len(by))
                if equal
                # A name of their own: equal shares leave the other draws as they are.
                else unequal_shares(
                    generator("partition", "pathological", seed, "shares", label),
                    len(rows),
                    len(by),
                    least=options.min_samples / len(pool),
                )
            )
            for agent, piece in zip(by, np.split(rows, np.cumsum(counts)[:-1]), strict=True):
                pieces_of[agent].append(piece)
    return _dealt(
        "pathological", data, [np.concatenate(pieces) for pieces in pieces_of], seed, options
    )


def _classes_at_random(n_classes: int, agents: int, of_each: int, seed: int) -> list[list[int]]:
    """Each class's devices: every device draws among the classes that fewest hold."""
    rng = generator("partition", "pathological", seed, "classes")
    holders: list[list[int]] = [[] for _ in range(n_classes)]
    for agent in rng.permutation(agents):
        # The least held classes first, in random order where equally held.
        order = np.lexsort((rng.random(n_classes), np.array([len(by) for by in holders])))
        for label in order[:of_each]:
            holders[label].append(int(agent))
    return holders


def classes_in_order(n_classes: int, agents: int, of_each: int) -> list[list[int]]:
    """Each class's devices as PFLlib's generator has them: class by class, the first devices with
    room, so that 20 devices with two of ten classes are four with {0, 1}, four with {2, 3}, ...
    """
    room = np.full(agents, of_each)
    holders = []
    for _ in range(n_classes):
        open_to = np.flatnonzero(room)[: math.ceil(agents / n_classes * of_each)]
        room[open_to] -= 1
        holders.append(open_to.tolist())
    return holders


def _equal_shares(samples: int, holders: int) -> npt.NDArray[np.int64]:
    return np.array([len(piece) for piece in np.array_split(np.arange(samples), holders)])


def unequal_shares(
    rng: np.random.Generator, samples: int, holders: int, least: float
) -> npt.NDArray[np.int64]:
    """How many of a class's samples its devices get: all but the last an even draw of up to the
    mean, the last what is left (PFLlib's generator).
    """
    mean = int(samples / holders)
    # Where a class is so small that the bound is above the mean, every share is the mean.
    low = min(int(max(samples / holders / 10, least, 1)), mean)
    counts = rng.integers(low, max(mean, low + 1), holders - 1)
    return np.append(counts, samples - counts.sum()).astype(np.int64)


def iid(data: DataSet, agents: int, seed: int, options: PartitionOptions) -> Partition:
    """Every device holds the same share of every class."""
    return _dealt("iid", data, _even(_pool(data, seed, options.limit), agents), seed, options)


def feature_skew(data: DataSet, agents: int, seed: int, options: PartitionOptions) -> Partition:
    """One domain a device, all classes in each: the set's own domains, else turned and inverted
    images.
    """
    pool = _pool(data, seed, options.limit)
    own = data.domains
    if own is None and (data.input.kind != "image" or data.input.shape[0] != data.input.shape[1]):
        raise DataError(
            f"{data.name}: no domains, and none can be made", "only square images can be turned"
        )
    n_domains = DOMAINS if own is None else len(data.domain_names)
    order = generator("partition", "feature-skew", seed, "domains").permutation(n_domains)
    domains = [int(order[agent % n_domains]) for agent in range(agents)]
    if own is None:
        rows_of = _even(pool, agents)
    else:
        rows_of = [np.empty(0, np.int64)] * agents
        for domain in set(domains):
            members = [agent for agent in range(agents) if domains[agent] == domain]
            shares = _even([rows[own[rows] == domain] for rows in pool], len(members))
            for agent, rows in zip(members, shares, strict=True):
                rows_of[agent] = rows
    partition = _dealt("feature-skew", data, rows_of, seed, options)
    names = [shard.agent for shard in partition.shards]
    if own is not None:
        names = _called_after([data.domain_names[domain] for domain in domains])
    shards = (
        replace(shard, agent=name, domain=domain)
        for shard, name, domain in zip(partition.shards, names, domains, strict=True)
    )
    return replace(partition, shards=tuple(sorted(shards, key=lambda shard: shard.agent)))


def _called_after(domains: Sequence[str]) -> list[str]:
    """A camera's samples are its own under one name, in folders as in results: names that a live
    fleet would take, with a number where several devices share a domain.
    """
    plain = [
        re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip("._-")[:50] or "device" for name in domains
    ]
    numbers: dict[str, int] = {}
    names = []
    for name in plain:
        numbers[name] = numbers.get(name, 0) + 1
        names.append(name if plain.count(name) == 1 else f"{name}-{numbers[name]}")
    return names


def apply_domain(x: npt.NDArray[np.uint8], domain: int) -> npt.NDArray[np.uint8]:
    """Images [N, H, W, C] as domain 0 … 7 sees them: turned by so many quarters, inverted from 4
    on; 0 as they are.
    """
    turned = np.rot90(x, domain % 4, axes=(1, 2))
    return np.ascontiguousarray(255 - turned if domain >= 4 else turned)


def _name(agent: int) -> str:
    return f"agent-{agent:02d}"


def _pool(data: DataSet, seed: int, limit: int | None) -> list[Ints]:
    """The rows of each class, shuffled; with a limit the first of each, so that shares of classes
    stay.
    """
    rng = generator("partition", "pool", seed)
    pool = [rng.permutation(rows) for rows in rows_by_class(data.y, len(data.classes))]
    if limit is None:
        return pool
    if limit > len(data.y):
        raise DataError(
            f"{data.name}: limit {limit} is more than its {len(data.y)} samples",
            "lower it or leave it out",
        )
    exact = np.array([len(rows) for rows in pool]) * limit / len(data.y)
    counts = exact.astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: limit - counts.sum()]] += (
        1  # to the largest remainders
    )
    return [rows[:count] for rows, count in zip(pool, counts, strict=True)]


def _even(pool: Sequence[Ints], agents: int) -> list[Ints]:
    rows = np.concatenate(
        pool
    )  # sorted by class: dealing round and round gives everyone the same of each
    return [rows[agent::agents] for agent in range(agents)]


def _proportions(
    rng: np.random.Generator, sizes: Sequence[int], agents: int, options: PartitionOptions
) -> npt.NDArray[np.int64]:
    """How many samples of each class each device gets [agents, classes]."""
    counts = np.zeros((agents, len(sizes)), np.int64)
    for label, size in enumerate(sizes):
        drawn = rng.dirichlet(np.full(agents, options.alpha))
        # As in PFLlib and NIID-Bench: who already has an equal share of the pool gets no more.
        below = counts.sum(1) < sum(sizes) / agents
        open_to = drawn * below if options.balance == "yes" else drawn
        shares = open_to if open_to.sum() > 0 else drawn
        ends = np.rint(np.cumsum(shares) / shares.sum() * size).astype(np.int64)
        counts[:, label] = np.diff(ends, prepend=0)
    return counts


def _blocks(
    data: DataSet,
    seed: int,
    part: Literal["training", "test"],
    holders: Sequence[Sequence[int]],
    size: int,
) -> Mapping[int, list[Ints]]:
    """Per device one block of `size` rows for each class it holds, no row in two blocks."""
    first, last = (0, data.n_train) if part == "training" else (data.n_train, len(data.y))
    of_class = [first + rows for rows in rows_by_class(data.y[first:last], len(data.classes))]
    missing = [len(by) * size - len(rows) for by, rows in zip(holders, of_class, strict=True)]
    worst = int(np.argmax(missing))
    if missing[worst] > 0:
        words = (
            f"{len(holders[worst])} devices need {size} each, the set has {len(of_class[worst])}"
        )
        short = f"class {data.classes[worst]!r} is {missing[worst]} {part} samples short"
        raise DataError(
            f"{data.name}: {short} ({words})",
            f"lower agents, ways or {'shots' if part == 'training' else 'test_shots'}",
        )
    blocks: dict[int, list[Ints]] = {agent: [] for by in holders for agent in by}
    for label, by in enumerate(holders):
        rows = generator("partition", "few-shot", seed, part, label).permutation(of_class[label])
        for place, agent in enumerate(by):
            blocks[agent].append(rows[place * size : (place + 1) * size])
    return blocks


def _dealt(
    kind: str, data: DataSet, rows_of: Sequence[Ints], seed: int, options: PartitionOptions
) -> Partition:
    """Each device's rows split into test (a quarter of each class), validation and train."""
    share = VALIDATION_SHARE if options.validation is None else options.validation
    shards = []
    for agent, rows in enumerate(rows_of):
        if len(rows) < 2 or np.bincount(data.y[rows]).max() < 2:
            words = (
                f"{_name(agent)} would have {len(rows)} samples, too few to train and to test on"
            )
            raise DataError(f"{data.name}: {words}", "use fewer agents or more samples")
        rng = generator("partition", "split", seed, agent)
        train, test = stratified(data.y[rows], TEST_SHARE, rng)
        rest, checked = stratified(data.y[rows[train]], share, rng)
        shards.append(Shard(_name(agent), rows[train[rest]], rows[train[checked]], rows[test]))
    return Partition(kind, tuple(shards))
