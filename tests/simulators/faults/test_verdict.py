"""The verdict sees every promise that is broken: on files of one real run, damaged anew."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from coordinator.journal.journal import Journal
from simulators.faults import soak
from simulators.faults.case import Attempt
from simulators.faults.crowd import crowd
from simulators.faults.verdict import PromiseBroken, judge, receipts, remembered, undisturbed


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A testbed whose fleet has run to its end, undisturbed."""
    attempt = Attempt(tmp_path_factory.mktemp("v"), 0, soak.startable_brokers()[0])
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), agents=2, rounds=2)
        with crowd(testbed.sites()):
            testbed.coordinator().done()
    return testbed


@pytest.fixture
def testbed(finished, tmp_path):
    """The same files, to be damaged."""
    ignored = shutil.ignore_patterns("control.sock", "lock")
    shutil.copytree(finished.folder, tmp_path / "fleet", ignore=ignored)
    return replace(finished, folder=tmp_path / "fleet")


def change(database, sql, *values):
    with closing(sqlite3.connect(database)) as db, db:
        assert db.execute(sql, values).rowcount != 0


def test_a_run_that_nothing_happened_to_keeps_every_promise(testbed):
    assert judge(testbed) == undisturbed(testbed)
    receipts(testbed)


def test_a_receipt_without_an_upload_in_the_journal_is_seen(testbed):
    store = testbed.home(testbed.names[0]) / "agent.db"
    change(store, "UPDATE outbox SET digest = 'other' WHERE round = 2")
    for look in (judge, receipts):
        with pytest.raises(PromiseBroken, match=r"has a receipt \(accepted\) for round 2"):
            look(testbed)


def test_an_upload_without_a_receipt_promises_nothing(testbed):
    store = testbed.home(testbed.names[0]) / "agent.db"
    change(store, "UPDATE outbox SET digest = 'other', status = 'waiting' WHERE round = 2")
    assert judge(testbed)


def test_a_fleet_that_did_not_come_to_its_end_is_seen(testbed):
    with pytest.raises(PromiseBroken, match="the run ended in round 2 of 3"):
        judge(replace(testbed, rounds=3), whole=False)


def test_a_run_in_which_somebody_was_lost_is_not_the_undisturbed_one(testbed):
    more = replace(testbed, agents=3)
    assert judge(more, whole=False)
    with pytest.raises(PromiseBroken, match="nobody was lost, but the state is"):
        judge(more)


def test_a_device_that_never_ran_remembers_nothing(tmp_path):
    assert remembered(tmp_path / "nowhere") == []


def test_what_a_device_remembers_is_what_it_delivered(testbed):
    journal = Journal.read(testbed.data)
    digests = {(upload.agent, upload.round): upload.digest for upload in journal.uploads()}
    journal.close()
    for agent in testbed.names:
        rows = remembered(testbed.home(agent))
        assert [status for _, _, status in rows] == ["accepted", "accepted"]
        assert all(digest == digests[agent, round] for round, digest, _ in rows)
