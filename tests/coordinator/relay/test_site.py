"""A site between its devices and the fleet above, carried by hand: what it says, when, and what its
devices hear.
"""

import json
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from coordinator.config import LedgerSection
from coordinator.relay.deliveries import FIRST
from coordinator.relay.site import ABOVE, RELAYED, death, will
from protofleet import wire
from protofleet.exchange.published import About, Bank
from protofleet.values.prototypes import Prototypes
from protofleet.wire import Envelope
from tests.contributing import LINEAGE, WIDTH, arrived, counted, message
from tests.coordinator.made import TOPICS, agreed, banks, ledger, packed_bundle, totals
from tests.siting import HandSite

RULES = LedgerSection(interval=0.0, settle=10.0, asked=1000)


@pytest.fixture
def above(tmp_path):
    made = agreed(ledger(tmp_path / "top", rules=RULES, sites=("north",)))
    yield made
    made.journal.close()


@pytest.fixture
def site(tmp_path, above):
    made = HandSite(tmp_path / "north", above, rules=RULES)
    made.greet()
    made.turn(0.0)
    yield made
    made.core.journal.close()


def contribute(site, agent, names=("apple", "plum"), seed=0, now=1.0):
    return site.core.take([arrived(agent, message(agent, names, seed))], now)


def test_it_says_who_it_is_and_is_no_device(site, above):
    site.turn(0.1)
    assert (above.devices["north"].online, above.devices["north"].is_site) == (True, True)
    assert site.relay.document["connected"]
    site.relay.stop()
    (last,) = site.link.farewell
    above.take([(TOPICS.parse(last.topic), last.payload)], 0.2)
    assert not above.devices["north"].online
    assert will(site.terms).payload == death(site.terms) == last.payload


def test_what_devices_contribute_is_said_once_and_noted_when_it_is_taken(site, above):
    contribute(site, "a")
    assert site.turn(2.0)[1] == ["upload"]
    assert above.keeper.ledger.agents == ["a"]
    assert json.loads(site.core.journal.meta(RELAYED) or "{}") == {}
    site.turn(3.0)
    assert list(json.loads(site.core.journal.meta(RELAYED))["digests"]) == ["sums"]
    assert site.relay.document["taken"] == ["sums"]
    for now in range(4, 1000, 50):
        assert site.turn(float(now))[1] == []


def test_sums_go_at_a_pace_and_counts_after_them(site, above):
    contribute(site, "a")
    site.turn(2.0)
    contribute(site, "b", now=2.1)
    assert site.turn(2.2)[1] == []
    assert site.turn(3.0)[1] == ["upload"]
    above.take([], 30.0)
    site.greet()
    said, _ = site.turn(30.5)
    (total,) = [each for each in totals(said) if each]
    site.core.take([arrived(a, counted(a, ("apple", "plum"), total)) for a in "ab"], 31.0)
    assert site.turn(31.5)[1] == ["upload"]
    assert above.keeper.tally.devices == {"a", "b"}
    site.turn(32.0)
    assert site.relay.document["taken"] == ["counts", "sums"]


def test_killed_between_any_two_words_it_says_what_the_journal_has(tmp_path, site, above):
    contribute(site, "a")
    # It dies before a word of it is said.
    site.core.journal.close()
    second = HandSite(tmp_path / "north", above, rules=RULES)
    second.greet()
    assert "upload" in second.turn(3.0)[1]
    assert above.keeper.ledger.agents == ["a"]
    # It dies after that, and before it heard the answer.
    second.core.journal.close()
    number = above.keeper.number
    third = HandSite(tmp_path / "north", above, rules=RULES)
    third.greet()
    assert "upload" in third.turn(4.0)[1]
    assert above.keeper.number == number
    third.turn(5.0)
    third.core.journal.close()
    fourth = HandSite(tmp_path / "north", above, rules=RULES)
    fourth.greet()
    assert "upload" not in fourth.turn(6.0)[1]
    site.core, site.relay = fourth.core, fourth.relay


def test_an_answer_that_is_lost_is_asked_for_again(site, above):
    contribute(site, "a")
    site.turn(2.0)
    site.link.events = []
    assert site.turn(2.0 + FIRST - 0.1)[1] == []
    assert site.turn(2.0 + FIRST)[1] == ["upload"]


