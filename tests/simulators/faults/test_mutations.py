"""Well-formed uploads of wrong content: whatever they are, the coordinator answers, the round ends,
a restart works.
"""

import io
import random

import pytest

from coordinator.core import Core, Terms
from coordinator.devices import Patience
from coordinator.journal.journal import Journal
from coordinator.messages import Messages
from coordinator.rounds.machine import RoundRules
from coordinator.uploads.validation import Expected
from protofleet import registry, wire
from protofleet.errors import FleetError
from protofleet.mqtt.topics import Topics
from protofleet.util.logs import Log
from simulators.faults.mutations import mutated
from simulators.run.setup import prepare
from simulators.run.workers import Here
from tests.contributing import arrived, counted, message
from tests.coordinator import made as ledgers

TOPICS = Topics("lab")
SEEDS, LEDGER_SEEDS = 8, 120
NAMES = ("plum", "apple")


def core_of(setup, folder):
    messages = Messages(TOPICS, setup.contract, setup.recipe, setup.hyper, 1, "boot", 131_072)
    terms = Terms(
        Expected("lab", setup.contract.run, setup.recipe, setup.contract),
        setup.hyper,
        0,
        True,
        Patience(100.0, 300.0),
    )
    rules = RoundRules(lambda number, agents: sorted(agents), 1, 3, 0.8, 60.0)
    return Core(Journal(folder, lambda: 0.0), rules, terms, TOPICS, messages, Log(io.StringIO()))


def birth(agent):
    body = {"online": True, "version": "1", "wire": [1], "classes": [], "samples": 1}
    return TOPICS.parse(TOPICS.state(agent)), wire.encode(
        wire.Envelope("birth", "lab", agent=agent, boot="b"), body
    )


def changed(setup, message, rng):
    honest = wire.decode(message)
    try:
        return wire.encode(
            honest.envelope,
            mutated(honest.body, rng),
            setup.contract.wire,
            exceptions=setup.recipe.precision,
        )
    except FleetError:
        return message


@pytest.mark.parametrize(
    "method", [n for n in registry.names() if n != "local" and not registry.load(n).traits.frozen]
)
def test_two_strange_uploads_and_an_honest_one(small_lab, tmp_path, method):
    setup = prepare(small_lab(method, agents=3, rounds=1))
    first = core_of(setup, tmp_path / "start")
    first.recover(0.0)
    crew = Here(setup, setup.agents)
    crew.receive(0, first.state)
    honest = crew.work(1, setup.agents)
    for seed in range(SEEDS):
        rng = random.Random(seed)
        core = core_of(setup, tmp_path / str(seed))
        core.recover(0.0)
        core.take([birth(agent) for agent in setup.agents], 0.0)
        order = rng.sample(setup.agents, 3)
        for agent in order:
            payload = honest[agent] if agent == order[-1] else changed(setup, honest[agent], rng)
            place = TOPICS.parse(TOPICS.upload(agent, 1))
            said = core.take([(place, payload)], 1.0)
            receipts = [p for p in said if TOPICS.parse(p.topic).kind == "receipt"]
            told = [(TOPICS.parse(p.topic).agent, wire.decode(p.payload).body) for p in receipts]
            assert [body["status"] for to, body in told if to == agent] in (
                ["accepted"],
                ["refused"],
            )
            # The last upload closes the round: whoever turns out to be unlike the most is told
            # then.
            assert all(
                (body["status"], body["reason"]) == ("refused", "unlike")
                for to, body in told
                if to != agent
            )
        core.take([], 100.0)
        core.journal.close()
        core_of(setup, tmp_path / str(seed)).recover(0.0)


def test_strange_contributions_and_counts_end_no_ledger_and_can_be_taken_away_again(tmp_path):
    """Whatever is let in, honest devices are, too, and without the strangers nothing is left of
    them.
    """
    made, never = (ledgers.ledger(tmp_path / name) for name in ("made", "never"))
    honest = [arrived(a, message(a, NAMES, n)) for n, a in enumerate("ab")]
    never.take(honest, 1.0)
    made.take(honest[:1], 1.0)
    (total,) = [p for p in ledgers.totals(made.take([], 50.0)) if p]
    for seed in range(LEDGER_SEEDS):
        rng, name = random.Random(seed), f"x{seed}"
        payload = message(name, NAMES, seed)
        if rng.random() < 0.3:
            payload = counted("a", NAMES, total)
            name = "a"
        strange = wire.decode(payload)
        try:
            payload = wire.encode(strange.envelope, mutated(strange.body, rng), "float32")
        except FleetError:
            continue
        made.take([arrived(name, payload)], 50.0 + seed)
        assert not made.keeper.trouble
    made.take(honest[1:], 500.0)
    strangers = [agent for agent in made.keeper.ledger.agents if agent.startswith("x")]
    assert strangers  # some changes are none that could be told from an honest device
    for agent in strangers:
        made.forget(agent, 600.0)
    assert made.keeper.version.total == never.keeper.version.total
    assert made.keeper.version.state.sha256 == never.keeper.version.state.sha256
