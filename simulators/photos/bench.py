"""`protofleet bench photos`: what a fleet knows of photographs, beside simpler rules on the same
features.
"""

# How it is measured
#
# A third of each class and domain is held back and never learned from. The fixed rules (nearest
# mean, cosine, discriminants at each ρ of the grid) know the fleet's exact means and its whole
# covariance; the best ρ is picked for them on the very photographs they are tested on, which nobody
# in the field can do. Ours is what a live fleet would come to: contributions of the default rank,
# shrinkage and temperature by the devices' own samples left out.
#
# A new class is each class in turn, five photographs of it from any device, and once more all five
# from one device: (new, others before, others after). Unknown things are each class in turn,
# learned by nobody; false alarms are held back photographs of the classes that were learned.

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from protofleet.statistics.closed_form import SHRINKAGE, Moments, basis
from protofleet.statistics.contribution import RANK, Grid, bytes_of, rank_within
from protofleet.statistics.knowledge import Knowledge
from protofleet.values.prototypes import Floats, Ints
from simulators.photos.learning import LearnedFleet, enrolled, learned, moved, rows_of
from simulators.photos.measures import auroc, calibration_error, harmonic
from simulators.photos.photographs import ALL, HoldOut, Photographs, share, split, without

SHOTS = (1, 5, 20, 100, ALL)
PHOTOS, DRAWS = 5, 3
Say = Callable[[str], None]
Table = dict[str, float]


@dataclass(frozen=True)
class PhotosOptions:
    """What is run."""

    splits: int = 5
    shots: tuple[int, ...] = SHOTS
    classes: int | None = None  # how many are the new and the unknown one in turn; none: each
    largest: int | None = None  # bytes of a contribution; none: the default rank


@dataclass(frozen=True, eq=False)
class PhotosBench:
    """The document."""

    accuracy: dict[str, Table] = field(default_factory=dict)
    unseen: Table = field(default_factory=dict)
    new_class: dict[str, Table] = field(default_factory=dict)
    several: dict[str, Table] = field(default_factory=dict)
    unknown: Table = field(default_factory=dict)
    calibration_error: float = float("nan")
    suspects: Table = field(default_factory=dict)
    bytes: Table = field(default_factory=dict)


def bench_photos(photographs: Photographs, options: PhotosOptions, say: Say) -> PhotosBench:
    """Everything, mean over splits; the later sections on the first one."""
    grid = Grid.over(float(np.abs(photographs.features).max()))
    width, classes = photographs.features.shape[1], len(photographs.classes)
    rank = RANK if options.largest is None else rank_within(options.largest, classes, width)
    accuracy: dict[str, Table] = {}
    errors = []
    for shots in options.shots:
        tables = []
        for seed in range(options.splits):
            say(f"{shots or 'all'} labels a class and domain, split {seed + 1}")
            parts = split(photographs, seed, shots)
            fleet = learned(photographs, rows_of(photographs, parts), grid, rank)
            tables.append(_fixed(photographs, parts) | _ours(photographs, parts, fleet))
            if shots == max(options.shots, key=lambda n: n or np.inf):
                errors.append(_error(photographs, parts, fleet.knowledge))
        accuracy[str(shots or "all")] = _mean(tables)
    parts = split(photographs, 0, ALL)
    rows = rows_of(photographs, parts)
    new, several, unknown = _newcomers(photographs, parts, rows, grid, rank, options, say)
    say("suspects")
    return PhotosBench(
        accuracy,
        _unseen(photographs, parts, rows, grid, rank, say),
        new,
        several,
        unknown,
        float(np.mean(errors)),
        _suspects(photographs, rows, grid, rank),
        {
            "up": float(bytes_of(classes, width, rank, max(map(len, rows.values())))),
            "down": float(4 * classes * (width + 1)),
        },
    )


def _fixed(photographs: Photographs, parts: HoldOut) -> Table:
    """Rules with one setting, by the fleet's exact sums."""
    x, y = photographs.features.astype(np.float64), photographs.labels
    train, test = parts.train, parts.test
    classes, counts = np.unique(y[train], return_counts=True)
    at = np.searchsorted(classes, y[train])
    means = np.stack([x[train][at == i].mean(0) for i in range(len(classes))])
    off = x[train] - means[at]
    exact = basis(Moments(classes, counts.astype(float), means, off.T @ off / len(train)))
    near = (means**2).sum(1) - 2 * x[test] @ means.T
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    table = {
        "nearest": share(classes[near.argmin(1)] == y[test]),
        "cosine": share(classes[(x[test] @ unit.T).argmax(1)] == y[test]),
    }
    by_shrinkage = []
    for shrinkage in SHRINKAGE:
        white = exact.whitened(shrinkage)
        rows, points = white.of(means), white.of(x[test])
        far = (rows**2).sum(1) - 2 * points @ rows.T
        by_shrinkage.append(share(classes[far.argmin(1)] == y[test]))
    named = {f"discriminant {s:g}": a for s, a in zip(SHRINKAGE, by_shrinkage, strict=True)}
    return table | named


