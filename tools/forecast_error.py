"""How far off "ten more would bring" is: `tools/forecast_error.py --data DIR --extractor X.pfb`.

Each domain a device with so many labelled photos of every class, a third of its photos held back;
the other devices have as many. What the device forecasts for each class is held against what ten
photos more of that class do to it, on the photos held back; and so is "nothing changes".
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from protofleet.statistics.closed_form import Moments, head, moments
from protofleet.statistics.contribution import RANK, Grid, contribution, fold
from protofleet.statistics.counts import count
from protofleet.statistics.forecast import MORE, forecast
from protofleet.statistics.held_out import Samples
from protofleet.values.sums import merge_all
from simulators.photos.features import embedder
from simulators.photos.photographs import ALL, embedded, split

LEAST = 5  # photos held back of a class, below which a share says nothing


def main() -> None:
    """A line for each number of labels."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--extractor", type=Path, required=True)
    parser.add_argument("--keep", type=Path, help="a folder for features")
    parser.add_argument("--labels", default="3,5,10,20")
    parser.add_argument("--seeds", type=int, default=5)
    words = parser.parse_args()
    seen = embedded(words.data, embedder(words.extractor, words.keep, lambda at, of: None))
    grid = Grid.over(float(np.abs(seen.features).max()))
    print("labels  classes  right now  off    brought  forecast  off    off if nothing changed")
    for labels in map(int, words.labels.split(",")):
        rows = np.array([r for s in range(words.seeds) for r in _seed(seen, grid, s, labels)])
        now, gain, told, gained = rows.T
        print(
            f"{labels:>6}  {len(rows):>7}  {100 * now.mean():>8.1f}  "
            f"{100 * np.abs(told - now).mean():>4.1f}  {100 * gained.mean():>+8.2f}  "
            f"{100 * gain.mean():>+8.2f}  {100 * np.abs(gain - gained).mean():>4.1f}  "
            f"{100 * np.abs(gained).mean():>6.1f}",
            flush=True,
        )


def _seed(seen, grid, seed, labels):
    """Of each device and class: accuracy, forecast gain, forecast accuracy, gain."""
    x, y = seen.features, seen.labels
    parts, rng = split(seen, seed, ALL), np.random.default_rng([seed, labels])
    pools = [rng.permutation(parts.of(seen, d)) for d in range(len(seen.domain_names))]
    firsts = [_first(y, pool, labels) for pool in pools]
    own = [contribution(x[at], y[at], grid, RANK) for at in firsts]
    folded = [fold(one, grid) for one in own]
    whole = moments(merge_all(folded))
    for device, at in enumerate(firsts):
        samples = Samples.of(x[at], y[at], own[device], grid)
        choice = count(whole, samples).choice
        if choice is None:
            continue
        test = parts.test[seen.domains[parts.test] == device]
        told = {one.label: one for one in forecast(whole, samples, choice.shrinkage)}
        now = _right(whole, choice, x[test])
        others = [part for other, part in enumerate(folded) if other != device]
        for label, one in told.items():
            of = y[test] == label
            more = np.setdiff1d(pools[device][y[pools[device]] == label], at)[:MORE]
            if of.sum() < LEAST or len(more) < MORE:
                continue
            later = np.concatenate([at, more])
            grown = moments(
                merge_all([*others, fold(contribution(x[later], y[later], grid, RANK), grid)])
            )
            before = float((now[of] == label).mean())
            after = float((_right(grown, choice, x[test][of]) == label).mean())
            yield before, one.gain, one.accuracy, after - before


def _first(y, pool, labels):
    return np.concatenate([pool[y[pool] == label][:labels] for label in np.unique(y[pool])])


def _right(of: Moments, choice, features):
    rows = head(of, choice.shrinkage, choice.distance)
    return rows.classes[(features @ rows.weight.T + rows.bias).argmax(1)]


if __name__ == "__main__":
    sys.exit(main())
