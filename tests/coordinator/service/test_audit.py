import dataclasses
import sqlite3

import pytest

from coordinator.journal.journal import Journal
from coordinator.service.audit import audited
from protofleet.mqtt.link.events import Connected
from tests.coordinator.made import AGENTS, upload
from tests.coordinator.service.test_seals import Fleet, births, home, said

assert home  # a fixture


@pytest.fixture
def served(home, tmp_path):
    """The folder of a coordinator that took in a round and ended."""
    office, members = home
    fleet = Fleet(tmp_path, office)
    fleet.run([Connected(False, "5")], births(members))
    base = fleet.core.state.base
    fleet.run([said(members, upload(agent, 1, base)) for agent in AGENTS])
    fleet.close()
    return office, tmp_path / "data"


def findings(served):
    office, folder = served
    journal = Journal.read(folder)
    try:
        return list(audited(journal, office.registry, "orchard"))
    finally:
        journal.close()


def changed(folder, sql):
    with sqlite3.connect(folder / "journal.db") as db:
        db.execute(sql)
    db.close()


def test_every_upload_is_its_device_s_and_verified_again(served):
    made = findings(served)
    assert [(f.agent, f.round, f.verdict) for f in made] == [(a, 1, "here") for a in AGENTS]


@pytest.mark.parametrize(
    ("sql", "verdicts"),
    [
        ("UPDATE proofs SET agent='b' WHERE agent='a'", {"forged", "here", "unsigned"}),
        ("UPDATE proofs SET digest=(SELECT digest FROM proofs WHERE agent='b')", None),
        ("UPDATE proofs SET round=2", {"forged", "unsigned"}),
        ("DELETE FROM proofs WHERE agent='a'", {"here", "unsigned"}),
        ("DELETE FROM logged", {"gone"}),
    ],
)
def test_a_journal_that_was_changed_shows_it(served, sql, verdicts):
    changed(served[1], sql)
    made = findings(served)
    assert {f.verdict for f in made} == (verdicts or {"forged", "here", "unsigned"})
    assert all(f.words for f in made if f.verdict == "forged")
    assert dataclasses.asdict(made[0])["agent"]