def test_offline_devices_go_on_with_what_is_known(tmp_path, site, above):
    contribute(site, "a")
    site.turn(2.0)
    above.take([], 30.0)
    site.greet()
    site.turn(30.5)
    (bank,) = banks(site.core.greetings())
    assert bank.about.total
    site.core.journal.close()
    # The next life has no line, and knows all of it.
    alone = HandSite(tmp_path / "north", above, rules=RULES)
    alone.link.connected, alone.link.events = False, []
    (again,) = banks(alone.core.greetings())
    assert (again.about, np.array_equal(again.points.weight, bank.points.weight)) == (
        bank.about,
        True,
    )
    assert totals(alone.core.greetings())[-1]
    contribute(alone, "b", now=40.0)
    for now in range(41, 4000, 100):
        assert alone.turn(float(now))[1] == []
    alone.link.connected = True
    assert "upload" in alone.turn(5000.0)[1]
    assert above.keeper.ledger.agents == ["a", "b"]
    site.core, site.relay = alone.core, alone.relay


def test_a_forgotten_device_is_in_nothing_that_is_kept(site, above, tmp_path):
    for agent in "ab":
        contribute(site, agent)
    site.turn(2.0)
    above.take([], 30.0)
    site.greet()
    site.turn(30.5)
    kept = tmp_path / "north" / ABOVE
    assert {file.name for file in kept.iterdir()} == {"classes.cbor", "total.cbor"}
    site.core.forget("a", 31.0)
    assert site.turn(32.0)[1] == ["upload"]
    assert {file.name for file in kept.iterdir()} == {"classes.cbor"}
    assert above.keeper.ledger.agents == ["b"]
    site.core.forget("b", 33.0)
    site.turn(34.0)
    assert above.keeper.ledger.agents == []


def test_a_refusal_is_said_where_a_person_looks(site, above):
    above.keeper._terms = replace(above.keeper._terms, sites=())
    contribute(site, "a")
    site.turn(2.0)
    site.turn(3.0)
    assert site.relay.document["trouble"].startswith("north is no site here: [admission] sites")
    assert "does not take it" in site.lines.getvalue()


def test_another_agreement_above_is_trouble_and_nothing_is_said(tmp_path, site, above):
    other = agreed(ledger(tmp_path / "other", classes=("fig",), sites=("north",)))
    site.above = other
    site.greet()
    contribute(site, "a")
    assert site.turn(2.0)[1] == []
    assert "agreed on another contract.classes" in site.relay.document["trouble"]
    site.above = above
    site.greet()
    site.turn(3.0)
    assert site.relay.document["trouble"] == ""
    other.journal.close()


def test_a_lower_epoch_is_of_a_life_that_was_overruled(site, above):
    (word,) = [p for p in above.greetings() if p.topic.endswith("/g/stable/proto")]
    envelope, body = wire.unseal(word.payload)
    site.link.hear((word.topic, wire.enclose(replace(envelope, epoch=0), body)))
    before = site.core.keeper.above
    site.turn(1.0)
    assert site.core.keeper.above is before


def test_bytes_that_mean_nothing_are_one_line_and_are_acknowledged(site):
    for topic in (TOPICS.round, TOPICS.proto("stable"), TOPICS.proto("total"), TOPICS.listing):
        site.link.hear((topic, b"nothing"))
    site.link.hear((TOPICS.receipt("north"), wire.encode(Envelope("receipt", "orchard"), {})))
    site.turn(1.0)
    assert site.lines.getvalue().count("cannot be used") == 3
    assert len(site.link.acked) >= 5


def test_another_bundle_above_is_fetched_and_brought_to_its_devices(tmp_path, site, above):
    lineage = f"{LINEAGE}-2"
    bank = Bank(About(lineage, ()), Prototypes([], np.zeros((0, WIDTH))))
    file = packed_bundle(tmp_path / "next.pfb", bank)
    data = file.read_bytes()
    above.classes("freeze", {"file": str(file)}, 5.0)
    site.greet()
    site.turn(6.0)
    assert site.core.catalogue.lineage == LINEAGE
    # The chunks come as they were asked for.
    asked = [p for topic, p in site.link.said if topic.endswith("/blob/req")]
    assert asked == []  # they were carried to the core above, which leaves them to its service
    digest = sha256(data).hexdigest()
    site.link.hear((TOPICS.own_chunk("north", digest, 0), data))
    said, _ = site.turn(7.0)
    assert site.core.catalogue.lineage == lineage
    assert any(p.topic.endswith("/g/stable/bundle") for p in said)
    assert banks(site.core.greetings())[0].about.lineage == lineage
