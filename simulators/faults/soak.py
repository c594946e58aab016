"""The long form: every case with many seeds, on both brokers, and a table of what came of it."""

from __future__ import annotations

import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import Prefer
from simulators.faults import smalldisk
from simulators.faults.case import Attempt, Case


@dataclass(frozen=True)
class AttemptResult:
    """One case with one seed on one broker. `wrong` is empty when every promise was kept."""

    case: str
    broker: str
    seed: int
    seconds: float
    told: str
    wrong: str = ""
    left_in: str = ""


def brokers() -> list[Prefer]:
    """Those that can be started here."""
    found: list[Prefer] = ["embedded"]
    return ["mosquitto", *found] if mosquitto.find() is not None else found


def agenda(
    cases: Sequence[Case], seeds: Sequence[int], share: float = 1.0
) -> Iterator[tuple[Case, Prefer, int]]:
    """What is to be tried; the embedded broker gets a third of the seeds."""
    for case in cases:
        for broker in brokers():
            if broker not in case.brokers or (case.root and not smalldisk.possible()):
                continue
            count = max(1, round(case.soak * share / (1 if broker == "mosquitto" else 3)))
            yield from ((case, broker, seed) for seed in (seeds or range(count)))


def tried(case: Case, broker: Prefer, seed: int, keep: bool = False) -> AttemptResult:
    """Play it once; what a failure leaves behind is kept."""
    folder, began = Path(mkdtemp(prefix="protofleet-fault-")), time.monotonic()
    told = wrong = ""
    try:
        told = case.tried(Attempt(folder, seed, broker))
    except (
        Exception
    ) as error:  # whatever it is, it is a failure of this case and not the end of the others
        wrong = f"{type(error).__name__}: {' '.join(str(error).split())}"
        (folder / "traceback").write_text(traceback.format_exc())
    if not wrong and not keep:
        shutil.rmtree(folder, ignore_errors=True)
    return AttemptResult(
        case.name,
        broker,
        seed,
        time.monotonic() - began,
        told,
        wrong,
        str(folder) if wrong or keep else "",
    )


def table(found: Sequence[AttemptResult]) -> str:
    """A line a case and broker, the sum, and how to repeat what failed."""
    rows = [f"{'case':<40} {'broker':<10} {'tried':>5} {'failures':>8} {'seconds':>8}"]
    for name, broker in dict.fromkeys((each.case, each.broker) for each in found):
        some = [each for each in found if (each.case, each.broker) == (name, broker)]
        bad = sum(bool(each.wrong) for each in some)
        rows.append(
            f"{name:<40} {broker:<10} {len(some):>5} {bad:>8} {sum(e.seconds for e in some):>8.0f}"
        )
    bad = sum(bool(each.wrong) for each in found)
    rows.append(
        f"{'in all':<40} {'':<10} {len(found):>5} {bad:>8} {sum(e.seconds for e in found):>8.0f}"
    )
    for each in found:
        if each.wrong:
            repeat = (
                f"protofleet soak --case '{each.case}' --broker {each.broker} --seed {each.seed}"
            )
            rows += [
                "",
                f"{each.wrong[:300]}",
                f"  again: {repeat}",
                f"  its files: {each.left_in}",
            ]
    return "\n".join(rows)


def run(
    cases: Sequence[Case],
    wanted: Sequence[str],
    seeds: Sequence[int],
    share: float,
    told: Callable[[AttemptResult], None],
) -> list[AttemptResult]:
    """Everything on the agenda, one after the other."""
    found = []
    for case, broker, seed in agenda(cases, seeds, share):
        if not wanted or broker in wanted:
            found.append(tried(case, broker, seed))
            told(found[-1])
    return found
