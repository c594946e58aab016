"""Sites and a fleet above them, without a network: what the top comes to is what all devices come
to under one coordinator.
"""

from dataclasses import replace

import numpy as np
import pytest

from coordinator.config import LedgerSection, UploadLimits
from coordinator.ledger import sites
from coordinator.ledger.above import Above
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.sites import SiteLimits
from coordinator.relay import statement
from coordinator.relay.statement import SiteVoice
from coordinator.service.replay import replayed
from protofleet import registry
from protofleet.errors import UsageError
from protofleet.exchange import contributed, relayed
from protofleet.exchange.contributed import Claim
from protofleet.statistics.contribution import MEANS, SCATTER
from protofleet.wire import Envelope
from tests.contributing import FLEET, LINEAGE, WIDTH, arrived, counted, message, read
from tests.coordinator.made import agreed, banks, ledger, receipts, totals
from tests.gathered import CLASSES, MASKS, GatheredFleet, plain
from tests.gathered import HAVE as MASKED

HAVE = {
    "a": ("apple", "plum"),
    "b": ("plum", "apple", "pear"),
    "c": ("pear", "apple"),
    "d": ("plum", "quince"),
    "e": ("apple", "quince"),
}
AT = {"north": "ab", "south": "cde"}
RULES = LedgerSection(interval=0.0, settle=10.0, asked=1000)
LIMITS = SiteLimits(tuple(AT), LINEAGE, WIDTH)


def alone(folder, who="abcde", seeds=None, **more):
    """All of them under one coordinator: its state once everybody counted."""
    made, seeds = ledger(folder, rules=RULES, **more), seeds or {}
    made.take([arrived(a, message(a, HAVE[a], seeds.get(a, 0))) for a in who], 1.0)
    (total,) = totals(made.take([], 21.0))
    made.take([arrived(a, counted(a, HAVE[a], total, seeds.get(a, 0))) for a in who], 22.0)
    made.take([], 43.0)
    assert made.keeper.version.knowledge.calibration.current
    return made


class Sites:
    """A top and two sites, and a clock: what each says is carried by hand."""

    def __init__(self, folder, **more):
        self.top = agreed(ledger(folder / "top", rules=RULES, sites=tuple(AT), **more))
        self.at = {name: ledger(folder / name, rules=RULES, **more) for name in AT}
        self.now = 1.0

    def say(self, site, seeds=None, who=None):
        """Devices contribute at their site."""
        who = AT[site] if who is None else who
        sent = [arrived(a, message(a, HAVE[a], (seeds or {}).get(a, 0))) for a in who]
        return self.at[site].take(sent, self.now)

    def up(self, site):
        """The site says what its devices come to."""
        keeper = self.at[site].keeper
        voice = SiteVoice(FLEET, site, "r1")
        said = [statement.sums(keeper.ledger, voice)]
        if keeper.tally.total and keeper.tally.total == keeper.offered.total:
            counts = statement.counted(keeper.tally, keeper.ledger, voice)
            said += [] if counts is None else [counts]
        return [r for one in said for r in receipts(self.top.take([arrived(site, one)], self.now))]

    def down(self):
        """What the top says is heard at the sites; whoever is there then counts."""
        self.now += 21.0
        self.top.take([], self.now)
        said = self.top.greetings()
        (classes,) = [p.payload for p in said if p.topic.endswith("/g/stable/proto")]
        total = (totals(said) or [b""])[-1]
        for made in self.at.values():
            made.follow(Above(classes, total))
        return total

    def count(self, seeds=None, but=""):
        """Everybody that is asked counts, and the sites say so."""
        total, seeds = self.down(), seeds or {}
        for site, made in self.at.items():
            who = [a for a in AT[site] if made.keeper.ledger.of(a) and a not in but]
            sent = [arrived(a, counted(a, HAVE[a], total, seeds.get(a, 0))) for a in who]
            made.take(sent, self.now)
            self.up(site)
        self.now += 21.0
        self.top.take([], self.now)
        return self.top.state.sha256


@pytest.fixture
def tree(tmp_path):
    made = Sites(tmp_path)
    for site in AT:
        made.say(site)
        assert made.up(site) == [(site, "accepted", "")]
    return made


@pytest.mark.parametrize("buckets", [1, 5])
def test_the_top_of_two_sites_has_the_state_of_all_devices_under_one(tmp_path, buckets):
    hyper = replace(registry.load("fleet").hyper(), buckets=buckets)
    made = Sites(tmp_path, hyper=hyper)
    for site in AT:
        made.say(site)
        made.up(site)
    one = alone(tmp_path / "one", hyper=hyper)
    assert made.count() == one.state.sha256
    top = made.top.keeper
    assert (top.ledger.agents, top.ledger.devices) == (list(HAVE), one.keeper.ledger.devices)
    assert top.held_out == one.keeper.held_out
    assert top.tally.devices == set(HAVE)
    assert top.confusion[1].pairs.tolist() == one.keeper.confusion[1].pairs.tolist()
    assert [r.verdict for r in replayed(made.top.journal)][-1] == "same"


