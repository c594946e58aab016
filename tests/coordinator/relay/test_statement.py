"""What a site says of a ledger: a function of what is in it, and of nothing else."""

from itertools import permutations

from coordinator.ledger.ledger import Ledger
from coordinator.ledger.versions import CountTotal
from coordinator.relay import statement
from coordinator.relay.statement import SiteVoice
from protofleet.exchange import contributed, relayed
from tests.contributing import FLEET, LINEAGE, read

VOICE = SiteVoice(FLEET, "north", "r1")
HAVE = {"a": ("plum", "apple"), "b": ("pear",), "c": ("apple", "quince")}


def test_the_order_of_arrivals_leaves_no_trace():
    messages = set()
    for order in permutations(HAVE):
        ledger = Ledger(LINEAGE).plus("x", read("x", ["fig"]))
        for agent in order:
            ledger = ledger.plus(agent, read(agent, HAVE[agent]))
        messages.add(statement.sums(ledger.without("x", read("x", ["fig"])), VOICE))
    assert len(messages) == 1
    said = relayed.read(messages.pop())
    assert said.claim.classes == ("apple", "pear", "plum", "quince")
    assert (said.claim.members, said.claim.holders) == (("a", "b", "c"), (2, 1, 1, 1))
    assert (said.envelope.agent, said.envelope.run, said.envelope.epoch) == ("north", "r1", None)


def test_of_nothing_it_says_so_and_who_does_not_contribute_has_not_counted():
    said = contributed.read(statement.sums(Ledger(LINEAGE), VOICE))
    assert isinstance(said, contributed.Withdrawal)
    assert statement.counted(CountTotal("ab"), Ledger(LINEAGE), VOICE) is None
