"""What must be true of a run after anything that may happen to it, and what of one in which nobody
was lost.
"""

# Theory of operation
#
# `docs/faults.md` makes four promises. Whatever a case did to a fleet, its end is judged by what
# lies on disk, journal and devices' stores, and by nothing that a process says of itself:
#
#     promise                               held by
#     what has a receipt is in the journal  `_receipts_hold`: every device's outbox, upload by
#                                           upload, by digest
#     no upload is fused twice              `_once`: over all cuts together
#     the state follows from the schedule   `_sound`: the coordinator's own replay of its journal
#                                           `_by_schedule`: fake agents, driven by the schedule
#     the fleet goes on by itself           the last round has a state, and none is missing
#
# The third is the sharp one. A fake agent's upload is drawn from a hash of all it was ever given
# (`fake_agent.py`). A round that was trained twice, on a wrong state or from a checkpoint that was
# lost changes that hash and so every state after it; no other check would see it. Replay and
# schedule are not the same: a replay folds the uploads that are in the journal, the schedule makes
# them anew.
#
# Where nobody was lost (`whole`), the final state must be that of a fleet to which nothing ever
# happened. A case that loses devices or lets rounds close without them cannot ask for that.
#
# `receipts` is asked in the middle of a case, right after a coordinator has died and before the
# next one may repair anything. It looks at stores that their devices have open, hence read only.

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from coordinator.errors import JournalError
from coordinator.journal.journal import Journal
from coordinator.journal.records import UploadRecord
from coordinator.service.build import agreed
from coordinator.service.replay import replayed
from edge_agent.records import NoStore
from edge_agent.store import Store
from protofleet.errors import FleetError
from simulators.faults.fake_agent import FakeAgent, prototypes
from simulators.faults.testbed import RUN, Testbed
from simulators.live import schedule

RECEIPTED = ("accepted", "duplicate", "late")


class PromiseBroken(FleetError):
    """A promise was not kept."""

    code = "broken-promise"


def judge(testbed: Testbed, *, whole: bool = True) -> str:
    """The final state's hash, if every promise was kept; `whole`: nobody was lost, so it is the
    undisturbed run's.
    """
    journal = Journal.read(testbed.data)
    try:
        _sound(journal)
        _once(journal)
        _receipts_hold(testbed, journal)
        _by_schedule(testbed, journal)
        rounds, hashes = journal.rounds(), journal.state_hashes()
    finally:
        journal.close()
    if not rounds or rounds[-1].round != testbed.rounds or journal_gap(hashes, testbed.rounds):
        raise PromiseBroken(f"the run ended in round {max(hashes, default=0)} of {testbed.rounds}")
    final = hashes[testbed.rounds]
    if whole and final != undisturbed(testbed):
        raise PromiseBroken(
            f"nobody was lost, but the state is {final[:12]} and not {undisturbed(testbed)[:12]}"
        )
    return final


def journal_gap(hashes: dict[int, str], rounds: int) -> bool:
    """Whether a round is without its state."""
    return set(hashes) != set(range(rounds + 1))


def undisturbed(testbed: Testbed) -> str:
    """The hash that the testbed's fleet ends in when nothing happens."""
    from protofleet import registry

    recipe, contract = registry.load("fedproto"), testbed.contract()
    plan = schedule.undisturbed(recipe, contract, recipe.hyper(), testbed.names, testbed.rounds)
    devices = {name: FakeAgent(name, prototypes(contract)) for name in testbed.names}
    return schedule.follow(recipe, contract, recipe.hyper(), plan, devices)[testbed.rounds]


def _sound(journal: Journal) -> None:
    wrong = [f"round {r.round} {r.verdict}" for r in replayed(journal) if r.verdict != "same"]
    if wrong:
        raise PromiseBroken(f"a replay comes to other states: {', '.join(wrong)}")


def _once(journal: Journal) -> None:
    counted = Counter(
        (round, agent)
        for o in journal.rounds()
        if (cut := journal.cut(o.round))
        for round, agent, _ in cut.counted
    )
    twice = [upload for upload, count in counted.items() if count > 1]
    if twice:
        raise PromiseBroken(f"fused twice: {twice}")


def receipts(testbed: Testbed) -> None:
    """What has a receipt now is in the journal now, as it was left by a coordinator that has just
    died.
    """
    time.sleep(0.1)  # for receipts that are still on their way
    try:
        journal = Journal.read(testbed.data)
    except JournalError:
        return  # it died before there was one
    try:
        _receipts_hold(testbed, journal)
    except JournalError as error:  # it died between two steps of its tables
        if "no such table" not in str(error):
            raise
    finally:
        journal.close()


def _receipts_hold(testbed: Testbed, journal: Journal) -> None:
    for agent in testbed.names:
        for round, digest, status in remembered(testbed.home(agent)):
            recorded = journal.upload(round, agent)
            if status in RECEIPTED and (
                recorded is None or not _holds(journal, recorded, digest, status)
            ):
                raise PromiseBroken(
                    f"{agent} has a receipt ({status}) for round {round}, "
                    "which the journal does not hold"
                )


def _holds(journal: Journal, recorded: UploadRecord, digest: str, status: str) -> bool:
    """Whether what is recorded is what the receipt is for. Of a masked sum nobody knows the digest;
    a receipt says that it is in the cut's total, or came too late.
    """
    if agreed(journal)[0].masks is None:
        return recorded.digest == digest
    cut = journal.cut(recorded.round)
    counted = () if cut is None else cut.counted
    return status == "late" or any(agent == recorded.agent for _, agent, _ in counted)


def remembered(folder: Path) -> list[tuple[int, str, str]]:
    """Round, digest and status of every upload that a device remembers."""
    try:
        store = Store(folder, read_only=True)
    except NoStore:
        return []
    try:
        return store.outcomes(RUN)
    finally:
        store.close()


def _by_schedule(testbed: Testbed, journal: Journal) -> None:
    contract, recipe, hyper = agreed(journal)
    devices = {name: FakeAgent(name, prototypes(contract)) for name in testbed.names}
    plan, noise = schedule.read(journal), schedule.noise_in(journal)
    states = schedule.follow(recipe, contract, hyper, plan, devices, noise)
    for round, recorded in journal.state_hashes().items():
        if states[round] != recorded:
            raise PromiseBroken(
                f"round {round} ended in {recorded[:12]}, "
                f"the laboratory by its schedule in {states[round][:12]}"
            )
