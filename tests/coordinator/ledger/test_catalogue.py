"""Classes that come from devices, and what an operator decides about them."""

import json
import time
from base64 import b64encode

import numpy as np
import pytest

from coordinator.ledger import books
from coordinator.ledger.catalogue import Catalogue
from coordinator.ledger.offers import BROUGHT, ENROLLED, OFFERED, ROWS
from coordinator.service import glance
from protofleet import wire
from protofleet.errors import FleetError, UsageError
from protofleet.exchange import published
from protofleet.exchange.published import About, Bank
from protofleet.exchange.state import GlobalState
from protofleet.mqtt.topics import TopicParts
from protofleet.values.prototypes import Prototypes
from tests.contributing import arrived, message
from tests.coordinator.made import CONTRACT, LEARNT, banks, frozen, learnt, ledger, receipts


@pytest.fixture
def made(tmp_path):
    return learnt(tmp_path)


def lineage(made):
    return made.catalogue.bank(1, LEARNT).about.lineage


def offer(made, name="owl", vector=(9, 9, 9), agent="x", **changes):
    about = About(changes.get("lineage", lineage(made)), (name,))
    bank = Bank(about, Prototypes(np.array([0]), np.array([vector], np.float32)))
    envelope = wire.Envelope("enrol", CONTRACT.fleet, agent=changes.get("sender", agent))
    return TopicParts(agent, "upload", ("0",)), published.write(bank, envelope, "float32")


def names(bank):
    return [bank.about.classes[c] for c in bank.points.classes]


def test_a_new_class_is_admitted_and_published(made):
    said = made.take([offer(made)], 1.0)
    assert receipts(said)[0][1] == "accepted"
    (bank,) = banks(said)
    assert names(bank) == [*CONTRACT.classes[:2], "owl"]
    assert bank.points.vectors[-1].tolist() == [9, 9, 9]
    assert banks(made.greetings())[0] == bank


def test_the_same_offer_again_gets_the_same_answer_and_changes_nothing(made):
    made.take([offer(made)], 1.0)
    said = made.take([offer(made)], 2.0)
    assert receipts(said)[0][1] == "accepted"
    assert not banks(said)
    assert len(made.catalogue.versions) == 2


def test_it_is_remembered_over_a_restart(made):
    made.take([offer(made)], 1.0)
    again = Catalogue(made.journal, made.messages, "auto", made.log)
    assert "owl" in names(again.bank(1, LEARNT))


