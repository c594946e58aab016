"""A live ledger without a network: whatever the order, the crashes and the restarts, it ends in one
state, which is the laboratory's.
"""

import itertools
import json
import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from coordinator.config import LedgerSection
from coordinator.errors import JournalError
from coordinator.journal.sqlite import SqliteDatabase
from coordinator.ledger import keeper
from coordinator.uploads.fuse import fuse_round
from protofleet import registry
from protofleet.errors import SettingError, UsageError
from protofleet.exchange import contributed, learned
from protofleet.exchange.archive import BundleError
from protofleet.exchange.contributed import Claim
from protofleet.exchange.published import About, Bank
from protofleet.exchange.state import GlobalState, Upload
from protofleet.recipe import Turn
from protofleet.settings.fields import to_plain
from protofleet.statistics import contribution, counts
from protofleet.statistics.held_out import Samples
from protofleet.values import sums
from protofleet.values.prototypes import Prototypes
from protofleet.wire import Envelope
from tests.contributing import FLEET as FLEET_NAME
from tests.contributing import GRID, LINEAGE, arrived, counted, message, read, samples
from tests.coordinator.made import (
    CONTRACT,
    banks,
    birth,
    frozen,
    ledger,
    packed_bundle,
    receipts,
    totals,
)
from tests.working import steps

FLEET = {"a": ("apple", "plum"), "b": ("plum", "apple", "pear"), "c": ("pear", "apple")}
SETTLED = 20.0  # seconds after which all that is to be counted against was offered


def said(made, agents=FLEET, now=1.0, **more):
    return made.take([arrived(a, message(a, FLEET[a], **more)) for a in agents], now)


def settled(made, now=1.0):
    """Everything is published, offered, counted and published again."""
    publications = made.take([], now + SETTLED)
    for total in totals(publications) or totals(made.greetings()):
        if total:
            agents = [a for a in FLEET if made.keeper.ledger.of(a)]
            made.take([arrived(a, counted(a, FLEET[a], total)) for a in agents], now + SETTLED)
    made.take([], now + 2 * SETTLED)
    return made.state.sha256


def laboratory(agents=FLEET):
    """The same contributions and counts as rounds of the recipe."""
    names, recipe = ("plum", "apple", "pear"), registry.load("fleet")
    contract = replace(CONTRACT, classes=names)
    state, turns = GlobalState(), [Turn(contract, recipe.hyper(), n) for n in (1, 2)]
    own = {}
    for agent in agents:
        features, labels = samples(FLEET[agent])
        y = np.array([names.index(name) for name in FLEET[agent]])[labels]
        own[agent] = features, y, contribution.contribution(features, y, GRID)
    parts = {a: contribution.parts_of(one) for a, (_, _, one) in own.items()}
    state = fuse_round(recipe, turns[0], state, [Upload(a, 1, "", p) for a, p in parts.items()])
    parts = {
        a: counts.parts_of(counts.count(learned.moments(state.shared), Samples.of(*have)))
        for a, have in own.items()
    }
    return fuse_round(recipe, turns[1], state, [Upload(a, 2, "", p) for a, p in parts.items()])


def test_ten_shuffled_starts_end_in_the_laboratorys_state(tmp_path):
    hashes = set()
    for start in range(10):
        rng, made = random.Random(start), ledger(tmp_path / str(start))
        now, order = 1.0, [(a, s) for a in FLEET for s in ({1, 0} if rng.random() < 0.5 else {0})]
        order = sorted(order, key=lambda pair: (-pair[1], rng.random()))  # the newest is said last
        for agent, seed in order:
            now += rng.random() * 15
            made.take([arrived(agent, message(agent, FLEET[agent], seed))], now)
        hashes.add(settled(made, now))
        made.journal.close()
    assert hashes == {laboratory().sha256}


def test_what_is_contributed_is_published_with_the_names_that_are_shown(tmp_path):
    made = ledger(tmp_path)
    publications = said(made)
    assert receipts(publications) == [(agent, "accepted", "") for agent in FLEET]
    bank = banks(publications)[-1]
    assert bank.about.classes == ("plum", "apple", "pear")
    assert (bank.about.lineage, bank.kind) == (LINEAGE, "head")
    assert len(bank.about.bundle) == 64
    assert bank.about.calibration.usual is None
    # Each class's own mean is most like it.
    for place, name in enumerate(bank.about.classes):
        mean = samples([name], number=50)[0].mean(0)
        assert (bank.points.weight @ mean + bank.points.bias).argmax() == place
    assert made.base_round == 1
    assert banks(made.greetings()) == [bank]


