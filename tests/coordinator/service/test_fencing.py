"""Before serving: whose word lies at the broker, and what follows from it."""

import pytest

from coordinator.errors import Superseded
from coordinator.journal.journal import Journal
from coordinator.service import fencing
from protofleet import wire
from protofleet.mqtt.address import Address
from protofleet.mqtt.link.events import Arrival, Connected, Lost, Refused
from protofleet.wire import epochs

NOWHERE = Address.parse("mqtt://127.0.0.1:1")


def word(epoch=4, boot="other", online=True):
    envelope = wire.Envelope("state", "orchard", run="r1", epoch=epoch, boot=boot)
    return Arrival("topic", wire.encode(envelope, {"online": online}), 1, True, None)


@pytest.fixture
def broker(monkeypatch):
    """A link on which these events come, one a look; then it is silent, and time passes."""
    events, clock = [], [0.0]

    class ScriptedLink:
        def __init__(self, *settings, **more):
            self.stopped = False

        def poll(self, timeout):
            if events:
                return [events.pop(0)]
            clock[0] += timeout
            return []

        def subscribe(self, filters):
            pass

        def start(self):
            pass

        def stop(self, patience):
            pass

    monkeypatch.setattr(fencing, "Link", ScriptedLink)
    monkeypatch.setattr(fencing.time, "monotonic", lambda: clock[0])
    return events, clock


def top(folder, take_over=False):
    return fencing.epoch_to_top(NOWHERE, "orchard", folder, take_over=take_over)


@pytest.mark.parametrize("events", [[], [Connected(False, "5")], [Refused("no")]])
def test_without_a_word_one_begins(broker, tmp_path, events):
    broker[0].extend(events)
    assert top(tmp_path) == 0


def test_how_long_is_waited_depends_on_what_there_is_to_wait_for(broker, tmp_path):
    events, clock = broker
    top(tmp_path)
    assert clock[0] == fencing.PATIENCE
    events.append(Connected(False, "5"))
    top(tmp_path)
    assert clock[0] == fencing.PATIENCE + fencing.SILENCE


def test_one_that_serves_is_left_alone_unless_told_otherwise(broker, tmp_path):
    broker[0].extend([Connected(False, "5"), word()])
    with pytest.raises(Superseded, match="epoch 4"):
        top(tmp_path)
    broker[0].extend([Connected(False, "5"), word()])
    assert top(tmp_path, take_over=True) == 4


def test_one_that_is_gone_is_waited_for_and_then_topped(broker, tmp_path):
    events, clock = broker
    events.extend([Connected(False, "5"), word(online=False)])
    assert top(tmp_path) == 4
    assert clock[0] == fencing.RETURN


def test_one_that_was_gone_and_comes_back_serves(broker, tmp_path):
    broker[0].extend([Connected(False, "5"), word(online=False), word()])
    with pytest.raises(Superseded):
        top(tmp_path)


def test_one_that_puts_us_off_in_its_turn_is_alive(broker, tmp_path):
    broker[0].extend([Connected(False, "5"), word(online=False), Lost("taken over")])
    with pytest.raises(Superseded):
        top(tmp_path)


@pytest.mark.parametrize("online", [True, False])
def test_the_word_of_an_earlier_life_of_ours_is_topped_at_once(broker, tmp_path, online):
    journal = Journal(tmp_path, lambda: 0.0)
    with journal.commit():
        journal.set_meta("boots", "first other")
    journal.close()
    broker[0].extend([Connected(False, "5"), word(online=online)])
    assert top(tmp_path) == 4
    assert broker[1][0] == 0.0


@pytest.mark.parametrize("online", [True, False])
@pytest.mark.parametrize("epoch", [2**63 - 1, 2**40])
def test_a_word_of_an_epoch_that_nobody_can_have_is_as_good_as_none(
    broker, tmp_path, epoch, online
):
    broker[0].extend([Connected(False, "5"), word(epoch=epoch, online=online)])
    assert top(tmp_path) == 0


def test_what_is_believed_depends_on_the_last_life_here(broker, tmp_path):
    journal = Journal(tmp_path, lambda: 0.0)
    with journal.commit():
        journal.set_meta("epoch", "100")
    journal.close()
    broker[0].extend([Connected(False, "5"), word(epoch=100 + epochs.JUMP, online=False)])
    assert top(tmp_path) == 100 + epochs.JUMP
    broker[0].extend([Connected(False, "5"), word(epoch=101 + epochs.JUMP, online=False)])
    assert top(tmp_path) == 0


def test_a_file_that_is_no_journal_knows_no_earlier_life(broker, tmp_path):
    (tmp_path / "journal.db").write_bytes(b"not a database at all, but long enough" * 50)
    broker[0].extend([Connected(False, "5"), word()])
    with pytest.raises(Superseded):
        top(tmp_path)
