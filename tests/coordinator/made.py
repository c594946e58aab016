"""A coordinator's core on a journal in a folder, and uploads for it, without a broker."""

import io
import json
from dataclasses import replace
from hashlib import sha256

import numpy as np

from coordinator.config import LedgerSection, RolloutSection
from coordinator.core import Core, Terms
from coordinator.devices import Patience
from coordinator.journal.journal import Journal
from coordinator.messages import Messages
from coordinator.rounds import selection
from coordinator.rounds.machine import RoundRules
from coordinator.uploads.fuse import fuse_round
from coordinator.uploads.validation import Expected
from protofleet import registry, wire
from protofleet.budget.private import of_contract
from protofleet.contract import Contract, Input
from protofleet.exchange import archive, published
from protofleet.exchange.published import About, Bank
from protofleet.exchange.state import GlobalState, Upload
from protofleet.mqtt.topics import Topics
from protofleet.recipe import Turn
from protofleet.settings.fields import to_plain
from protofleet.util.logs import Log
from protofleet.values.prototypes import Prototypes
from tests.contributing import LINEAGE, WIDTH

TOPICS = Topics("orchard")
CONTRACT = Contract(
    "orchard", "r1", 0, ("apple", "pear", "plum"), Input("vector", (4,)), embedding=4
)
AGENTS = ("a", "b", "c")


def core(
    folder,
    *,
    rounds=3,
    min_agents=3,
    timeout=60.0,
    quorum=0.8,
    cut=None,
    staleness=0,
    share=1.0,
    method="fedproto",
    contract=CONTRACT,
    hyper=None,
    silence=300.0,
    devices=10_000,
    ledger=None,
    enrol="auto",
    rollout=None,
    sites=(),
    is_site=False,
):
    journal, topics = Journal(folder, lambda: 0.0), Topics(contract.fleet)
    recipe = registry.load(method)
    hyper = hyper or recipe.hyper()
    under = of_contract(recipe, contract, hyper)  # a budget, where the contract has one
    recipe = recipe if under is None else under.recipe
    expected = Expected(contract.fleet, contract.run, recipe, contract, sites=sites)
    rules = RoundRules(
        lambda n, who: selection.participants(contract, n, who, share),
        rounds,
        min_agents,
        quorum,
        timeout,
        cut,
        least=1 if contract.masks is None else contract.masks.least,
    )
    terms = Terms(
        expected,
        hyper,
        staleness,
        share >= 1,
        Patience(100.0, silence),
        enrol,
        devices,
        ledger or LedgerSection(),
        rollout or RolloutSection(),
        under,
        is_site=is_site,
    )
    messages = Messages(topics, contract, recipe, hyper, 1, "boot", 131_072)
    return Core(journal, rules, terms, topics, messages, Log(io.StringIO()))


def birth(agent, online=True, boot="b1", fleet="orchard", **more):
    body = {
        "online": online,
        "version": "1",
        "wire": [1],
        "classes": ["apple"],
        "samples": 5,
        **more,
    }
    message = wire.encode(wire.Envelope(t="birth", fleet=fleet, agent=agent, boot=boot), body)
    return TOPICS.parse(TOPICS.state(agent)), message


def parts_of(agent, round, dim=4):
    """Some prototypes that differ by agent and round."""
    rng = np.random.default_rng([round, *agent.encode()])
    classes = np.sort(rng.choice(3, 2, replace=False))
    return {"prototypes": Prototypes(classes, rng.normal(size=(2, dim)), np.array([3, 4]))}


def upload(agent, round, base, parts=None, **envelope):
    held = {
        "t": "upload",
        "fleet": "orchard",
        "run": "r1",
        "epoch": 1,
        "agent": agent,
        "boot": "b1",
        "seq": round,
    }
    held |= {"round": round, "method": "fedproto", "base": base, **envelope}
    message = wire.encode(wire.Envelope(**held), parts_of(agent, round) if parts is None else parts)
    return TOPICS.parse(TOPICS.upload(agent, round)), message


def parsed(topic):
    """What a topic of any fleet is about."""
    return Topics(topic.split("/")[2]).parse(topic)


def as_sent(agent, round):
    return wire.decode(upload(agent, round, "00" * 32)[1]).body