def test_nothing_is_said_when_nothing_changed(tmp_path):
    made = ledger(tmp_path)
    said(made)
    publications = said(made, now=2.0)
    assert receipts(publications) == [(agent, "accepted", "") for agent in FLEET]
    assert len(publications) == len(FLEET)
    assert made.take([], 3.0) == []
    assert made.keeper.number == 1


def test_changes_within_an_interval_are_published_together(tmp_path):
    made = ledger(tmp_path, rules=LedgerSection(interval=5.0, settle=60.0))
    assert not banks(said(made, "a", now=1.0))
    assert not banks(said(made, "bc", now=4.0))
    assert len(banks(made.take([], 5.0))) == 1
    assert (made.keeper.number, made.keeper.version.devices) == (1, 3)


def test_no_round_ever_opens_and_devices_hear_what_is_in_the_contract(tmp_path):
    made = ledger(tmp_path, classes=())
    made.take([birth(agent) for agent in "abc"], 1.0)
    made.take([], 500.0)
    assert made.journal.rounds() == []
    (announcement,) = [p for p in made.greetings() if p.topic.endswith("/g/round")]
    assert not [p for p in made.greetings() if p.topic.endswith("/g/train")]
    body = contributed.wire.decode(announcement.payload).body
    assert (body["phase"], body["hyper"]["minimum"], body["hyper"]["rank"]) == ("closed", 5, 256)


def test_counts_calibrate_the_total_that_they_were_counted_against(tmp_path):
    made = ledger(tmp_path)
    said(made)
    (total,) = totals(made.take([], SETTLED))
    bank = banks(made.greetings())[0]
    assert (bank.about.asked, bank.about.total) == (1.0, contributed.read_total(total)[0].total)
    made.take([arrived("a", counted("a", FLEET["a"], total))], 21.0)
    assert made.keeper.version.knowledge.calibration.samples == 0  # the others are waited for
    said_last = [arrived(a, counted(a, FLEET[a], total)) for a in "bc"]
    publications = made.take(said_last, 22.0)
    assert receipts(publications) == [("b", "accepted", ""), ("c", "accepted", "")]
    calibration = banks(publications)[-1].about.calibration
    assert (calibration.samples, calibration.current) == (42, True)
    assert made.take([*said_last], 23.0)[2:] == []
    # A change: the earlier counts go on, and are said not to be of this total.
    publications = said(made, "a", now=30.0, seed=3)
    calibration = banks(publications)[-1].about.calibration
    assert (calibration.samples, calibration.current) == (42, False)
    assert banks(publications)[-1].about.asked == 0
    assert receipts(made.take([said_last[0]], 31.0)) == [("b", "accepted", "")]
    (newer,) = totals(made.take([], 30.0 + SETTLED))
    assert receipts(made.take([said_last[0]], 51.0)) == [("b", "refused", "wrong-base")]
    made.take([arrived("b", counted("b", FLEET["b"], newer))], 52.0)
    made.take([], 62.0)  # the others take too long
    calibration = made.keeper.version.knowledge.calibration
    assert (calibration.samples, calibration.current) == (18, True)


def test_who_counts_is_drawn_by_name_and_nobody_else_is_heard(tmp_path):
    made = ledger(tmp_path, rules=LedgerSection(interval=0.0, settle=10.0, asked=1))
    said(made)
    (total,) = totals(made.take([], SETTLED))
    assert banks(made.greetings())[0].about.asked == pytest.approx(1 / 3)
    for agent, names in FLEET.items():
        code = "" if made.keeper.offered.is_for(agent) else "not-asked"
        answer = receipts(made.take([arrived(agent, counted(agent, names, total))], 21.0))
        assert [reason for *_, reason in answer] == [code]
    assert 0 < sum(made.keeper.offered.is_for(str(n)) for n in range(600)) / 600 < 0.5


def test_a_growing_fleet_counts_before_it_stands_still(tmp_path):
    made, now, offered = ledger(tmp_path), 1.0, []
    for n in range(24):
        now += 2.0
        payload = message(f"d{n}", ("apple", "plum"), n)
        publications = made.take([arrived(f"d{n}", payload)], now)
        offered += [n] * len(totals(publications))
    # Never more often than every ten seconds, and each time a quarter more than before.
    assert offered == [5, 11, 17, 23]


