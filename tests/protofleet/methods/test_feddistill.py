"""FedDistill against numbers worked out by hand."""

import numpy as np
import pytest
import torch

from coordinator.uploads.fuse import fuse_round
from protofleet.contract import Contract, Input
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import feddistill
from protofleet.methods.feddistill import Hyper
from protofleet.recipe import Batch, Features, Turn
from protofleet.toolbox.access import as_given
from protofleet.values.prototypes import Prototypes
from protofleet.values.sums import merge

CONTRACT = Contract("f", "r", 0, ("a", "b", "c"), Input("vector", (3,)), 3)


class Identity:
    """A network whose logits are its input."""

    def features(self, x):
        return x, x

    def head(self, z):
        return z


class Device:
    def __init__(self, logits, labels):
        self.seen = Features(
            np.zeros((len(labels), 3)), np.asarray(logits, np.float32), np.asarray(labels)
        )
        self.memory = {}

    def features(self, *, low=False):
        return self.seen


def turn(round=2, **settings):
    return Turn(CONTRACT, Hyper(**settings), round)


def loss(x, y, known, **settings):
    given = {k: torch.from_numpy(v) for k, v in as_given(known, 3, 3).items()}
    return float(
        feddistill.loss(
            Identity(), Batch(torch.tensor(x), torch.tensor(y)), given, Hyper(**settings)
        )
    )


def test_logits_are_pulled_by_their_mean_squared_gap():
    # Equal logits have CE log 3; the gap (1, 2, 0) gives 5 / 6 over two samples, one of them of a
    # class nobody knows.
    known = Prototypes([0], [[1.0, 2.0, 0.0]])
    assert loss([[0.0, 0.0, 0.0]] * 2, [0, 1], known, lam=2.0) == pytest.approx(
        np.log(3) + 2 * 5 / 6
    )
    assert loss([[0.0, 0.0, 0.0]] * 2, [0, 1], None) == pytest.approx(np.log(3))


def test_probabilities_are_pulled_by_kl():
    known = Prototypes([0], [[0.5, 0.5, 0.0]])
    kl = 2 * 0.5 * np.log(0.5 / (1 / 3))
    assert loss([[0.0, 0.0, 0.0]], [0], known, answers="probabilities") == pytest.approx(
        np.log(3) + kl
    )


@pytest.mark.parametrize("answers", ["logits", "probabilities"])
def test_a_device_sends_its_mean_answer_a_class(answers):
    logits = np.log([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]])
    sent = feddistill.summarise(turn(answers=answers), Device(logits, [2, 2]), {})["answers"]
    assert sent.classes.tolist() == [2]
    assert sent.counts is None
    want = logits.mean(0) if answers == "logits" else [0.375, 0.375, 0.25]
    np.testing.assert_allclose(sent.vectors[0], want, rtol=1e-6)


def upload(agent, classes, rows):
    return Upload(agent, 2, "", {"answers": Prototypes(classes, rows)})


A, B = upload("a", [0, 1], [[4.0, 0, 0], [0, 2.0, 0]]), upload("b", [0], [[2.0, 2.0, 0]])


def test_the_fleets_answer_is_the_plain_mean_and_absent_classes_keep_theirs():
    before = GlobalState(shared={"answers": Prototypes([2], [[1.0, 1.0, 7.0]])})
    known = fuse_round(feddistill.recipe, turn(), before, [A, B]).shared["answers"]
    assert known.vectors.tolist() == [[3, 1, 0], [0, 2, 0], [1, 1, 7]]
    assert known.counts is None


def learned_from(device, got, round=3):
    feddistill.receive(turn(round - 1, others=True), device, got)
    given = feddistill.train(turn(round, others=True), device, got)[0].given
    return given["prototypes"].tolist(), given["have"].tolist()


def test_others_takes_the_devices_own_answers_out_of_the_mean():
    device = Device([[4.0, 0, 0], [0, 2.0, 0]], [0, 1])
    assert learned_from(device, {}) == ([[0.0] * 3] * 3, [0.0] * 3)
    feddistill.summarise(turn(others=True), device, {})
    state = fuse_round(feddistill.recipe, turn(others=True), GlobalState(), [A, B])
    assert state.shared["answers"].counts.tolist() == [2, 1]
    rows, have = learned_from(device, {**state.shared, **state.for_agent("a")})
    assert have == [1, 0, 0]  # of class 1 there is nothing but its own
    assert rows[0] == [2, 2, 0]


def test_a_device_that_sat_out_takes_the_mean_as_it_is():
    device = Device([[4.0, 0, 0]], [0])
    feddistill.summarise(turn(others=True), device, {})
    shared = fuse_round(feddistill.recipe, turn(others=True), GlobalState(), [A, B]).shared
    later = fuse_round(feddistill.recipe, turn(3, others=True), GlobalState(shared=shared), [B])
    assert later.shared["answers"].counts.tolist() == [1, 1]
    seen = {**later.shared, **later.for_agent("a")}
    assert learned_from(device, seen, round=4)[0][:2] == [[2, 2, 0], [0, 2, 0]]


def others_of(agent, answer, state, round=3):
    """What a device of this answer to class 0 learns from after it sent in round 2."""
    device = Device([[answer, 0.0, 0.0]], [0])
    feddistill.summarise(turn(others=True), device, {})
    rows, have = learned_from(device, {**state.shared, **state.for_agent(agent)}, round)
    return rows[0][0] if have[0] else None


def test_an_upload_that_came_too_late_is_not_taken_out_of_a_mean_that_it_is_not_in():
    # Three devices answer 9, 1 and 3; the first one's upload is not fused in this round.
    late, one, three = (
        upload(agent, [0], [[answer, 0, 0]]) for agent, answer in (("a", 9), ("b", 1), ("c", 3))
    )
    state = fuse_round(feddistill.recipe, turn(others=True), GlobalState(), [one, three])
    assert others_of("a", 9.0, state) == 2.0  # and not (2 · 2 − 9) / 1 = −5
    assert others_of("b", 1.0, state) == 3.0
    whole = fuse_round(feddistill.recipe, turn(others=True), GlobalState(), [late, one, three])
    assert others_of("a", 9.0, whole) == pytest.approx(2.0, abs=0.01)  # the mean travels in half
    # A round later it comes in after all, under its own round: then it is in, and taken out.
    after = fuse_round(feddistill.recipe, turn(3, others=True), state, [late, one])
    assert others_of("a", 9.0, after, round=4) == 1.0


def test_a_late_upload_is_taken_out_at_the_weight_it_went_in_with():
    recipe, at = feddistill.recipe, turn(3, others=True)
    folded = [
        recipe.fold(at, upload(agent, [0], [[answer, 0, 0]]), weight)
        for agent, answer, weight in (("a", 9, 11), ("b", 1, 16), ("c", 3, 16))
    ]
    state = recipe.fuse(at, merge(merge(folded[0], folded[1]), folded[2]), GlobalState())
    assert others_of("a", 9.0, state) == pytest.approx(2.0)
    assert others_of("b", 1.0, state) == pytest.approx((11 * 9 + 16 * 3) / 27, rel=1e-6)


def test_by_default_nobody_is_told_apart():
    state = fuse_round(feddistill.recipe, turn(), GlobalState(), [A, B])
    assert not state.own
