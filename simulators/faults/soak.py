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
from simulators.databases.server import PostgresServer
from simulators.faults import smalldisk
from simulators.faults.case import Attempt, Case, Journals


@dataclass(frozen=True)
class AttemptResult:
    """One case with one seed on one broker. `failure` is empty when every promise was kept."""

    case: str
    broker: str
    seed: int
    seconds: float
    words: str
    failure: str = ""
    folder: str = ""
    journal: Journals = "sqlite"


def startable_brokers() -> list[Prefer]:
    """Those that can be started here."""
    always: list[Prefer] = ["embedded"]
    return ["mosquitto", *always] if mosquitto.find() is not None else always


def agenda(
    cases: Sequence[Case],
    seeds: Sequence[int],
    share: float = 1.0,
    journal: Journals = "sqlite",
) -> Iterator[tuple[Case, Prefer, int]]:
    """What is to be tried; the embedded broker gets a third of the seeds."""
    for case in cases:
        if journal not in case.journals:
            continue
        for broker in startable_brokers():
            if broker not in case.brokers or (case.root and not smalldisk.possible()):
                continue
            # The embedded broker is for development; a third of the seeds finds what is its own.
            count = max(1, round(case.soak * share / (1 if broker == "mosquitto" else 3)))
            yield from ((case, broker, seed) for seed in (seeds or range(count)))


def run_case(
    case: Case, broker: Prefer, seed: int, server: PostgresServer | None = None
) -> AttemptResult:
    """Play it once; what a failure leaves behind is kept."""
    folder, began = Path(mkdtemp(prefix="protofleet-fault-")), time.monotonic()
    words = failure = ""
    try:
        words = case.run(Attempt(folder, seed, broker, server=server))
    except Exception as error:
        # Whatever it is, it is a failure of this case and not the end of the others.
        failure = f"{type(error).__name__}: {' '.join(str(error).split())}"
        (folder / "traceback").write_text(traceback.format_exc())
    if not failure:
        shutil.rmtree(folder, ignore_errors=True)
    return AttemptResult(
        case.name,
        broker,
        seed,
        time.monotonic() - began,
        words,
        failure,
        str(folder) if failure else "",
        "sqlite" if server is None else "postgresql",
    )


def table(results: Sequence[AttemptResult]) -> str:
    """A line a case and broker, the sum, and how to repeat what failed."""
    rows = [f"{'case':<40} {'broker':<10} {'tried':>5} {'failures':>8} {'seconds':>8}"]
    for name, broker in dict.fromkeys((result.case, result.broker) for result in results):
        some = [result for result in results if (result.case, result.broker) == (name, broker)]
        rows.append(_summed(name, broker, some))
    rows.append(_summed("in all", "", results))
    for result in results:
        if result.failure:
            only = f"--case '{result.case}' --broker {result.broker} --seed {result.seed}"
            only += "" if result.journal == "sqlite" else f" --journal {result.journal}"
            rows += [
                "",
                f"{result.failure[:300]}",
                f"  again: protofleet soak {only}",
                f"  its files: {result.folder}",
            ]
    return "\n".join(rows)


def _summed(case: str, broker: str, results: Sequence[AttemptResult]) -> str:
    failures = sum(bool(result.failure) for result in results)
    seconds = sum(result.seconds for result in results)
    return f"{case:<40} {broker:<10} {len(results):>5} {failures:>8} {seconds:>8.0f}"


def run(
    cases: Sequence[Case],
    brokers: Sequence[str],
    seeds: Sequence[int],
    share: float,
    report: Callable[[AttemptResult], None],
    server: PostgresServer | None = None,
) -> list[AttemptResult]:
    """Everything on the agenda, one after the other; with journals on a server, if there is one."""
    results = []
    journal: Journals = "sqlite" if server is None else "postgresql"
    for case, broker, seed in agenda(cases, seeds, share, journal):
        if not brokers or broker in brokers:
            results.append(run_case(case, broker, seed, server))
            report(results[-1])
    return results
