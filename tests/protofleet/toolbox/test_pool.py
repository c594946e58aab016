"""MP-FedCL's pool, its padding and its loss, each against a literal loop over the paper's
formula.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from protofleet import wire
from protofleet.toolbox import losses, pool
from protofleet.values.prototypes import Prototypes

C, D = 4, 3


@st.composite
def pools(draw, most=3):
    made = []
    for _ in range(draw(st.integers(1, 4))):
        counts = draw(
            st.lists(st.integers(0, most), min_size=C - 1, max_size=C - 1).filter(any)
        )  # nobody has class 3
        classes = np.repeat(np.arange(C - 1), counts)
        rng = np.random.default_rng(draw(st.integers(0, 999)))
        made.append(Prototypes(classes, rng.standard_normal((len(classes), D))))
    return made


def padded_slowly(clients, slots, whole):
    """Formulas 9 and 10, one prototype at a time; None where nobody has the class."""
    table = []
    for client in clients:
        for k in range(slots):
            row = []
            for j in range(C):
                everyones = [
                    u
                    for one in clients
                    for c, u in zip(one.classes, one.vectors, strict=True)
                    if c == j
                ]
                mine = [u for c, u in zip(client.classes, client.vectors, strict=True) if c == j]
                keeps = len(mine) >= slots if whole else k < len(mine)
                row.append(mine[k] if keeps else np.mean(everyones, axis=0) if everyones else None)
            table.append(row)
    return table


@given(pools(), st.integers(1, 3), st.booleans())
def test_padding_is_the_papers(clients, slots, whole):
    table, have = pool.padded(clients, C, D, slots, whole=whole)
    want = padded_slowly(clients, slots, whole)
    assert table.shape == (len(clients) * slots, C, D)
    for r, row in enumerate(want):
        for j, vector in enumerate(row):
            assert have[j] == (vector is not None)
            np.testing.assert_allclose(table[r, j], 0 if vector is None else vector, atol=1e-6)


def test_too_few_become_the_mean_in_all_slots_to_the_letter_or_only_in_the_empty_ones():
    clients = [Prototypes([0, 0, 1], [[2.0], [4.0], [7.0]]), Prototypes([0], [[9.0]])]
    whole, have = pool.padded(clients, 3, 1, 2, whole=True)
    assert whole[:, :, 0].tolist() == [[2, 7, 0], [4, 7, 0], [5, 7, 0], [5, 7, 0]]
    assert have.tolist() == [True, True, False]
    missing, _ = pool.padded(clients, 3, 1, 2, whole=False)
    assert missing[:, :, 0].tolist() == [[2, 7, 0], [4, 7, 0], [9, 7, 0], [5, 7, 0]]


@given(pools(), pools(), st.randoms(use_true_random=False))
def test_a_pool_reads_back_and_keeps_only_the_classes_that_nobody_sent(now, before, random):
    parts = pool.publish(now, before)
    got = pool.members(wire.as_received(parts, "float32"))
    assert [f"pool.{i}" for i in range(len(got))] == list(parts)
    sent, kept = pool.joined(now), pool.joined(before)
    everything = pool.joined(got)
    for c in range(C):
        want = sent if c in sent.classes else kept
        assert sorted(everything.only([c]).vectors.tolist()) == sorted(
            want.only([c]).vectors.tolist()
        )
    assert [one.only(sent.classes) for one in got[: len(now)]] == now
    assert pool.widest(now) == max(one.classes.tolist().count(c) for one in now for c in range(C))


def test_more_devices_than_the_wire_allows_rows_a_class_still_travel():
    many = [Prototypes([0, 0], [[i, 0.0], [0.0, i]]) for i in range(1, 41)]
    assert pool.members(wire.as_received(pool.publish(many, []))) == many


def test_a_step_sees_one_shape_as_devices_come_and_go():
    one = Prototypes([0, 0], [[3.0, 4.0], [0.0, 2.0]])
    shapes = {
        n: pool.as_given([one] * n, 2, 2, 2, whole=True)["pool"].shape[0]
        for n in (0, 1, 5, 8, 9, 16, 17)
    }
    assert shapes == {0: 16, 1: 16, 5: 16, 8: 16, 9: 32, 16: 32, 17: 64}
    given = pool.as_given([one], 2, 2, 2, whole=True)
    np.testing.assert_allclose(given["pool"][:2, 0], [[0.6, 0.8], [0, 1]], atol=1e-6)
    assert given["filled"].tolist() == [1, 1] + [0] * 14
    assert given["have"].tolist() == [1, 0]


def contrast_slowly(z, y, clients, slots, tau):
    """Formula 11, corrected: over clients and slots, −log of the own class's share."""
    table, total = padded_slowly(clients, slots, True), 0.0
    for v, label in zip(z, y, strict=True):
        terms = []
        for row in table:
            if row[label] is None:
                continue
            unit = [None if u is None else np.asarray(u, float) / np.linalg.norm(u) for u in row]
            shares = [
                None if u is None else math.exp(float(v @ u) / np.linalg.norm(v) / tau)
                for u in unit
            ]
            terms.append(-math.log(shares[label] / sum(s for s in shares if s is not None)))
        total += sum(terms) / len(table) if terms else 0.0
    return total / len(y)


@given(pools(), st.integers(1, 3), st.sampled_from([0.07, 0.5, 2.0]), st.integers(0, 999))
def test_the_loss_is_the_papers_with_its_index_read_as_the_label(clients, slots, tau, seed):
    rng = np.random.default_rng(seed)
    z, y = rng.standard_normal((5, D)), rng.integers(0, C, 5)
    given = {
        k: torch.from_numpy(v) for k, v in pool.as_given(clients, C, D, slots, whole=True).items()
    }
    unit = torch.nn.functional.normalize(torch.tensor(z, dtype=torch.float32), dim=1)
    got = losses.to_pool(unit, torch.tensor(y), given["pool"], given["filled"], given["have"], tau)
    assert float(got) == pytest.approx(
        contrast_slowly(z, y, clients, slots, tau), rel=1e-3, abs=1e-4
    )


def test_without_a_pool_or_without_the_class_nothing_pulls():
    given = {k: torch.from_numpy(v) for k, v in pool.as_given([], 2, 2, 2, whole=True).items()}
    z = torch.tensor([[1.0, 0.0]], requires_grad=True)
    value = losses.to_pool(
        z, torch.tensor([1]), given["pool"], given["filled"], given["have"], 0.07
    )
    value.backward()
    assert value.item() == 0
    assert z.grad.tolist() == [[0, 0]]


def test_a_step_against_the_gradient_goes_toward_the_own_class():
    given = pool.as_given([Prototypes([0, 1], np.eye(2))], 2, 2, 1, whole=True)
    rows, filled, have = (torch.from_numpy(given[name]) for name in ("pool", "filled", "have"))
    z = torch.tensor([[0.6, 0.8]], requires_grad=True)
    losses.to_pool(z, torch.tensor([0]), rows, filled, have, 0.5).backward()
    assert z.grad[0, 0] < 0 < z.grad[0, 1]


def test_bf16_training_compares_in_float32():
    given = pool.as_given([Prototypes([0, 1], np.eye(2))], 2, 2, 1, whole=True)
    rows, filled, have = (torch.from_numpy(given[name]) for name in ("pool", "filled", "have"))
    z, y = torch.tensor([[0.6123, 0.7906]]), torch.tensor([0])
    plain = losses.to_pool(z, y, rows, filled, have, 0.07)
    with torch.autocast("cpu", torch.bfloat16):
        assert losses.to_pool(z, y, rows, filled, have, 0.07) == plain