def test_training_goes_on_beneath_it(made):
    made.take([offer(made)], 1.0)
    moved = GlobalState(
        shared={"prototypes": Prototypes(np.arange(2), LEARNT.shared["prototypes"].vectors + 1)}
    )
    assert made.catalogue.bank(2, moved).points.vectors[:, 0].tolist() == [1, 1, 9]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"lineage": "extractor:other"}, "other-lineage"),
        ({"vector": (1, 2)}, "dimension"),
        ({"name": CONTRACT.classes[0]}, "conflict"),
        ({"name": "a\x07"}, "bad-name"),
        ({"name": "n" * 65}, "bad-name"),
        ({"sender": "y"}, "wrong-agent"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(made, changes, code):
    said = made.take([offer(made, **changes)], 1.0)
    ((_, status, reason),) = receipts(said)
    assert (status in ("refused", "conflict"), reason) == (True, code)
    assert not banks(said)


def test_bytes_that_are_no_offer_are_refused(made):
    said = made.take([(TopicParts("x", "upload", ("0",)), b"\x00")], 1.0)
    assert receipts(said)[0][1:] == ("refused", "bad-bytes")


def test_a_class_close_to_another_is_said_to_be(made):
    assert receipts(made.take([offer(made, vector=(0, 0.1, 1))], 1.0))[0][1:] == (
        "accepted",
        "near",
    )


def test_an_operator_admits_where_the_policy_says_so(made):
    made.catalogue.policy = "manual"
    said = made.take([offer(made)], 1.0)
    assert receipts(said)[0][1] == "waiting"
    assert not banks(said)
    found, changed = made.catalogue.execute("admit", {"name": "owl"}, 1, LEARNT)
    assert changed
    assert not found["waiting"]
    assert "owl" in names(made.catalogue.bank(1, LEARNT))


def test_nobody_enrols_where_it_is_off(made):
    made.catalogue.policy = "off"
    assert receipts(made.take([offer(made)], 1.0))[0][2] == "enrol-off"


def test_rename_remove_and_back(made):
    told = made.catalogue.execute
    made.take([offer(made)], 1.0)
    told("rename", {"name": "owl", "to": "tawny owl"}, 1, LEARNT)
    told("rename", {"name": CONTRACT.classes[0], "to": "first"}, 1, LEARNT)
    assert names(made.catalogue.bank(1, LEARNT)) == ["first", CONTRACT.classes[1], "tawny owl"]
    told("remove", {"name": "tawny owl"}, 1, LEARNT)
    told("remove", {"name": "first"}, 1, LEARNT)
    assert names(made.catalogue.bank(1, LEARNT)) == [CONTRACT.classes[1]]
    found, _ = told("back", {"version": 1}, 1, LEARNT)
    assert names(made.catalogue.bank(1, LEARNT)) == [*CONTRACT.classes[:2], "owl"]
    assert len(found["versions"]) == 7
    told("back", {"version": 0}, 1, LEARNT)
    assert names(made.catalogue.bank(1, LEARNT)) == list(CONTRACT.classes[:2])


def test_a_removed_class_can_be_enrolled_anew(made):
    made.catalogue.execute("remove", {"name": CONTRACT.classes[1]}, 1, LEARNT)
    assert receipts(made.take([offer(made, CONTRACT.classes[1])], 1.0))[0][1] == "accepted"
    assert made.catalogue.bank(1, LEARNT).points.vectors[-1].tolist() == [9, 9, 9]


def slips(said):
    return [p for p in said if p.topic.endswith("/g/stable/bundle")]


def test_a_frozen_extractor_takes_the_place_of_the_run(made):
    frozen(made)
    now = made.catalogue.bank(1, LEARNT)
    assert (now.about.lineage, len(now.about.bundle), now.about.classes) == (
        "extractor:e",
        64,
        ("ant", "bee"),
    )


def test_its_bundle_is_announced_and_kept_for_those_who_fetch_it(made):
    assert not slips(made.greetings())
    data = frozen(made)
    (said,) = slips(made.greetings())
    slip = wire.decode(said.payload)
    assert (slip.envelope.t, slip.body["of"], said.retain) == ("slip", "bundle", True)
    assert slip.body["bundle"] == made.catalogue.bank(1, LEARNT).about.bundle
    assert made.journal.file(slip.body["digest"]) == data
    assert slip.body["size"] == len(data)
    again = Catalogue(made.journal, made.messages, "auto", made.log)
    assert slips(again.publications(1, LEARNT)) == [said]


def test_going_back_takes_the_announcement_back_and_the_bundle_stays_to_go_forth_to(made):
    data = frozen(made)
    made.catalogue.execute("back", {"version": 0}, 1, LEARNT)
    (said,) = slips(made.greetings())
    assert (said.payload, said.retain) == (b"", True)
    made.catalogue.execute("back", {"version": 1}, 1, LEARNT)
    (said,) = slips(made.greetings())
    assert made.journal.file(wire.decode(said.payload).body["digest"]) == data


@pytest.mark.parametrize(
    ("what", "arguments"),
    [
        ("admit", {"name": "x"}),
        ("remove", {"name": "x"}),
        ("rename", {"name": "x", "to": "y"}),
        ("back", {"version": 9}),
        ("sing", {}),
    ],
)
def test_words_that_mean_nothing(made, what, arguments):
    with pytest.raises(UsageError):
        made.catalogue.execute(what, arguments, 1, LEARNT)


def test_a_bundle_that_is_refused_changes_nothing(made):
    with pytest.raises(FleetError):
        frozen(made, state="0" * 64)
    assert len(made.catalogue.versions) == 1
    assert made.catalogue.bank(1, LEARNT).about.lineage.startswith("run:")


def several(made, names, agent="x", rows=1):
    """An offer of many classes."""
    ids = np.repeat(np.arange(len(names)), rows)
    vectors = np.arange(len(ids) * 3, dtype=np.float32).reshape(-1, 3) + 50
    bank = Bank(About(lineage(made), tuple(names)), Prototypes(ids, vectors))
    envelope = wire.Envelope("enrol", CONTRACT.fleet, agent=agent)
    return TopicParts(agent, "upload", ("0",)), published.write(bank, envelope, "float32")


def reason(made, sent):
    ((_, _, code),) = receipts(made.take([sent], 1.0))
    return code


def owls(made):
    bank = made.catalogue.bank(1, LEARNT)
    return bank.points.only([bank.about.classes.index("owl")]).vectors.tolist()


@pytest.mark.parametrize("policy", ["auto", "manual"])
def test_another_device_cannot_replace_a_class_and_its_own_can(made, policy):
    made.catalogue.policy = policy
    made.take([offer(made)], 1.0)
    assert reason(made, offer(made, vector=(5, 5, 5), agent="y")) == "conflict"
    if policy == "manual":
        made.catalogue.execute("admit", {"name": "owl"}, 1, LEARNT)
        assert reason(made, offer(made, vector=(5, 5, 5), agent="y")) == "conflict"
    assert owls(made) == [[9, 9, 9]]
    made.catalogue.policy = "auto"
    assert reason(made, offer(made, vector=(8, 8, 9))) == ""
    assert owls(made) == [[8, 8, 9]]


def test_the_very_same_class_of_another_device_is_there_already(made):
    made.take([offer(made)], 1.0)
    said = made.take([offer(made, agent="y")], 1.0)
    assert receipts(said) == [("y", "accepted", "")]
    assert made.catalogue.execute("list", {}, 1, LEARNT)[0]["classes"][-1]["by"] == "x"


def test_a_class_is_there_by_the_name_it_has_and_by_the_one_it_had(made):
    made.take([offer(made)], 1.0)
    for name, to in (("owl", "tawny owl"), (CONTRACT.classes[0], "first")):
        made.catalogue.execute("rename", {"name": name, "to": to}, 1, LEARNT)
    for name in ("owl", "tawny owl", CONTRACT.classes[0], "first"):
        assert reason(made, offer(made, name, vector=(5, 5, 5), agent="y")) == "conflict", name


def test_an_operator_sees_who_brought_what(made):
    made.take([offer(made)], 1.0)
    made.catalogue.policy = "manual"
    made.take([offer(made, "elk", agent="y", vector=(7, 7, 7))], 1.0)
    listing = made.catalogue.execute("list", {}, 1, LEARNT)[0]
    assert {row["name"]: row["by"] for row in listing["classes"]}["owl"] == "x"
    assert listing["waiting_by"] == {"elk": "y"}


def test_what_devices_bring_is_bounded_by_offer_device_and_fleet(made):
    assert reason(made, several(made, [f"c{n}" for n in range(OFFERED + 1)])) == "many"
    assert reason(made, several(made, ["c"], rows=ROWS + 1)) == "many"
    for first in range(0, BROUGHT, OFFERED):
        made.take([several(made, [f"x{first + n}" for n in range(OFFERED)])], 1.0)
    assert len(made.catalogue.versions[-1].admitted) == BROUGHT
    assert reason(made, several(made, ["one-more"])) == "many"
    assert reason(made, several(made, ["x0"])) in ("", "near")  # its own, anew
    for number in range(ENROLLED // BROUGHT - 1):
        for first in range(0, BROUGHT, OFFERED):
            names = [f"d{number}-{first + n}" for n in range(OFFERED)]
            made.take([several(made, names, agent=f"d{number}")], 1.0)
    assert reason(made, several(made, ["late"], agent="z")) == "many"
    assert len(made.catalogue.versions[-1].admitted) == ENROLLED


def test_a_full_catalogue_answers_within_a_moment(made):
    """A device with all that it may bring costs the loop no more than a breath an offer."""
    for number in range(ENROLLED // BROUGHT):
        for first in range(0, BROUGHT, OFFERED):
            names = [f"d{number}-{first + n}" for n in range(OFFERED)]
            made.take([several(made, names, agent=f"d{number}", rows=ROWS)], 1.0)
    began = time.process_time()
    made.take([several(made, ["d0-0"], agent="d0")], 1.0)
    assert time.process_time() - began < 1.0  # 24 s an offer without bounds


@pytest.mark.parametrize(("vector", "code"), [((1e30, 0, 0), "norm"), ((9e9, 0, 0), "norm")])
def test_what_no_honest_device_sends_is_no_class(made, vector, code):
    assert reason(made, offer(made, vector=vector)) == code


def test_a_device_that_brings_its_class_again_and_again_takes_no_way_back(made, monkeypatch):
    monkeypatch.setattr(books, "BY_DEVICES", 4)
    made.catalogue.execute("rename", {"name": CONTRACT.classes[0], "to": "first"}, 1, LEARNT)
    for number in range(12):
        made.take([offer(made, vector=(9, 9, number))], 1.0)
    versions = made.catalogue.versions
    assert len(versions) == 2 + 4
    assert [book.why for book in versions[:2]] == ["", f"rename {CONTRACT.classes[0]} first"]
    assert owls(made) == [[9, 9, 11]]


def test_classes_of_an_earlier_release_stay_and_are_nobody_s(made):
    _, payload = offer(made)
    bank = published.read(payload, "enrol").bank
    message = published.write(bank, wire.Envelope("enrol", CONTRACT.fleet), "float32")
    book = {"admitted": {"owl": b64encode(message).decode()}, "why": "owl from x"}
    with made.journal.commit():
        made.journal.set_meta("classes", json.dumps([{}, book]))
    assert owls(made) == [[9, 9, 9]]
    said = made.take([offer(made)], 1.0)  # sent again, as its answer was lost
    assert receipts(said) == [("x", "accepted", "")]
    assert reason(made, offer(made, vector=(5, 5, 5))) == "conflict"
    made.catalogue.execute("remove", {"name": "owl"}, 1, LEARNT)
    assert reason(made, offer(made, vector=(5, 5, 5), agent="y")) == ""
    assert len(made.catalogue.versions) == 4


def test_prototypes_are_no_contribution_to_an_extractor_that_all_share(made):
    frozen(made, Bank(About("extractor:e", ()), Prototypes([], np.zeros((0, 3)))))
    assert reason(made, offer(made, vector=(5, 5, 5))) == "no-prototypes"


def test_a_class_that_was_renamed_and_removed_is_let_in_again_by_the_name_it_is_shown_by(tmp_path):
    made = ledger(tmp_path)
    made.take([arrived("a", message("a", ["plum", "owl"]))], 1.0)
    for words in (("rename", {"name": "owl", "to": "eagle"}), ("remove", {"name": "eagle"})):
        made.classes(*words, 2.0)
    (row,) = [row for row in glance.classes(made)["classes"] if row["name"] == "eagle"]
    assert row["removed"]
    answer, _ = made.classes("admit", {"name": "eagle"}, 3.0)
    assert not any(row["removed"] for row in answer["classes"])
