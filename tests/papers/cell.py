"""A reduced cell: a method on digits for a few seconds, so that a broken loss or fusion shows as a
number.

Expected values are what the method reaches here, with room for another machine's bits; a test that
leaves the loss or the fusion out must fall below them.
"""

from statistics import fmean

from protofleet.contract import Training
from simulators.run.config import LabConfig, Run
from simulators.run.partitions import PartitionOptions
from simulators.run.rounds import LabOptions, run
from simulators.run.setup import prepare


def accuracy(
    method: str, evaluator: str, *settings: str, rounds: int = 15, last: int = 5, **changes: object
) -> float:
    """The mean of the last rounds, over two seeds."""
    found = []
    for seed in (0, 1):
        given: dict[str, object] = {
            "dataset": "digits",
            "agents": 6,
            "partition": "dirichlet",
            "rounds": rounds,
        }
        config = LabConfig(
            Run(method=method, seed=seed, **given | changes),  # type: ignore[arg-type]
            PartitionOptions(alpha=0.3),
            Training(lr=0.03),
            settings=settings,
        )
        rows = run(prepare(config), LabOptions(), lambda row: None).rows
        found += [row.accuracy[evaluator] for row in rows[-last:]]
    return fmean(found)