@pytest.mark.parametrize("restarted", [False, True])
def test_forgotten_is_as_if_it_had_never_been_there(tmp_path, restarted):
    made, never = ledger(tmp_path / "made"), ledger(tmp_path / "never")
    said(never, "ac")
    settled_without = settled(never)
    said(made)
    made.take([arrived("b", message("b", ["owl"], source="owl")), birth("b")], 2.0)
    settled(made)
    if restarted:
        made.journal.close()
        made = ledger(tmp_path / "made")
    gone, publications = made.forget("b", 60.0)
    assert (gone.contributions, gone.after) == (2, made.state.sha256)
    assert gone.before != gone.after
    bank = banks(publications)[-1]
    assert bank.about.calibration.samples == 0
    assert totals(publications) == [b""]  # it was in what was counted against
    assert bank.about.classes == ("plum", "apple", "pear")
    assert "b" not in made.devices
    assert made.keeper.version.total == never.keeper.version.total
    assert settled(made, 60.0) == settled_without == laboratory("ac").sha256


@pytest.mark.parametrize("dies_at", range(1, 9))
def test_a_crash_at_any_commit_ends_in_the_same_state(tmp_path, dies_at):
    made, commits, real = ledger(tmp_path), itertools.count(1), None

    def dying():
        if next(commits) == dies_at:
            raise KeyboardInterrupt
        return real()

    real, made.journal.commit = made.journal.commit, dying
    receipted, now = set(), 1.0
    for _ in range(4):
        try:
            for agent in FLEET:
                for who, status, _ in receipts(said(made, agent, now)):
                    assert status == "accepted"
                    receipted.add(who)
            state = settled(made, now)
            break
        except KeyboardInterrupt:
            made.journal.close()
            made, now = ledger(tmp_path), now + 100
            assert receipted <= set(made.keeper.ledger.agents)
    assert state == laboratory().sha256


def test_a_write_that_failed_leaves_the_ledger_where_the_journal_is(tmp_path):
    made = ledger(tmp_path)
    said(made, "a")
    real, before = made.journal.commit, made.keeper.ledger

    def full():
        raise keeper_error("disk full")

    from coordinator.errors import JournalError as keeper_error

    made.journal.commit = full
    with pytest.raises(keeper_error):
        said(made, "b", 2.0)
    made.journal.commit = real
    made.recover(3.0)
    assert made.keeper.ledger is before  # nothing was added up again
    said(made, "bc", 4.0)
    assert settled(made, 4.0) == laboratory().sha256


def test_a_class_that_waits_counts_in_the_sums_and_is_shown_once_admitted(tmp_path):
    made = ledger(tmp_path, enrol="manual")
    publications = said(made)
    assert receipts(publications) == [
        ("a", "accepted", ""),
        ("b", "accepted", "not-shown"),
        ("c", "accepted", "not-shown"),
    ]
    owl = arrived("a", message("a", ["owl"], source="owl"))
    assert receipts(made.take([owl], 2.0)) == [("a", "waiting", "not-shown")]
    bank = banks(made.greetings())[0]
    assert (bank.about.classes, bank.points.classes.tolist()) == (("plum", "apple"), [0, 1])
    assert made.classes("list", {}, 2.0)[0]["waiting_by"] == {"pear": "b", "owl": "a"}
    before = made.state.sha256
    _, publications = made.classes("admit", {"name": "pear"}, 3.0)
    assert banks(publications)[0].about.classes == ("plum", "apple", "pear")
    assert made.state.sha256 == before == made.keeper.version.state.sha256


def test_rename_remove_and_back_concern_what_is_shown_alone(tmp_path):
    made = ledger(tmp_path)
    said(made)
    before = made.state.sha256

    def after(command, **words):
        return banks(made.classes(command, words, 2.0)[1])[0].about.classes

    assert after("rename", name="pear", to="conference") == ("plum", "apple", "conference")
    assert after("remove", name="apple") == ("plum", "conference")
    with pytest.raises(keeper.FusionError.__bases__[0]):
        made.classes("rename", {"name": "plum", "to": "apple"}, 2.0)
    assert after("admit", name="apple") == ("plum", "apple", "conference")
    assert after("back", version=3) == ("plum", "apple", "conference")
    assert made.state.sha256 == before


