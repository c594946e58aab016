"""A rogue's message takes the place of its own; one that would be refused is not there."""

import numpy as np
import pytest

from coordinator.config import UploadLimits
from protofleet import wire
from protofleet.errors import FusionError
from protofleet.values.prototypes import Prototypes
from simulators.rogues.crew import MeasuredCrew, RogueCrew, overheard
from simulators.run.setup import prepare
from simulators.run.workers import upload_message


class Silent:
    """A crew whose devices all have the same mean."""

    def __init__(self, setup):
        self.setup, self.closed = setup, False

    def receive(self, round, state):
        self.state = state

    def work(self, round, agents):
        means = Prototypes([0], np.ones((1, self.setup.contract.embedding)), [7])
        return {
            a: upload_message(self.setup, a, 1, "0" * 64, {"prototypes": means}) for a in agents
        }

    def evaluate(self, round, *, common=False):
        return {agent: {} for agent in self.setup.agents}

    def close(self):
        self.closed = True


@pytest.fixture
def setup(small_lab):
    return prepare(small_lab("fedproto"))


def test_only_the_rogues_messages_change_and_they_are_not_evaluated(setup):
    def doubled(parts, view):
        own = parts["prototypes"]
        return {"prototypes": Prototypes(own.classes, 2 * own.vectors, own.counts)}

    one, *others = setup.agents
    crew = RogueCrew(Silent(setup), setup, [one], doubled)
    messages = crew.work(1, setup.agents)
    sizes = {a: wire.decode(m).body["prototypes"].vectors.max() for a, m in messages.items()}
    assert sizes == {one: 2.0, **dict.fromkeys(others, 1.0)}
    assert sorted(crew.evaluate(1)) == sorted(others)
    assert (crew.tried, crew.admitted) == (1, 1)


def test_what_is_refused_or_cannot_be_folded_is_not_sent(setup):
    def stumbles(parts, view):
        raise FusionError("no")

    attacks = [
        stumbles,
        lambda parts, view: {"prototypes": Prototypes([0], np.ones((1, 3)), [1])},
        lambda parts, view: {"other": parts["prototypes"]},
    ]
    for attack in attacks:
        crew = RogueCrew(Silent(setup), setup, setup.agents[:1], attack)
        with_rogue = crew.work(1, setup.agents)
        assert sorted(with_rogue) == sorted(setup.agents[1:])
        assert (crew.tried, crew.admitted) == (1, 0)


def test_figures_of_every_upload_are_noted(setup):
    crew = MeasuredCrew(Silent(setup))
    crew.work(1, setup.agents[:2])
    crew.work(2, setup.agents[:1])
    assert {agent: len(own) for agent, own in crew.figures.items()} == {
        setup.agents[0]: 2,
        setup.agents[1]: 1,
    }
    (own,) = crew.figures[setup.agents[1]]
    assert own == UploadLimits(1.0, own.norm, 7, 7, 0.0)
    crew.close()


def test_a_rogue_says_as_much_as_is_let_in_and_reads_what_others_say(setup):
    def boldest(parts, view):
        own = parts["prototypes"]
        return {"prototypes": Prototypes(own.classes, own.vectors * view.limits.norm, own.counts)}

    one, *_ = setup.agents
    crew = RogueCrew(Silent(setup), setup, [one], boldest)
    vectors = wire.decode(crew.work(1, setup.agents)[one]).body["prototypes"].vectors
    assert setup.config.admission.norm / 2 < np.linalg.norm(vectors[0])
    rows = {"a": [[1.0, 2.0]], "b": [[3.0, 4.0], [5.0, 6.0]]}
    messages = {
        name: wire.encode(
            wire.Envelope("upload", "f"), {"prototypes": Prototypes(range(len(r)), r, [7] * len(r))}
        )
        for name, r in rows.items()
    }
    heard = overheard(messages)["prototypes"]
    assert heard.classes.tolist() == [0, 1]
    assert heard.vectors.tolist() == [[1.0, 2.0], [5.0, 6.0]]
