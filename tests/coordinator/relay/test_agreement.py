"""What a site does not decide."""

import io
from dataclasses import replace

import pytest

from coordinator.relay.agreement import FleetAgreement, Hearing
from protofleet import registry, wire
from protofleet.contract import Budget
from protofleet.errors import UsageError, WireError
from protofleet.masking.rooms import MaskTerms
from protofleet.mqtt.link.link import Arrival, Connected, Lost, Refused
from protofleet.settings.fields import to_plain
from protofleet.util.logs import Log
from protofleet.wire import Envelope
from tests.coordinator.made import CONTRACT, TOPICS, agreed, ledger

HYPER = to_plain(registry.load("fleet").hyper())


def announcement(contract=CONTRACT, method="fleet", **more):
    body = {"contract": contract.announced(), "hyper": HYPER, "packet": 4096, **more}
    return wire.encode(Envelope("round", "orchard", "top-1", 3, round=0, method=method), body)


def heard(**more):
    return FleetAgreement.of(wire.decode(announcement(**more)))


def test_the_announcement_is_the_agreement_and_the_run_is_the_sites_own():
    known = heard()
    assert (known.run, known.packet) == ("top-1", 4096)
    contract, hyper = known.terms("orchard", "north-1")
    assert (contract.run, hyper) == ("north-1", registry.load("fleet").hyper())
    assert replace(contract, run="r1") == CONTRACT


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"method": "gfpl"}, "gfpl keeps uploads whole"),
        ({"method": "fedproto", "staleness": 2}, "takes late uploads"),
        (
            {"method": "fedproto", "contract": replace(CONTRACT, masks=MaskTerms())},
            "masked sums in rounds",
        ),
        (
            {"hyper": {**HYPER, "buckets": 3}, "contract": replace(CONTRACT, masks=MaskTerms())},
            "masked sums in buckets",
        ),
        ({"contract": replace(CONTRACT, budget=Budget(1.0, 1e-5, 0.1, 1.0, 1))}, "has a budget"),
    ],
)
def test_what_no_site_can_speak_in_is_said_in_one_line(more, words):
    with pytest.raises(UsageError, match=words):
        heard(**more)


def test_rounds_have_the_run_of_the_fleet_above():
    hyper = to_plain(registry.load("fedproto").hyper())
    known = heard(method="fedproto", hyper=hyper)
    contract, _ = known.terms("orchard", "another")
    assert (known.has_rounds, contract.run) == (True, "r1")
    assert known.differs(replace(known, contract=replace(CONTRACT, run="r2"))) == "run"


def test_what_is_no_announcement_is_refused():
    for payload in (
        announcement(contract=CONTRACT, hyper=3),
        wire.encode(Envelope("round", "orchard", "r", 1), {"phase": "open"}),
    ):
        with pytest.raises(WireError):
            FleetAgreement.of(wire.decode(payload))


def test_another_agreement_is_noticed_and_another_run_is_none(tmp_path):
    made = agreed(ledger(tmp_path, classes=CONTRACT.classes))
    known = FleetAgreement.of_journal(made.journal)
    assert heard().differs(known) == ""
    assert replace(heard(), contract=replace(CONTRACT, embedding=8)).differs(known) == (
        "contract.embedding"
    )
    assert replace(heard(), settings={**HYPER, "minimum": 9}).differs(known) == "settings"
    with made.journal.commit():
        made.journal._db.execute("DELETE FROM meta WHERE key='agreement'")
    assert FleetAgreement.of_journal(made.journal) is None


def test_a_first_life_waits_for_the_fleet_above():
    lines = io.StringIO()
    hearing = Hearing(TOPICS, Log(lines))
    hearing.heard(Connected(True, "5"))
    hearing.heard(Lost("nobody"))
    hearing.heard(Arrival(TOPICS.round, b"no message", 1, True, None))
    assert hearing.agreement is None
    assert "trying on: nobody" in lines.getvalue()
    hearing.heard(Arrival(TOPICS.round, announcement(), 1, True, None))
    assert hearing.agreement.run == "top-1"
    with pytest.raises(UsageError, match="refuses us: bad password"):
        hearing.heard(Refused("bad password"))
    with pytest.raises(UsageError, match="keeps uploads whole"):
        hearing.heard(Arrival(TOPICS.round, announcement(method="gfpl"), 1, True, None))