def test_another_extractor_leaves_classes_to_whom_they_are_and_as_they_are_called(tmp_path):
    made = ledger(tmp_path)
    said(made)
    made.classes("rename", {"name": "pear", "to": "conference"}, 2.0)
    nothing = Prototypes([], np.zeros((0, 4)))
    for lineage in (LINEAGE, "extractor:g"):
        frozen(made, Bank(About(lineage, ()), nothing), schema_note=lineage)
        book = made.catalogue.versions[-1]
        assert (book.brought, book.renamed) == ({"pear": "b"}, {"pear": "conference"})
    pears = made.take([arrived("c", message("c", ["pear"], lineage="extractor:g"))], 70.0)
    assert banks(pears)[-1].about.classes == ("plum", "apple", "conference")


def test_an_extractor_has_a_ledger_of_its_own_to_come_back_to(tmp_path):
    made = ledger(tmp_path)
    said(made)
    first = settled(made)
    version = len(made.catalogue.versions) - 1
    frozen(made, Bank(About("extractor:f", ()), Prototypes([], np.zeros((0, 3)))))
    assert made.keeper.ledger.entries == {}
    assert receipts(said(made, "a", 70.0)) == [("a", "refused", "other-lineage")]
    other = message("a", ["apple", "plum"], lineage="extractor:f", width=3)
    assert banks(made.take([arrived("a", other)], 71.0))
    made.classes("back", {"version": version}, 72.0)
    assert made.state.sha256 == first
    assert made.keeper.number == 5  # a version each time