def expected(made, rounds, agents=AGENTS):
    """The states of an undisturbed run."""
    state = made.journal.state(0)[1]
    recipe, hyper = made.terms.expected.recipe, made.terms.hyper
    for r in range(1, rounds + 1):
        uploads = [Upload(a, r, state.base, as_sent(a, r)) for a in agents]
        state = fuse_round(recipe, Turn(CONTRACT, hyper, r), state, uploads)
    return state


def receipts(said):
    """(agent, status, reason) of every receipt among publications."""
    found = []
    for each in said:
        place = parsed(each.topic)
        if place.kind == "receipt":
            body = wire.decode(each.payload).body
            found.append((place.agent, body["status"], body.get("reason", "")))
    return found


def announced(said):
    """The last announcement among publications, as (round, phase, base)."""
    rounds = [wire.decode(p.payload) for p in said if parsed(p.topic).kind == "round"]
    return (
        (rounds[-1].envelope.round, rounds[-1].body["phase"], rounds[-1].envelope.base)
        if rounds
        else None
    )


def joined(made, agents=AGENTS, now=0.0):
    """Recover, and let the devices join: the announcement of the first round."""
    said = made.recover(now)
    return announced(said + made.take([birth(a, fleet=made.topics.fleet) for a in agents], now))


def packed_bundle(path, bank, report=None, **changes):
    """A bundle as far as a coordinator looks into it: prototypes, and a manifest with the hashes of
    what is there; a report where one is given.
    """
    message = published.write(bank, wire.Envelope("global", "f"))
    files = {"model.onnx": b"a graph", "prototypes.cbor": message, "selftest.npz": b"vectors"}
    files |= {} if report is None else {archive.REPORT: report}
    manifest = {
        "schema": archive.SCHEMA,
        "files": {name: sha256(data).hexdigest() for name, data in files.items()},
        "state": wire.decode(message).digest,
    }
    path.write_bytes(
        archive.pack({archive.MANIFEST: json.dumps(manifest | changes).encode(), **files})
    )
    return path


LEARNT = GlobalState(
    shared={"prototypes": Prototypes(np.arange(2), np.array([[0, 0, 1], [0, 4, 1]], np.float32))}
)
ANTS = Bank(
    About("extractor:e", ("ant", "bee")), Prototypes(np.arange(2), np.eye(2, 3, dtype=np.float32))
)


def learnt(folder):
    """A core after a round of three-dimensional prototypes."""
    made = core(folder)
    made.recover(0.0)
    made.state, made.base_round = LEARNT, 1
    return made


def frozen(made, bank=ANTS, **changes):
    """Make a bundle the fleet's extractor; its bytes."""
    file = packed_bundle(made.journal.directory / "b.pfb", bank, **changes)
    made.classes("freeze", {"file": str(file)}, 0.0)
    return file.read_bytes()


def banks(publications):
    """What is classified with, where it was published."""
    topics = [p for p in publications if p.topic.endswith("/g/stable/proto")]
    return [published.read(p.payload).bank for p in topics]


def ledger(folder, *, classes=("plum", "apple"), masks=None, **changes):
    """A core whose run is a ledger, under an extractor that knows no class; nothing waits."""
    contract = replace(CONTRACT, classes=classes, masks=masks)
    rules = changes.pop("rules", LedgerSection(interval=0.0, settle=10.0))
    made = core(folder, method="fleet", contract=contract, ledger=rules, **changes)
    made.recover(0.0)
    if not made.catalogue.versions[-1].frozen:
        frozen(made, Bank(About(LINEAGE, ()), Prototypes([], np.zeros((0, WIDTH)))))
    return made


def agreed(made):
    """The same core, with what its service would have written down of method and contract."""
    terms = made.terms
    agreement = {
        "method": terms.expected.recipe.name,
        "settings": to_plain(terms.hyper),
        "contract": to_plain(terms.expected.contract),
    }
    with made.journal.commit():
        made.journal.set_meta("agreement", json.dumps(agreement))
    return made


def totals(publications):
    """What is to be counted against, where it was published."""
    return [p.payload for p in publications if p.topic.endswith("/g/total/proto")]
