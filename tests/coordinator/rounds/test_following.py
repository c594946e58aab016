"""Rounds of a method that trains, at two sites and above them, carried by hand."""

import pytest

from coordinator.relay import statement
from coordinator.relay.statement import SiteVoice
from coordinator.rounds.following import RoundAbove
from protofleet import wire
from protofleet.exchange.state import GlobalState
from tests.coordinator.made import (
    TOPICS,
    announced,
    as_sent,
    birth,
    core,
    expected,
    receipts,
    upload,
)

AT = {"north": "ab", "south": "cde"}
EVERYBODY = "abcde"


class RoundsAtSites:
    """A top and two sites; what each says is carried by hand."""

    def __init__(self, folder, rounds=2):
        self.top = core(folder / "top", min_agents=2, rounds=rounds, sites=tuple(AT), quorum=0.5)
        self.at = {}
        for site, agents in AT.items():
            made = core(folder / site, min_agents=1, rounds=None, quorum=0.0, is_site=True)
            made.recover(0.0)
            made.take([birth(agent) for agent in agents], 0.0)
            self.at[site] = made
        self.top.recover(0.0)
        self.word = announced(self.top.take([birth(s, site=True) for s in AT], 0.0))

    def opens(self, site, now):
        """What the top announced is heard there."""
        number, phase, base = self.word
        return self.at[site].follow_round(RoundAbove(number, base, phase == "open"), now)

    def answer(self, site, now, who=None):
        made = self.at[site]
        number, base = made.run_state.number, made.state.base
        return made.take([upload(a, number, base) for a in who or AT[site]], now)

    def up(self, site, now):
        """The site's upload; what the top says to it."""
        number, message = statement.upload(self.at[site], SiteVoice("orchard", site, "r1"))
        said = self.top.take([(TOPICS.parse(TOPICS.upload(site, number)), message)], now)
        self.word = announced(said) or self.word
        return said

    def down(self, site, said, now):
        (train,) = [p.payload for p in said if p.topic == TOPICS.shared_state]
        message = wire.decode(train)
        state = GlobalState(message.body)
        assert state.base == message.envelope.base
        return self.at[site].follow_state(message.envelope.round, state, now)


@pytest.fixture
def made(tmp_path):
    return RoundsAtSites(tmp_path)


def test_two_rounds_end_in_the_states_of_all_devices_under_one(made):
    for number in (1, 2):
        now = float(number)
        for site in AT:
            assert announced(made.opens(site, now))[:2] == (number, "open")
            made.answer(site, now)
            assert made.at[site].awaits_state
        made.up("north", now)
        said = made.up("south", now)
        for site in AT:
            made.down(site, said, now)
            assert not made.at[site].awaits_state
        alone = expected(made.top, number, EVERYBODY)
        assert made.top.journal.state(number)[1].sha256 == alone.sha256
        assert {core.state.base for core in made.at.values()} == {alone.base}


def test_a_site_says_the_same_after_a_restart(made, tmp_path):
    made.opens("north", 1.0)
    made.answer("north", 1.0)
    voice = SiteVoice("orchard", "north", "r1")
    before = statement.upload(made.at["north"], voice)
    made.at["north"].journal.close()
    again = core(tmp_path / "north", min_agents=1, rounds=None, quorum=0.0, is_site=True)
    again.recover(2.0)
    assert again.awaits_state
    assert statement.upload(again, voice) == before


def test_a_site_that_was_away_goes_on_with_the_round_that_is_open(made):
    made.opens("north", 1.0)
    made.answer("north", 1.0, "a")  # and `b` would have answered later
    for number in (1, 2):
        made.opens("south", 1.0)
        made.answer("south", 1.0)
        said = made.up("south", 1.0)
        if number == 1:
            # Nobody waits for north for ever: at the deadline the top goes on.
            said = made.top.take([], 62.0)
            made.word = announced(said) or made.word
            made.down("south", said, 2.0)
            late = said
    made.down("north", late, 3.0)
    assert announced(made.opens("north", 3.0))[:2] == (2, "open")
    made.answer("north", 3.0)
    made.up("north", 3.0)
    assert made.top.run_state.phase == "done"


def test_who_is_no_site_or_in_the_round_already_is_refused(made):
    for site in AT:
        made.opens(site, 1.0)
    made.answer("north", 1.0)
    number, message = statement.upload(made.at["north"], SiteVoice("orchard", "south", "r1"))
    place = TOPICS.parse(TOPICS.upload("south", number))
    made.up("north", 1.0)
    assert receipts(made.top.take([(place, message)], 1.0)) == [("south", "refused", "conflict")]
    made.top.take([birth("x"), birth("a")], 1.0)
    base = made.word[2]
    assert receipts(made.top.take([upload("a", 1, base)], 1.0))[0][2] in ("conflict", "not-asked")
    stranger = wire.decode(message).body
    assert receipts(made.top.take([upload("x", 1, base, stranger)], 1.0))[0][2] == "no-site"
    assert as_sent("a", 1)
