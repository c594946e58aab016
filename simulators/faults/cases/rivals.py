"""A second coordinator, started by mistake: at most one may go on, and the fleet's run ends with
it.

Two that both got in are told apart on mosquitto only: the embedded broker leaves the first of two
connections of one name open and deaf, so that one neither goes on nor learns why.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from coordinator.journal.database import holds_journal
from coordinator.service.control import NotRunning, ask
from simulators.faults.case import Attempt, Case, after
from simulators.faults.crowd import crowd
from simulators.faults.testbed import CaseProcess, Testbed, until
from simulators.faults.verdict import PromiseBroken, judge

# Exit codes are part of what is promised: a service manager must be able to tell "another one has
# the fleet" (do not restart me) from any other failure.
EXIT_LOCKED, EXIT_SUPERSEDED = 1, 4


def same_directory(attempt: Attempt) -> str:
    """The same command twice: the lock says so at once."""
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=30)
        with crowd(testbed.sites()):
            first = testbed.coordinator()
            after(testbed, attempt.rng().randint(0, 6))
            until(lambda: holds_journal(testbed.data), "the first one's journal")
            with _at_rest(testbed):
                _refused(testbed.coordinator(), EXIT_LOCKED)
            first.done()
    judge(testbed)
    return "refused by the lock"


def another_directory(attempt: Attempt) -> str:
    """A fresh directory while one serves: refused, because the broker keeps the first one's
    word.
    """
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=30)
        other = testbed.beside()
        with crowd(testbed.sites()):
            first = testbed.coordinator()
            after(testbed, max(1, attempt.rng().randint(0, 6)))
            with _at_rest(testbed):
                _refused(other.coordinator(), EXIT_SUPERSEDED)
            first.done()
    judge(testbed)
    return "refused by the word on the broker"


def taken_over(attempt: Attempt) -> str:
    """A copy of the directory is started elsewhere: it has the newer epoch, and the first one
    stops.
    """
    with attempt.broker() as broker:
        # So slowly that it is not over when the copy has started: at rest, the copy would be, too.
        testbed = attempt.testbed(str(broker.address), rounds=20, serve={"every": 0.5})
        other = testbed.beside()
        with crowd(testbed.sites()):
            first = testbed.coordinator()
            after(testbed, attempt.rng().randint(1, 9))
            shutil.copytree(
                testbed.data,
                other.data,
                # What belongs to a living process is not copied, as a backup would not.
                ignore=shutil.ignore_patterns("control.sock", "lock", "*-shm"),
            )
            second = other.coordinator()
            code = first.ended()
            if code != EXIT_SUPERSEDED:
                raise PromiseBroken(
                    f"the first coordinator ended with {code} and did not notice the second"
                )
            second.done()
    judge(replace(other, agents=testbed.agents))
    return "the copy took over"


def both_at_once(attempt: Attempt) -> str:
    """Two fresh directories at the same moment: neither sees a word of the other yet; one of them
    gives way.
    """
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=4)
        other = testbed.beside()
        with crowd(testbed.sites()):
            pair = [(testbed, testbed.coordinator()), (other, other.coordinator())]
            until(
                lambda: all(coordinator.process.poll() is not None for _, coordinator in pair),
                "both to end",
            )
    winners = [where for where, coordinator in pair if coordinator.process.returncode == 0]
    codes = sorted(int(coordinator.process.returncode) for _, coordinator in pair)
    if codes != [0, EXIT_SUPERSEDED]:
        raise PromiseBroken(f"two coordinators at once ended with {codes}")
    judge(winners[0])
    return "one gave way"


@contextmanager
def _at_rest(testbed: Testbed) -> Iterator[None]:
    """No run ends while a second coordinator starts, on however slow a machine: one that came too
    late would find nobody there, and be right to go on.
    """

    def told() -> bool:
        with suppress(NotRunning):  # it has a journal before it can be asked anything
            ask(testbed.data, "pause")
            return True
        return False

    until(told, "the first one to pause")
    yield
    ask(testbed.data, "resume")


def _refused(second: CaseProcess, code: int) -> None:
    ended_with = second.ended(20)
    if ended_with != code:
        raise PromiseBroken(f"a second coordinator ended with {ended_with} and not {code}")


# Of a journal on a server there is one, whoever has another directory: see `standbys`.
OWN: dict[str, Any] = {"journals": ("sqlite",)}
ALONE: dict[str, Any] = {**OWN, "brokers": ("mosquitto",)}
CASES = (
    Case("second coordinator, same directory", same_directory, soak=2),
    Case("second coordinator, another directory", another_directory, soak=3, **OWN),
    Case("second coordinator, a copy", taken_over, soak=4, **ALONE),
    Case("second coordinator, at the same moment", both_at_once, soak=6, **ALONE),
)
