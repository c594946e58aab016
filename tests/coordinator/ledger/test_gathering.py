"""A ledger in which nobody reads a contribution, without a network (`tests.gathered`): it ends in
the plain one's state, whoever is lost and whoever dies.
"""

import pytest

from coordinator.service.replay import replayed
from protofleet.exchange.gathered import GROUP
from tests.contributing import arrived, message
from tests.coordinator import made
from tests.gathered import HAVE, KINDS, GatheredFleet, plain


@pytest.fixture
def fleet(tmp_path):
    fleets = []

    def begin(**how):
        fleets.append(GatheredFleet(tmp_path / f"fleet-{len(fleets)}", **how))
        for device in fleets[-1].devices.values():
            device.contributes()
        return fleets[-1]

    yield begin
    for one in fleets:
        one.close()


def test_the_state_is_the_plain_ledgers_and_the_journal_has_a_total_alone(fleet, tmp_path):
    trial = fleet()
    trial.goes_on()
    assert trial.core.keeper.ledger.agents == list(HAVE)
    assert trial.counted() == plain(tmp_path / "plain", dict.fromkeys(HAVE, 0))
    assert trial.core.keeper.tally.devices == set(HAVE)
    tables = trial.core.journal.ledger
    assert {agent for agent, _ in (*tables.bodies(), *tables.counted())} == {GROUP}
    made.agreed(trial.core)
    assert {state.verdict for state in replayed(trial.core.journal)} == {"same"}
    trial.close()
    files = [p.read_bytes() for p in (trial.folder / "journal").rglob("*") if p.is_file()]
    told = message("a", HAVE["a"])
    assert not any(told[-200:] in data or told[200:400] in data for data in files)


@pytest.mark.parametrize("step", KINDS)
def test_a_device_that_is_lost_is_in_the_total_if_its_sum_came(fleet, tmp_path, step):
    trial = fleet(lost={"b": step})
    trial.goes_on()
    for _ in range(3):
        trial.waits(61.0)
    members = [name for name in HAVE if name != "b" or step == "reveal"]
    assert trial.core.keeper.ledger.agents == members
    if step != "reveal":  # counts are of those who are there
        expected = plain(tmp_path / "plain", dict.fromkeys(members, 0))
        assert trial.counted() == expected


@pytest.mark.parametrize("crash", range(5))
def test_everybody_dies_between_two_letters(fleet, tmp_path, crash):
    trial = fleet()
    trial.goes_on(crash)
    for _ in range(2):
        trial.waits(61.0)
    assert trial.core.keeper.ledger.agents == list(HAVE)
    assert trial.counted() == plain(tmp_path / "plain", dict.fromkeys(HAVE, 0))
    assert len([one for one in trial.letters if one == ("c", "MaskedSum")]) <= 3


def test_one_or_two_that_changed_wait_for_a_third(fleet, tmp_path):
    trial = fleet()
    trial.goes_on()
    before = trial.core.keeper.ledger.digests
    for name in ("a", "b"):
        trial.devices[name].contributes(seed=7)
        trial.goes_on()
        trial.waits(200.0)
    assert trial.core.keeper.ledger.digests == before
    trial.devices["c"].contributes(seed=7)
    trial.goes_on()
    assert trial.core.keeper.ledger.digests != before
    seeds = dict.fromkeys(HAVE, 0) | dict.fromkeys(("a", "b", "c"), 7)
    assert trial.counted() == plain(tmp_path / "plain", seeds)


def test_to_forget_one_is_to_ask_all_others_anew(fleet, tmp_path):
    trial = fleet()
    trial.goes_on()
    gone, _ = trial.core.forget("b", trial.now)
    assert gone.agent == "b"
    assert trial.core.keeper.ledger.agents == []
    trial.silent.add("b")
    trial.waits(61.0)
    others = {name: 0 for name in HAVE if name != "b"}
    assert trial.core.keeper.ledger.agents == list(others)
    assert trial.counted() == plain(tmp_path / "plain", others)


def test_a_group_that_comes_to_nothing_changes_nothing_and_is_called_again(fleet):
    trial = fleet(lost={"b": "masks", "c": "masks"})
    trial.goes_on()
    trial.waits(61.0)
    assert trial.core.keeper.ledger.agents == []
    words = trial.core.log.stream.getvalue()
    assert "no masked sum for the ledger: 3 of 5 devices sent masked sums" in words
    trial.lost, trial.silent = {}, set()
    for _ in range(3):
        trial.waits(61.0)
    assert trial.core.keeper.ledger.agents == list(HAVE)


def test_what_can_be_read_is_refused(fleet):
    trial = fleet()
    said = trial.core.take([arrived("a", message("a", HAVE["a"]))], trial.now)
    assert made.receipts(said) == [("a", "refused", "masked")]


def test_classes_that_the_fleet_did_not_agree_on_stay_where_they_are(fleet):
    trial = fleet()
    device = trial.devices["a"]
    device.box.clear()
    device.contributes(names=("apple", "quince"))
    assert device.box == []
    assert "did not agree on: quince" in device.log.stream.getvalue()