def _ours(photographs: Photographs, parts: HoldOut, fleet: LearnedFleet) -> Table:
    labels = fleet.knowledge.labels(photographs.features[parts.test])
    return {
        "fleet": share(labels == photographs.labels[parts.test]),
        "shrinkage": fleet.knowledge.choice.shrinkage,
        "temperature": fleet.knowledge.choice.temperature,
    }


def _error(photographs: Photographs, parts: HoldOut, knowledge: Knowledge) -> float:
    x = photographs.features[parts.test]
    right = knowledge.labels(x) == photographs.labels[parts.test]
    return calibration_error(knowledge.calibration.probability(knowledge.scores(x)), right)


def _unseen(
    photographs: Photographs, parts: HoldOut, rows: dict[int, Ints], grid: Grid, rank: int, say: Say
) -> Table:
    """Each domain in turn had no part in it."""
    x, y, plain, aligned = photographs.features, photographs.labels, [], []
    for domain in rows:
        say(f"unseen: {photographs.domain_names[domain]}")
        others = {d: at for d, at in rows.items() if d != domain}
        fleet = learned(photographs, others, grid, rank)
        test = parts.test[photographs.domains[parts.test] == domain]
        plain.append(share(fleet.knowledge.labels(x[test]) == y[test]))
        everyone = x[np.concatenate(list(others.values()))]
        shifted = moved(x[test], x[rows[domain]], everyone)
        aligned.append(share(fleet.knowledge.labels(shifted) == y[test]))
    return {"plain": float(np.mean(plain)), "aligned": float(np.mean(aligned))}


def _newcomers(
    photographs: Photographs,
    parts: HoldOut,
    rows: dict[int, Ints],
    grid: Grid,
    rank: int,
    options: PhotosOptions,
    say: Say,
) -> tuple[dict[str, Table], dict[str, Table], Table]:
    """Each class in turn: unknown first, then enrolled from a few photographs."""
    x, y = photographs.features, photographs.labels
    labels = range(len(photographs.classes))[: options.classes]
    tables: list[Table] = []
    alone: list[Table] = []
    near, unknown = [], []
    for label in labels:
        say(f"new: {photographs.classes[label]}")
        others = {d: without(photographs, at, label) for d, at in rows.items()}
        fleet = learned(photographs, others, grid, rank)
        test, theirs = parts.test[y[parts.test] == label], without(photographs, parts.test, label)
        odd, usual = (-fleet.knowledge.scores(x[at]).max(1) for at in (test, theirs))
        unknown.append(
            {
                "auroc": auroc(odd.astype(float), usual.astype(float)),
                "false_alarms": share(fleet.knowledge.unknown(x[theirs])),
                "rejected": share(fleet.knowledge.unknown(x[test])),
            }
        )
        before = share(fleet.knowledge.labels(x[theirs]) == y[theirs])
        simple = _nearest(x, y, np.concatenate(list(others.values())), theirs)
        for draw in range(DRAWS):
            photos = _drawn(photographs, parts, label, draw, one=False)
            for into, five in (
                (tables, photos),
                (alone, _drawn(photographs, parts, label, draw, one=True)),
            ):
                after = enrolled(fleet, photographs, others, five, grid, rank)
                into.append(
                    {
                        "new": share(after.labels(x[test]) == label),
                        "others_before": before,
                        "others_after": share(after.labels(x[theirs]) == y[theirs]),
                    }
                )
            learnt = np.concatenate([*others.values(), photos])
            near.append(
                {
                    "new": _nearest(x, y, learnt, test),
                    "others_before": simple,
                    "others_after": _nearest(x, y, learnt, theirs),
                }
            )
    rules = {"fleet": tables, "nearest": near, "fleet_one_device": alone}
    new = {name: _with_harmonic(_mean(rule)) for name, rule in rules.items()}
    return new, _several(photographs, parts, rows, grid, rank, options, say), _mean(unknown)


