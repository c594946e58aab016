"""What a device says to a masked ledger, and which words it answers."""

import io

import pytest

from edge_agent.daemon.masker import Masker
from edge_agent.daemon.summing import LETTER, LedgerSums, nowhere
from edge_agent.protocol.events import RoundSpec
from edge_agent.store import Store
from protofleet import wire
from protofleet.exchange import gathered
from protofleet.masking.group import Agreement, PublicKeys, Readiness, Survivors
from protofleet.masking.letters import decode_letter
from protofleet.util.logs import Log
from tests.contributing import LINEAGE, message
from tests.coordinator.made import CONTRACT
from tests.gathered import CLASSES, MASKS, GatheredFleet

PURPOSE = gathered.contributing(LINEAGE)


@pytest.fixture
def sums(tmp_path):
    store, log = Store(tmp_path), Log(io.StringIO())
    masker = Masker("a", store, log)
    contract = CONTRACT.__class__(**{**vars(CONTRACT), "classes": CLASSES, "masks": MASKS})
    masker.announced(RoundSpec("r1", "fleet", contract.announced(), {}))
    offered = []
    made = LedgerSums(masker, "orchard", lambda name, payload: offered.append((name, payload)))
    made.offered = offered
    yield made
    store.close()


def said(payload):
    return decode_letter(wire.unseal(payload)[1])


def agreement(session=b"s" * 16, purpose=PURPOSE, devices=("a", "b", "c", "d")):
    layout = gathered.layout(purpose, _contract(), 4, len(devices))
    return Agreement(session, devices, 1, layout.digest(), purpose)


def _contract():
    return CONTRACT.__class__(**{**vars(CONTRACT), "classes": CLASSES, "masks": MASKS})


def test_a_mark_is_the_messages_own_and_says_nothing_of_it(sums, tmp_path):
    first = said(sums.ready("r1", PURPOSE, message("a", ("plum",))))
    again = said(sums.ready("r1", PURPOSE, message("a", ("plum",))))
    other = said(sums.ready("r1", PURPOSE, message("a", ("plum",), 1)))
    assert first == again == Readiness("a", {}, PURPOSE, first.mark)
    assert first.mark != other.mark
    neighbour = Masker("b", Store(tmp_path / "b"), Log(io.StringIO()))
    neighbour.announced(RoundSpec("r1", "fleet", _contract().announced(), {}))
    theirs = said(LedgerSums(neighbour, "orchard").ready("r1", PURPOSE, message("a", ("plum",))))
    assert theirs.mark not in (first.mark, other.mark)
    neighbour.store.close()
    nowhere(LETTER, b"")


def test_a_word_before_the_message_is_answered_when_it_is_there(sums):
    sums.hears("r1", agreement())
    assert sums.offered == []
    sums.ready("r1", PURPOSE, message("a", ("plum",)))
    ((name, payload),) = sums.offered
    assert name == LETTER
    assert isinstance(said(payload), PublicKeys)


def test_the_same_word_again_has_the_same_answer_from_the_store(sums):
    sums.ready("r1", PURPOSE, message("a", ("plum",)))
    for _ in range(2):
        sums.hears("r1", agreement())
    assert sums.offered[0] == sums.offered[1]
    sums.hears("r1", Survivors(b"another session!", ("a", "b")))
    assert len(sums.offered) == 2


def test_a_newer_group_takes_the_seat_and_has_other_secrets(sums):
    sums.ready("r1", PURPOSE, message("a", ("plum",)))
    sums.hears("r1", agreement())
    sums.hears("r1", agreement(b"t" * 16))
    first, second = (said(payload) for _, payload in sums.offered)
    assert first.mask != second.mask
    assert sums.masker.seat("r1", 0).session == b"t" * 16


def test_words_for_what_nobody_is_ready_for_are_not_answered(sums):
    sums.ready("r1", PURPOSE, message("a", ("plum",)))
    sums.hears("r1", agreement(purpose=gathered.counting("ab" * 32)))
    sums.hears("r1", agreement(devices=("b", "c", "d", "e")))
    assert sums.offered == []
    wrong = Agreement(b"s" * 16, ("a", "b", "c", "d"), 1, "another layout", PURPOSE)
    sums.hears("r1", wrong)
    assert "no part in a masked sum" in sums.masker.log.stream.getvalue()


def test_how_a_run_is_spoken_to_must_be_known(sums):
    assert sums.is_masked("r1")
    assert sums.may_speak("r1")
    assert not sums.may_speak("another")


def test_a_group_leaves_no_secrets_behind(tmp_path):
    trial = GatheredFleet(tmp_path)
    for device in trial.devices.values():
        device.contributes()
    trial.goes_on()
    seat = trial.devices["a"].sums.masker.seat("r1", 0)
    assert seat.member.secrets.mask == seat.member.secrets.seed == b""
    trial.close()