def test_a_site_says_the_same_again_and_nothing_changes(tree):
    before, version = tree.top.keeper.ledger, tree.top.keeper.number
    assert tree.up("north") == [("north", "accepted", "")]
    assert (tree.top.keeper.ledger, tree.top.keeper.number) == (before, version)


def test_a_changed_contribution_and_a_withdrawal_reach_the_top(tree, tmp_path):
    tree.count()
    tree.say("north", {"a": 5}, "a")
    tree.up("north")
    assert tree.count({"a": 5}) == alone(tmp_path / "one", seeds={"a": 5}).state.sha256
    head = Envelope("enrol", FLEET, agent="c", method=contributed.WITHDRAW)
    back = contributed.write_withdrawal(Claim(LINEAGE), head)
    tree.at["south"].take([arrived("c", back)], tree.now)
    tree.up("south")
    assert tree.count({"a": 5}) == alone(tmp_path / "two", "abde", {"a": 5}).state.sha256


def test_a_device_that_a_site_forgets_is_gone_above_as_if_it_had_never_been(tree, tmp_path):
    tree.count()
    body = message("b", HAVE["b"])
    tree.at["north"].forget("b", tree.now)
    # Nobody there counts against a total that it is in any more.
    assert tree.at["north"].keeper.offered.total == ""
    tree.up("north")
    # Nor does anybody above, and what was counted with it is gone.
    assert (tree.top.keeper.tally.devices, tree.top.keeper.offered.total) == (frozenset(), "")
    assert tree.count() == alone(tmp_path / "one", "acde").state.sha256
    assert "b" not in tree.top.keeper.ledger.agents
    assert body not in (tree.top.journal.directory / "journal.db").read_bytes()


def test_a_site_without_anybody_takes_back_what_it_said(tree, tmp_path):
    for agent in AT["north"]:
        tree.at["north"].forget(agent, tree.now)
    assert tree.up("north") == [("north", "accepted", "")]
    assert tree.top.keeper.ledger.agents == list(AT["south"])
    assert tree.count() == alone(tmp_path / "one", AT["south"]).state.sha256


def test_the_top_forgets_a_site_whole_and_a_sites_device_not_at_all(tree, tmp_path):
    with pytest.raises(UsageError, match="a is a device of the site north"):
        tree.top.forget("a", tree.now)
    tree.top.forget("north", tree.now)
    assert tree.top.keeper.ledger.agents == list(AT["south"])


def test_a_device_is_in_one_sum_only(tree):
    tree.at["south"].take([arrived("a", message("a", HAVE["a"]))], tree.now)
    assert tree.up("south") == [("south", "refused", "conflict")]
    ((_, status, code),) = receipts(
        tree.top.take([arrived("b", message("b", HAVE["b"]))], tree.now)
    )
    assert (status, code) == ("conflict", "conflict")
    # Where it is forgotten at the one, the other's sum is taken.
    tree.at["north"].forget("a", tree.now)
    tree.up("north")
    assert tree.up("south") == [("south", "accepted", "")]


def test_a_site_of_a_site_is_in_its_sum(tmp_path):
    made = Sites(tmp_path)
    made.at["north"] = ledger(tmp_path / "further", rules=RULES, sites=("south",))
    made.say("south")
    made.say("north")
    south = statement.sums(made.at["south"].keeper.ledger, SiteVoice(FLEET, "south", "r2"))
    assert receipts(made.at["north"].take([arrived("south", south)], 2.0))[0][1] == "accepted"
    made.up("north")
    total = made.down()
    for site in ("south", "north"):
        sent = [arrived(a, counted(a, HAVE[a], total)) for a in AT[site]]
        made.at[site].take(sent, made.now)
    keeper = made.at["south"].keeper
    words = statement.counted(keeper.tally, keeper.ledger, SiteVoice(FLEET, "south", "r2"))
    assert receipts(made.at["north"].take([arrived("south", words)], made.now))[0][1] == "accepted"
    made.up("north")
    made.top.take([], made.now + 21.0)
    assert made.top.state.sha256 == alone(tmp_path / "one").state.sha256


def test_a_restart_of_the_top_and_of_a_site_ends_in_the_same(tree, tmp_path):
    state = tree.count()
    tree.top.journal.close()
    again = ledger(tmp_path / "top", rules=RULES, sites=tuple(AT))
    assert again.state.sha256 == state
    assert again.keeper.tally.devices == set(HAVE)
    assert again.keeper.ledger.site_of("a") == "north"
    sums = statement.sums(tree.at["north"].keeper.ledger, SiteVoice(FLEET, "north", "r1"))
    tree.at["north"].journal.close()
    north = ledger(tmp_path / "north", rules=RULES)
    assert statement.sums(north.keeper.ledger, SiteVoice(FLEET, "north", "r1")) == sums


