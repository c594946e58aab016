"""A journal on a server, and a second coordinator on another machine that waits for the first to be
gone; and the server itself, which dies and comes back.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from simulators.databases.server import PostgresServer
from simulators.faults.case import Attempt, Case, after, pause
from simulators.faults.cases.deaths import coordinator_table, draw_failpoint
from simulators.faults.cases.rivals import EXIT_SUPERSEDED
from simulators.faults.crowd import crowd
from simulators.faults.testbed import Testbed, until
from simulators.faults.verdict import PromiseBroken, judge, receipts

CONNECTED = " connected "  # in the log of a coordinator that serves
WAITING = "standing by"


def taken_over(attempt: Attempt) -> str:
    """The first dies at an instant, and the one that stood by has the fleet."""
    death = draw_failpoint("coordinator", coordinator_table(attempt), attempt.seed)
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=6)
        other = testbed.beside()
        with crowd(testbed.sites()):
            first = testbed.coordinator(death)
            until(lambda: _began(testbed) or first.process.poll() is not None, "the first one")
            second = other.coordinator(None, "--standby")
            first.dies()
            receipts(testbed)
            second.done()
    judge(other)
    return str(death)


def waited_for(attempt: Attempt) -> str:
    """The first is killed in the middle of its work, and another has stood by all the while."""
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=8)
        other = testbed.beside()
        first = testbed.coordinator()
        until(lambda: _began(testbed), "the first one")
        second = other.coordinator(None, "--standby")
        until(lambda: WAITING in second.log.read_text(), "the second one to stand by")
        with crowd(testbed.sites()):
            after(testbed, attempt.rng().randint(1, 12))
            first.kill()
            began = time.monotonic()
            until(lambda: CONNECTED in second.log.read_text(), "the second one to serve")
            seconds = time.monotonic() - began
            receipts(testbed)
            second.done()
    judge(other)
    return f"taken over after {seconds:.2f} s"


def thought_dead(attempt: Attempt) -> str:
    """The first hangs, another takes its place, and then it wakes: it writes nothing more."""
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=30)
        other = testbed.beside()
        with crowd(testbed.sites()):
            first = testbed.coordinator()
            after(testbed, attempt.rng().randint(1, 9))
            first.process.send_signal(signal.SIGSTOP)
            second = other.coordinator(None, "--take-over")
            until(lambda: CONNECTED in second.log.read_text(), "the second one to serve")
            pause(attempt.rng().choice([0.0, 0.3]))
            first.process.send_signal(signal.SIGCONT)
            code = first.ended()
            if code != EXIT_SUPERSEDED:
                raise PromiseBroken(f"the one that was thought dead ended with {code}")
            second.done()
    judge(other)
    return "it gave way"


def server_killed(attempt: Attempt) -> str:
    """The journal's server dies after so many uploads and comes back a little later."""
    rng, server = attempt.rng(), _server(attempt)
    count, seconds = rng.randint(0, 11), rng.choice([0.0, 0.5, 3.0])
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=4)
        with crowd(testbed.sites()):
            coordinator = testbed.coordinator()
            after(testbed, count)
            server.kill()
            pause(seconds)
            server.start()
            coordinator.done()
    judge(testbed)
    return f"after {count} uploads, for {seconds} s"


def _began(testbed: Testbed) -> bool:
    """Whether its coordinator has the journal."""
    return (testbed.data / "control.sock").exists()


def _server(attempt: Attempt) -> PostgresServer:
    if attempt.server is None:
        raise ValueError("a case of journals on a server")
    return attempt.server


def _case(name: str, play: Callable[[Attempt], str], soak: int) -> Case:
    return Case(name, play, soak, brokers=("mosquitto",), journals=("postgresql",))


CASES = (
    _case("standby, coordinator killed at an instant", taken_over, 17),
    _case("standby, coordinator killed", waited_for, 6),
    _case("standby, coordinator thought dead", thought_dead, 6),
    _case("journal's server killed", server_killed, 10),
)
