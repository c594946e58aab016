"""What a device sends in a masked run, and what never leaves it."""

import io
import time

import pytest

from coordinator.members.office import Office
from edge_agent.daemon.masker import Masker
from edge_agent.protocol.events import RoundSpec
from protofleet import wire
from protofleet.errors import FusionError, LinkError
from protofleet.masking.group import Agreement, Readiness
from protofleet.masking.letters import decode_letter
from protofleet.settings.fields import to_plain
from protofleet.util.logs import Log
from protofleet.values.prototypes import Prototypes
from tests import membership
from tests.coordinator import made
from tests.grouping import AGENTS, MaskedFleet


@pytest.fixture
def fleet(tmp_path):
    trial = MaskedFleet(tmp_path)
    made.joined(trial.core, ("a", "b"))
    yield trial
    trial.close()


def trained(fleet, name="a", parts=None):
    device = fleet.devices[name]
    device.trains(fleet.core, 1, fleet.core.state.base, parts or made.parts_of(name, 1))
    return device


def spec(fleet, **changes):
    terms = fleet.core.terms.expected
    contract = {**terms.contract.announced(), **changes}
    return RoundSpec("r1", terms.recipe.name, contract, to_plain(fleet.core.terms.hyper))


def test_a_run_that_was_masked_once_is_masked_for_good(fleet):
    device = trained(fleet)
    assert device.masker.is_masked("r1")
    assert not device.masker.is_masked("another")
    device.masker.begin(spec(fleet, masks=None))
    device.start()
    assert device.masker.is_masked("r1")
    letter = decode_letter(device.masker.letter(device.store.upload("r1", 1)))
    assert letter == Readiness("a", {})


def test_an_owner_may_want_no_other_rounds(fleet):
    device = trained(fleet)
    careful = Masker("a", device.store, Log(io.StringIO()), only=True)
    careful.announced(spec(fleet))
    with pytest.raises(LinkError, match="not masked"):
        careful.announced(spec(fleet, masks=None))
    assert not careful.speaks_plainly("r1")


def test_nothing_is_said_plainly_before_it_is_known_that_it_may_be(fleet):
    device = fleet.devices["c"]
    assert not device.masker.speaks_plainly("r1")
    device.masker.announced(spec(fleet, masks=None))
    assert device.masker.speaks_plainly("r1")
    device.masker.announced(spec(fleet))
    assert not device.masker.speaks_plainly("r1")


def test_what_has_no_room_is_said_before_anything_is_sent(fleet):
    device = trained(fleet, parts={"prototypes": Prototypes([0], [[200.0, 0, 0, 0]], [3])})
    with pytest.raises(FusionError, match="at most 128 has room"):
        device.masker.letter(device.store.upload("r1", 1))


def test_a_word_that_is_wrong_ends_the_seat_and_says_so_in_one_line(fleet):
    device = trained(fleet)
    wrong = Agreement(b"s" * 16, ("a", "b", "c", "d"), 1, "another layout", "round 1")
    assert not device.masker.hears("r1", 1, wrong)
    assert "no part in a masked sum" in device.log.stream.getvalue()
    assert device.store.seat("r1", 1) is None  # nothing was said yet: it may be asked again


def test_a_settled_round_keeps_its_session_and_nothing_else(fleet):
    fleet.run()
    device = fleet.devices["a"]
    before = device.store.seat("r1", 1)
    assert before.memory
    assert before.letter
    device.store.settle("r1", 1, "accepted", "", "", 1)
    after = device.store.seat("r1", 1)
    assert (after.session, after.memory, after.letter) == (before.session, b"", b"")
    again = Agreement(b"t" * 16, fleet.agreements[0].devices, 1, "", "round 1")
    assert not device.masker.hears("r1", 1, again)
    assert "a second group for round 1" in device.log.stream.getvalue()


def test_words_of_runs_and_rounds_that_are_not_here(fleet):
    device = trained(fleet)
    word = Agreement(b"s" * 16, ("a", "b", "c"), 0, "", "round 9")
    assert not device.masker.hears("r1", 9, word)
    assert not device.masker.hears("another", 1, word)
    assert device.masker.digest("another", 1) == ""


def joined(folder, names):
    """Members of one fleet, by name."""
    office = Office(folder, "orchard", time.time)
    try:
        return {name: membership.joined(office, name, folder / name) for name in names}
    finally:
        office.close()


def test_members_mask_with_members(tmp_path):
    trial = MaskedFleet(tmp_path / "fleet", members=joined(tmp_path / "trust", AGENTS))
    assert trial.run() == trial.plain(AGENTS)
    (sent,) = {m for name, kind, m in trial.letters if (name, kind) == ("a", "PublicKeys")}
    assert len(decode_letter(wire.unseal(sent)[1]).voucher) > 300
    trial.close()


@pytest.mark.parametrize("how", ["by nobody", "by another fleet"])
def test_a_device_that_a_coordinator_made_up_is_masked_with_by_no_member(tmp_path, how):
    members = joined(tmp_path / "trust", AGENTS[:-1])
    if how == "by another fleet":
        members |= joined(tmp_path / "elsewhere", AGENTS[-1:])
    trial = MaskedFleet(tmp_path / "fleet", dropouts=1, members=members)
    before = trial.core.journal.state(0)[1].sha256
    assert trial.run() == before
    assert "shared their secrets" in trial.core.journal.cut(1).failed
    for name in AGENTS[:-1]:
        words = trial.devices[name].log.stream.getvalue()
        assert words.count("no part in a masked sum") == 1
    assert not trial.masked()
    trial.close()
