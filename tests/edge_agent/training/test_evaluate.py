"""How well a device classifies: among its own classes and among all."""

import numpy as np
import torch
from torch import nn

from edge_agent.training.batches import SampleTensors
from edge_agent.training.evaluate import Tally, evaluate
from protofleet.contract import Contract, Input
from protofleet.recipe import ByHead, NearestPrototype
from protofleet.values.prototypes import Head, Prototypes
from tests.edge_agent.learning import agents, sent


def test_evaluators_answer_among_own_classes_or_all(setup):
    agent = agents(setup, 1)[0]
    sent(agent)
    agent.receive(2, {"prototypes": agent.work(3)["prototypes"]}, {})
    found = agent.evaluate(2)["test"]
    assert set(found) == {"prototype", "prototype_all_classes", "head", "head_own_classes"}
    own = np.unique(agent.data.train.y.numpy())
    assert found["head"].total.sum() == len(agent.data.test)
    assert (found["head_own_classes"].correct[np.setdiff1d(np.arange(10), own)] == 0).all()


def test_without_samples_there_is_no_accuracy():
    assert Tally(np.zeros(3, int), np.zeros(3, int)).accuracy is None


class Plane(nn.Module):
    """A network whose embedding is its input, and whose classifier says 2 of everything."""

    def features(self, x):
        return x, x

    def head(self, z):
        return torch.tensor([0.0, 0.0, 1.0]).repeat(len(z), 1)


def on_the_plane(scorers, x, y, own=(0, 1)):
    kind = Input("vector", (2,))
    contract = Contract("f", "r", 0, tuple("abc"), kind, 2)
    samples = SampleTensors.of(np.array(x, np.float32), np.array(y), kind)
    splits = {"test": samples, "validation": SampleTensors(samples.x[:0], samples.y[:0])}
    return evaluate(Plane(), scorers, splits, np.array(own), contract)


CORNERS = Prototypes([0, 1, 2], np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]], np.float32))
POINTS, LABELS = [[0, 1], [4, 1], [0, 3], [3, 0]], [0, 1, 2, 1]


def test_prototypes_answer_among_own_classes_unless_all_are_asked():
    tallies = on_the_plane({"prototype": NearestPrototype(CORNERS)}, POINTS, LABELS)["test"]
    assert tallies["prototype"].correct.tolist() == [1, 2, 0]
    assert tallies["prototype_all_classes"].correct.tolist() == [1, 2, 1]
    assert tallies["prototype"].total.tolist() == [1, 2, 1]
    assert (tallies["prototype"].accuracy, tallies["prototype_all_classes"].accuracy) == (0.75, 1)


def test_a_trained_head_answers_among_all_and_one_of_published_rows_as_prototypes_do():
    rows = Head([0, 1, 2], np.array([[-1, -1], [1, 0], [0, 1]]), np.zeros(3))
    scorers = {"head": ByHead(), "rows": ByHead(rows=rows)}
    tallies = on_the_plane(scorers, POINTS, LABELS)["test"]
    assert set(tallies) == {"head", "head_own_classes", "rows", "rows_all_classes"}
    assert tallies["head"].correct.tolist() == [0, 0, 1]  # it says 2 of everything
    assert tallies["rows_all_classes"].correct.tolist() == [0, 2, 1]


def test_a_split_without_samples_has_no_tallies():
    assert on_the_plane({"head": ByHead()}, POINTS, LABELS)["validation"] == {}