def _several(
    photographs: Photographs,
    parts: HoldOut,
    rows: dict[int, Ints],
    grid: Grid,
    rank: int,
    options: PhotosOptions,
    say: Say,
) -> dict[str, Table]:
    """Two and three new classes at once."""
    x, y = photographs.features, photographs.labels
    found: dict[str, Table] = {}
    for many in (2, 3):
        tables = []
        if len(photographs.classes) <= many + 1:
            continue
        for draw in range(DRAWS):
            say(f"{many} new classes at once, draw {draw + 1}")
            rng = np.random.default_rng(1000 * many + draw)
            fresh = rng.choice(len(photographs.classes), many, replace=False)
            others = {d: at[~np.isin(y[at], fresh)] for d, at in rows.items()}
            others = {d: at for d, at in others.items() if len(at)}
            fleet = learned(photographs, others, grid, rank)
            photos = np.concatenate(
                [_drawn(photographs, parts, int(c), draw, one=False) for c in fresh]
            )
            after = enrolled(fleet, photographs, others, photos, grid, rank)
            newcomers = np.isin(y[parts.test], fresh)
            test, theirs = parts.test[newcomers], parts.test[~newcomers]
            tables.append(
                {
                    "new": share(after.labels(x[test]) == y[test]),
                    "others_before": share(fleet.knowledge.labels(x[theirs]) == y[theirs]),
                    "others_after": share(after.labels(x[theirs]) == y[theirs]),
                }
            )
        found[str(many)] = _with_harmonic(_mean(tables))
    return found


def _suspects(photographs: Photographs, rows: dict[int, Ints], grid: Grid, rank: int) -> Table:
    """Two classes of one device swapped, every device and up to seven pairs; and none swapped."""
    from protofleet.statistics.closed_form import moments
    from protofleet.statistics.contribution import contribution, fold
    from protofleet.statistics.suspects import suspects
    from protofleet.values.sums import merge_all

    x, y = photographs.features, photographs.labels
    own = {d: contribution(x[at], y[at], grid, rank) for d, at in rows.items()}
    named = swapped = false = pairs = 0
    for domain, at in rows.items():
        rest = moments(merge_all(fold(one, grid) for d, one in own.items() if d != domain))
        if rest is None:
            continue
        white = basis(rest).whitened(1.0)
        false += len(suspects(own[domain], white))
        labels = np.unique(y[at])
        pairs += len(labels)
        rng = np.random.default_rng(domain)
        for _ in range(min(7, len(labels) // 2 * (len(labels) - 1))):
            one, two = rng.choice(labels, 2, replace=False)
            wrong = np.where(y[at] == one, two, np.where(y[at] == two, one, y[at]))
            labelled = {each.label for each in suspects(contribution(x[at], wrong, grid, 0), white)}
            named += len(labelled & {int(one), int(two)})
            swapped += 2
    return {
        "named": named / max(swapped, 1),
        "swapped": float(swapped),
        "false": float(false),
        "of": float(pairs),
    }


def _drawn(photographs: Photographs, parts: HoldOut, label: int, draw: int, *, one: bool) -> Ints:
    """Photographs of a class that may be learned from: any, or those of one device."""
    rng = np.random.default_rng(100 * label + draw)
    rows = parts.train[photographs.labels[parts.train] == label]
    if one:
        domains = np.unique(photographs.domains[rows])
        rows = rows[photographs.domains[rows] == rng.choice(domains)]
    photos: Ints = rng.permutation(rows)[:PHOTOS]
    return photos


def _nearest(x: Floats, y: Ints, train: Ints, test: Ints) -> float:
    classes = np.unique(y[train])
    means = np.stack([x[train][y[train] == c].mean(0) for c in classes]).astype(np.float64)
    far = (means**2).sum(1) - 2 * x[test].astype(np.float64) @ means.T
    return share(classes[far.argmin(1)] == y[test])


def _mean(tables: Sequence[Table]) -> Table:
    return {name: float(np.mean([table[name] for table in tables])) for name in tables[0]}


def _with_harmonic(table: Table) -> Table:
    return table | {"harmonic": harmonic(table["new"], table["others_after"])}


def best_fixed(table: Table) -> tuple[str, float]:
    """The best of the rules with one setting."""
    rules = {n: a for n, a in table.items() if n not in ("fleet", "shrinkage", "temperature")}
    name = max(rules, key=lambda n: rules[n])
    return name, rules[name]


def document(found: PhotosBench, options: PhotosOptions) -> dict[str, Any]:
    """As `--json` prints it; `discriminant` is the one of the best ρ, picked on the tests."""
    accuracy = {}
    for shots, table in found.accuracy.items():
        by_shrinkage = {n: a for n, a in table.items() if n.startswith("discriminant")}
        accuracy[shots] = {n: a for n, a in table.items() if n not in by_shrinkage} | {
            "discriminant": max(by_shrinkage.values()),
            "by_shrinkage": {n.split()[1]: a for n, a in by_shrinkage.items()},
        }
    return {
        "accuracy": accuracy,
        "unseen": found.unseen,
        "new_class": found.new_class,
        "several_new_classes": found.several,
        "unknown": found.unknown,
        "calibration_error": found.calibration_error,
        "suspects": found.suspects,
        "bytes": found.bytes,
        "splits": options.splits,
    }