def test_a_sites_devices_hear_what_the_fleet_above_says(tree):
    tree.down()
    (own,) = banks(tree.at["north"].greetings())
    (above,) = banks(tree.top.greetings())
    assert own.about.classes == above.about.classes
    assert (own.about.total, own.about.asked) == (above.about.total, above.about.asked)
    assert np.array_equal(own.points.weight, above.points.weight)
    # Of its own sum there is nothing to be counted against.
    tree.at["north"].take([], tree.now + 100.0)
    assert tree.at["north"].keeper.offered.total == above.about.total


def test_counts_of_who_was_not_asked_or_against_another_total_are_refused(tree):
    total = tree.down()
    north = tree.at["north"]
    north.take([arrived(a, counted(a, HAVE[a], total)) for a in "ab"], tree.now)
    keeper, voice = north.keeper, SiteVoice(FLEET, "south", "r1")
    words = statement.counted(keeper.tally, keeper.ledger, voice)
    ((_, _, code),) = receipts(tree.top.take([arrived("south", words)], tree.now))
    assert code == "not-asked"
    tree.say("south", {"c": 3}, "c")
    tree.up("south")
    tree.down()
    words = statement.counted(keeper.tally, keeper.ledger, SiteVoice(FLEET, "north", "r1"))
    ((_, _, code),) = receipts(tree.top.take([arrived("north", words)], tree.now))
    assert code == "wrong-base"


def test_masks_hold_at_a_site_and_above_it(tmp_path):
    below = GatheredFleet(tmp_path / "north")
    for device in below.devices.values():
        device.contributes()
    below.goes_on()
    more = {"classes": CLASSES, "masks": MASKS, "rules": RULES, "sites": ("north",)}
    top, voice = ledger(tmp_path / "top", **more), SiteVoice(FLEET, "north", "r1")

    def said(payload, now):
        return receipts(top.take([arrived("north", payload)], now))

    keeper = below.core.keeper
    assert said(statement.sums(keeper.ledger, voice), 1.0) == [("north", "accepted", "")]
    # What anybody can read is refused above as it is at the site.
    own = message("a", MASKED["a"])
    assert said(own, 1.0) == receipts(below.core.take([arrived("north", own)], 1.0))
    top.take([], 30.0)
    greetings = top.greetings()
    (classes,) = [p.payload for p in greetings if p.topic.endswith("/g/stable/proto")]
    (total,) = totals(greetings)
    below.core.follow(Above(classes, total))
    for device in below.devices.values():
        device.counts(total)
    below.goes_on()
    words = statement.counted(keeper.tally, keeper.ledger, voice)
    assert said(words, 31.0) == [("north", "accepted", "")]
    top.take([], 60.0)
    assert top.state.sha256 == plain(tmp_path / "plain", dict.fromkeys(MASKED, 0))
    assert top.keeper.tally.devices == set(MASKED)
    top.forget("north", 61.0)
    assert top.keeper.ledger.agents == []
    below.close()


# what is let in


def said(who="ab", **claim):
    """A site's sum as it is read, with these words about it."""
    made = Ledger(LINEAGE)
    for agent in who:
        made = made.plus(agent, read(agent, HAVE[agent]))
    message = relayed.read(statement.sums(made, SiteVoice(FLEET, "north")))
    return replace(message, claim=replace(message.claim, **claim))


def scaled(message, name, factor):
    part = message.partial[name]
    other = replace(part, low=part.low * 0, high=part.high * factor, tall=2.0**60)
    return replace(message, partial={**message.partial, name: other})


@pytest.mark.parametrize(
    ("message", "limits", "code"),
    [
        (said(), LIMITS, None),
        (said(), replace(LIMITS, sites=()), "no-site"),
        (said(lineage="extractor:f"), LIMITS, "other-lineage"),
        (said(buckets=2), LIMITS, "conflict"),
        (said(), replace(LIMITS, devices=1), "many"),
        (said(members=("a", "b/c")), LIMITS, "bad-name"),
        (said(), replace(LIMITS, classes=2), "many"),
        (said(classes=("apple", "pear\n", "plum")), LIMITS, "bad-name"),
        (said(), replace(LIMITS, width=5), "dimension"),
        (said(), replace(LIMITS, figures=UploadLimits(count=2)), "count"),
        (said(), replace(LIMITS, figures=UploadLimits(samples=5)), "count"),
        (said(), replace(LIMITS, figures=UploadLimits(norm=1.0)), "norm"),
        (said(), replace(LIMITS, figures=UploadLimits(trace=0.1)), "trace"),
        (scaled(said(), MEANS, 100), LIMITS, "norm"),
        (scaled(said(), SCATTER, 0), LIMITS, "trace"),
        (scaled(said(), SCATTER, -1), LIMITS, "trace"),
    ],
)
def test_what_no_site_of_honest_devices_says_is_refused(message, limits, code):
    refusal = sites.admitted("north", message, limits)
    assert (None if refusal is None else refusal.code) == code


def test_there_is_room_for_so_many_devices():
    claim = said().claim
    assert sites.too_many(claim, ["a", "c"], 3) is None
    assert sites.too_many(claim, ["c", "d"], 3).code == "many"
