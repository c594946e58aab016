"""Devices that are let in and say what no device says."""

from __future__ import annotations

from collections import Counter
from functools import cache

from coordinator.uploads.fuse import fuse_round, start_state
from protofleet import registry
from protofleet.recipe import Turn
from protofleet.values.prototypes import Parts
from simulators.faults import extremes
from simulators.faults.case import Attempt, Case
from simulators.faults.verdict import PromiseBroken
from simulators.run.config import LabConfig, Run
from simulators.run.partitions import PartitionOptions
from simulators.run.rounds import opened
from simulators.run.setup import Setup, prepare
from simulators.run.workers import Here

# In every round all speak, and what `fleet` sends is small.
SETTINGS = {"gfpl": ("start=1", "interval=1"), "fleet": ("rank=8",)}
ADMITTED = 60  # of each method, a seed: of eighteen methods and twenty seeds more than 20,000
# Of which the uploads are: some methods say something else in the second, `grow` in the third.
ROUNDS = 3


@cache
def honest_uploads(method: str) -> tuple[Setup, list[Parts]]:
    """What the devices of a small run say."""
    run = Run(method=method, agents=4, rounds=ROUNDS, eval_every=ROUNDS + 1)
    settings = SETTINGS.get(method, ())
    setup = prepare(LabConfig(run, PartitionOptions(alpha=0.5, limit=300), settings=settings))
    crew = Here(setup, setup.agents)
    uploads: list[Parts] = []
    state = start_state(setup.recipe, Turn(setup.contract, setup.hyper, 0))
    crew.receive(0, state)
    for round in range(1, ROUNDS + 1):
        sent = [opened(setup, m) for m in crew.work(round, setup.agents).values()]
        uploads += [upload.parts for upload in sent]
        state = fuse_round(setup.recipe, Turn(setup.contract, setup.hyper, round), state, sent)
        crew.receive(round, state)
    return setup, [parts for parts in uploads if parts]


def admitted_extremes(attempt: Attempt) -> str:
    """Uploads of every method with admitted values at every extreme: states, refusals and failed
    cuts, no crash and no hang.
    """
    cuts, failed, admitted, longest = 0, Counter[str](), 0, 0.0
    for method in registry.names():
        setup, uploads = honest_uploads(method)
        if not uploads:
            continue  # `local` says nothing
        try:
            if setup.recipe.traits.frozen:
                tally = extremes.fuzz_ledger(setup, uploads, attempt.seed, ADMITTED)
            else:
                folder = attempt.folder / method
                tally = extremes.fuzz(setup, uploads, folder, attempt.seed, ADMITTED)
        except (Exception, extremes.Hanging) as error:
            raise PromiseBroken(f"{method}: {type(error).__name__}: {error}") from error
        cuts, admitted = cuts + tally.cuts, admitted + tally.admitted
        longest = max(longest, tally.longest)
        failed.update({f"{method}: {words}": count for words, count in tally.failed.items()})
    peak = extremes.peak_bytes() // 2**20
    words = f"{admitted} admitted in {cuts} cuts, {failed.total()} of them failed"
    reasons = "; ".join(f"{count} × {reason[:90]}" for reason, count in failed.most_common(3))
    return f"{words}, 0 crashes, at most {longest:.1f} s and {peak} MB {reasons}".strip()


CASES = (
    # On no broker, which the embedded one is the nearest to.
    Case(
        "liars, admitted extremes",
        admitted_extremes,
        soak=60,
        brokers=("embedded",),
        adversary=True,
    ),
)
