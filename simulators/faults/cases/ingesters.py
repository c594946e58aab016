"""`kill -9` of the processes that take uploads in, and of the coordinator beside them."""

from __future__ import annotations

from coordinator.ingestion.ingester import Ingester
from coordinator.journal import segments
from coordinator.journal.segments import SegmentLog
from simulators.faults.case import Attempt, Case
from simulators.faults.cases.deaths import COORDINATOR, Table, draw_failpoint
from simulators.faults.crowd import crowd
from simulators.faults.failpoint import ANY, Failpoint, condemn
from simulators.faults.testbed import Testbed
from simulators.faults.verdict import PromiseBroken, judge, receipts

MODULE = "coordinator.ingestion"
# How often each happens, at least, to one of two in six rounds of three devices.
INGESTER: Table = {
    Ingester._take: 3,
    Ingester._taken: 3,
    Ingester._say: 6,
    Ingester._follow: 9,
    Ingester._welcome: 3,
    SegmentLog.add: 3,
    segments._write: 3,
    ANY: 120,
}
ROUNDS, SERVE = 6, ("--ingest", "2")


def ingesters_killed(attempt: Attempt) -> str:
    """Each of two dies at an instant, and every third time a later life does, too."""
    count = 3 if attempt.seed % 3 == 2 else 2
    deaths = [draw_failpoint("coordinator", INGESTER, attempt.seed + i) for i in range(count)]
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=ROUNDS)
        words = condemn(testbed.folder / "deaths", MODULE, deaths)
        with crowd(testbed.sites()):
            testbed.coordinator(None, *SERVE, wrap=lambda command: [*words, *command]).done()
    judge(testbed)
    return f"{', then '.join(map(str, deaths))}; {_lives(testbed)} lives ended"


def coordinator_killed_beside_ingesters(attempt: Attempt) -> str:
    """It dies at an instant; its ingesters end with it."""
    death: Failpoint = draw_failpoint("coordinator", COORDINATOR_BESIDE, attempt.seed)
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=ROUNDS)
        with crowd(testbed.sites()):
            first = testbed.coordinator(death, *SERVE)
            first.ended()
            receipts(testbed)
            testbed.coordinator(None, *SERVE).done()
    judge(testbed)
    return f"{death}{'' if first.killed else ' (did not come)'}"


# Uploads are looked at elsewhere.
COORDINATOR_BESIDE: Table = {
    point: number
    for point, number in COORDINATOR.items()
    if getattr(point, "__qualname__", "") not in ("Intake.take", "Aggregator.add", "SegmentLog.add")
    and point is not segments._write
}


def _lives(testbed: Testbed) -> int:
    """How many ingesters ended while the run went on."""
    log = (testbed.folder / "coordinator.log").read_text()
    ended = log.count("an ingester ended")
    if not ended:
        raise PromiseBroken("no ingester died, so nothing was tried")
    return ended


CASES = (
    Case(
        "ingesters killed",
        ingesters_killed,
        soak=24,
        brokers=("mosquitto",),
        signed=True,
        journals=("sqlite",),
    ),
    Case(
        "coordinator killed, ingesters beside it",
        coordinator_killed_beside_ingesters,
        soak=16,
        brokers=("mosquitto",),
        signed=True,
        journals=("sqlite",),
    ),
)