def test_an_extractor_may_have_to_be_better_than_the_one_that_is_there(tmp_path):
    made = ledger(tmp_path)
    said(made)
    settled(made)
    other = Bank(About("extractor:f", ()), Prototypes([], np.zeros((0, 4))))

    def freeze(report):
        file = packed_bundle(tmp_path / "b.pfb", other, report)
        made.classes("freeze", {"file": str(file), "if_better": True}, 80.0)

    tally = made.keeper.tally  # whose classes are told apart too easily to be told apart better
    dull = {
        a: (digest, replace(own, right=own.right // 2, losses=own.losses + own.samples * 2**16))
        for a, (digest, own) in tally.counts.items()
    }
    made.keeper.tally = replace(tally, counts=dull)
    here = made.keeper.held_out
    assert here.samples == 42
    words = f"of 42 samples held out, {here.words} before, {here.words} with it"
    with pytest.raises(UsageError, match=words):
        freeze(json.dumps({"held_out": to_plain(here)}).encode())
    with pytest.raises(UsageError, match="no device could hold samples out of both"):
        freeze(None)
    with pytest.raises(SettingError, match="not more can be right than there are"):
        freeze(b'{"held_out": {"samples": 3, "right": 4}}')
    with pytest.raises(BundleError, match=r"report\.json is no JSON document"):
        freeze(b"[]")
    assert made.catalogue.lineage == LINEAGE
    freeze(b'{"held_out": {"samples": 900, "right": 900, "steps": 0}}')
    assert made.catalogue.lineage == "extractor:f"


def test_what_no_classifier_can_be_made_of_leaves_the_one_that_is_there(tmp_path, monkeypatch):
    made = ledger(tmp_path)
    said(made, "a")
    before = made.keeper.version

    def singular(*_, **__):
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(keeper, "version", singular)
    assert receipts(said(made, "b", 2.0)) == [("b", "accepted", "")]
    assert made.keeper.trouble == "LinAlgError: Singular matrix"
    assert made.keeper.version is before


def test_a_device_that_cannot_be_compared_with_the_others_ends_nothing(tmp_path, monkeypatch):
    made = ledger(tmp_path)
    said(made)

    def indefinite(*_):  # what others' sums may come to: many samples and next to no scatter
        raise np.linalg.LinAlgError("Matrix is not positive definite")

    monkeypatch.setattr(keeper.comparison, "suspects_of", indefinite)
    for now in range(30, 90, 10):
        made.take([], float(now))
    assert made.log.stream.getvalue().count("cannot be compared") == 3
    assert receipts(said(made, "a", 99.0)) == [("a", "accepted", "")]


def test_a_device_whose_labels_are_swapped_is_named(tmp_path):
    names = ("apple", "pear", "plum")
    made = ledger(tmp_path, classes=names)
    for n in range(3):
        made.take([arrived(f"d{n}", message(f"d{n}", names, n))], 1.0)
    swapped = message("x", names, 7)
    claim, own = read("x", names, 7).claim, contributed.read(swapped).contribution
    claim = replace(claim, classes=("pear", "apple", "plum"))
    envelope = contributed.read(swapped).envelope
    made.take([arrived("x", contributed.write_contribution(claim, own, envelope))], 2.0)
    for n in range(8):
        made.take([], 20.0 + 3 * n)
    sentences = [pair.sentence for pair in made.keeper.comparisons.all]
    assert "x: its 'pear' looks like everybody else's 'apple'" in sentences
    assert {pair.agent for pair in made.keeper.comparisons.all} == {"x"}
    assert [e["agent"] for e in made.journal.events() if e["kind"] == "suspect"] == ["x", "x"]


@pytest.mark.parametrize(
    ("agent", "payload", "code"),
    [
        ("a", b"\x00", "bad-bytes"),
        ("a", message("b", ["apple"]), "wrong-agent"),
        ("a", message("a", ["apple"], fleet="other"), "wrong-agent"),
        ("a", message("a", ["apple"], lineage="extractor:x"), "other-lineage"),
    ],
)
def test_what_cannot_be_taken_in_is_refused_counted_and_changes_nothing(
    tmp_path, agent, payload, code
):
    made = ledger(tmp_path)
    assert [r for *_, r in receipts(made.take([arrived(agent, payload)], 1.0))] == [code]
    assert made.intake.counters.refused == {code: 1}
    assert (made.keeper.ledger.entries, made.keeper.number) == ({}, 0)


def withdrawn(agent, lineage=LINEAGE):
    envelope = Envelope("enrol", FLEET_NAME, agent=agent, method=contributed.WITHDRAW)
    return arrived(agent, contributed.write_withdrawal(Claim(lineage), envelope))


@pytest.mark.parametrize("restarted", [False, True])
def test_what_a_device_takes_back_is_as_if_it_had_never_been_said(tmp_path, restarted):
    made, never = ledger(tmp_path / "made"), ledger(tmp_path / "never")
    said(never, "ac")
    settled_without = settled(never)
    said(made)
    settled(made)
    assert receipts(made.take([withdrawn("b")], 60.0)) == [("b", "accepted", "")]
    if restarted:
        made.journal.close()
        made = ledger(tmp_path / "made")
    assert made.keeper.ledger.agents == ["a", "c"]
    assert settled(made, 60.0) == settled_without
    # Once more, and by who never said anything: no harm, and no change.
    for agent in "bd":
        assert receipts(made.take([withdrawn(agent)], 200.0)) == [(agent, "accepted", "")]
    assert made.state.sha256 == settled_without
    # Of another extractor, or in another's name.
    for place, payload in (
        withdrawn("a", "extractor:other"),
        (withdrawn("c")[0], withdrawn("a")[1]),
    ):
        (answer,) = receipts(made.take([(place, payload)], 300.0))
        assert answer[1] == "refused"
    assert made.keeper.ledger.agents == ["a", "c"]
    # The last ones go, and what is there is an extractor without a class; then they come again.
    made.take([withdrawn("a"), withdrawn("c")], 400.0)
    made.take([], 500.0)
    assert made.keeper.ledger.agents == []
    said(made, "ac", 600.0)
    assert settled(made, 600.0) == settled_without


NEVER = LedgerSection(interval=1e9, settle=1e9)  # versions


def crowded(folder, many):
    """A ledger of so many devices."""
    made = ledger(folder / str(many), rules=NEVER)
    names = [f"device-{n:04}" for n in range(many)]
    made.take([arrived(name, message(name, FLEET["a"])) for name in names], 1.0)
    return made


def test_a_contribution_is_as_much_work_among_hundreds_as_among_ten(tmp_path):
    work = {}
    for many in (10, 400):
        made = crowded(tmp_path, many)
        first = arrived("x", message("x", FLEET["a"]))
        other = arrived("x", message("x", FLEET["a"], 1))
        made.take([arrived("w", message("w", FLEET["a"]))], 2.0)
        work[many] = [steps(partial(made.take, [said], 2.0)) for said in (first, other)]
        assert len(made.keeper.ledger.agents) == many + 2
    for few, more in zip(work[10], work[400], strict=True):
        assert more < 1.1 * few


def test_a_batch_of_contributions_waits_for_the_disk_once(tmp_path, monkeypatch):
    commits, commit = [], SqliteDatabase.commit
    monkeypatch.setattr(SqliteDatabase, "commit", lambda db: commits.append(1) or commit(db))
    numbers = []
    for many in (1, 10, 50):
        made = ledger(tmp_path / str(many), rules=NEVER)
        commits.clear()
        batch = [arrived(f"d{n}", message(f"d{n}", FLEET["a"])) for n in range(many)]
        assert len(receipts(made.take(batch, 1.0))) == many
        numbers.append(len(commits))
    assert numbers == [1, 1, 1]


def test_of_a_batch_that_cannot_be_written_nothing_was_ever_here(tmp_path, monkeypatch):
    made = ledger(tmp_path, rules=NEVER)
    made.take([arrived("a", message("a", FLEET["a"]))], 1.0)
    before, commit = made.keeper.ledger, SqliteDatabase.commit

    def full(db):
        raise JournalError("the disk is full")

    batch = [arrived(a, message(a, FLEET[a], 1)) for a in FLEET]
    monkeypatch.setattr(SqliteDatabase, "commit", full)
    with pytest.raises(JournalError, match="full"):
        made.take(batch, 2.0)
    assert made.keeper.ledger is before
    assert [r.agent for r in made.journal.ledger.contributions(LINEAGE)] == ["a"]
    monkeypatch.setattr(SqliteDatabase, "commit", commit)
    made.recover(3.0)
    assert made.keeper.ledger is before  # nothing had to be added up again
    assert receipts(made.take(batch, 4.0)) == [(a, "accepted", "") for a in FLEET]
    alone = ledger(tmp_path / "alone", rules=NEVER)
    alone.take(batch[::-1], 1.0)
    assert sums.digest(made.keeper.ledger.canonical()[1]) == sums.digest(
        alone.keeper.ledger.canonical()[1]
    )


def test_who_contributes_twice_in_one_batch_has_said_the_later_one(tmp_path):
    made, alone = (ledger(tmp_path / name, rules=NEVER) for name in ("twice", "once"))
    twice = [arrived("a", message("a", FLEET["a"], seed)) for seed in (1, 2)]
    made.take([*twice, arrived("b", message("b", FLEET["b"]))], 1.0)
    alone.take([twice[1], arrived("b", message("b", FLEET["b"]))], 1.0)
    assert made.keeper.ledger.digests == alone.keeper.ledger.digests
    totals_of = [sums.digest(core.keeper.ledger.canonical()[1]) for core in (made, alone)]
    assert totals_of[0] == totals_of[1]


def test_while_counts_are_owed_a_turn_asks_nobody_whether_it_is_his(tmp_path):
    work = {}
    for many in (5, 80):
        rules = LedgerSection(interval=0.0, settle=10.0, asked=1_000_000)
        made = ledger(tmp_path / str(many), rules=rules)
        names = [f"device-{n:03}" for n in range(many)]
        made.take([arrived(name, message(name, FLEET["a"])) for name in names], 1.0)
        total = totals(made.take([], 12.0))[-1]
        made.take([arrived(names[0], counted(names[0], FLEET["a"], total))], 12.5)
        made.keeper.comparisons = replace(made.keeper.comparisons, queue=())  # of nobody now
        made.take([], 13.0)
        work[many] = steps(partial(made.take, [], 13.0))
        assert len(made.keeper._owing()) == many - 1
        # It is asked again once somebody else is here.
        made.take([arrived("x", message("x", FLEET["a"]))], 14.0)
        assert "x" in made.keeper._owing()
    assert work[80] < 1.1 * work[5]


def test_counts_of_one_total_delete_none_of_each_others(tmp_path):
    made = ledger(tmp_path, rules=LedgerSection(interval=0.0, settle=10.0, asked=1_000_000))
    said(made)
    total = totals(made.take([], 12.0))[-1]
    statements = []
    made.journal._db._db.set_trace_callback(statements.append)
    made.take([arrived(a, counted(a, FLEET[a], total)) for a in FLEET], 13.0)
    made.journal._db._db.set_trace_callback(None)
    assert sum(sql.startswith("DELETE FROM counts") for sql in statements) == 1
    assert len(made.keeper.tally.devices) == 3


def test_the_more_devices_hear_of_a_version_the_longer_it_is_to_the_next(tmp_path):
    made = ledger(tmp_path, rules=LedgerSection(interval=1.0, settle=1e9))
    made.take([], 2.0)
    made.keeper._published_at = 10.0
    made.take([arrived("a", message("a", FLEET["a"]))], 10.5)
    for listeners, due in ((3, 11.0), (1000, 11.0), (10_000, 20.0)):
        assert not made.keeper._version_due(due - 0.1, listeners)
        assert made.keeper._version_due(due, listeners)
