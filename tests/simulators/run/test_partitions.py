"""What every partition promises: nothing held twice, the numbers asked for, the same seed the same
shards.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.data.dataset import DataSet, input_of
from edge_agent.data.sets import load
from protofleet.errors import DataError, UsageError
from protofleet.util.seeds import generator
from simulators.run.partitions import (
    Partition,
    PartitionOptions,
    apply_domain,
    classes_in_order,
    make,
    unequal_shares,
)

DIGITS = load("digits", data_dir=None)
POOL_KINDS = ["dirichlet", "pathological", "iid", "feature-skew"]
few = settings(max_examples=25, deadline=None)


def vectors(classes: int, train: int, test: int, domains: int = 0) -> DataSet:
    """A set whose classes all have as many samples, its domains dealt round and round."""
    y = np.concatenate([np.repeat(np.arange(classes), train), np.repeat(np.arange(classes), test)])
    x = np.zeros((len(y), 2), np.float32)
    names = tuple(f"c{i}" for i in range(classes))
    which = np.arange(len(y)) % domains if domains else None
    given_names = tuple(f"d{i}" for i in range(domains))
    return DataSet("made", names, input_of("made", x), x, y, classes * train, which, given_names)


def rows(partition: Partition) -> list[int]:
    return [
        r
        for s in partition.shards
        for part in (s.train, s.validation, s.test)
        for r in part.tolist()
    ]


def same(a: Partition, b: Partition) -> bool:
    return [s.agent for s in a.shards] == [s.agent for s in b.shards] and all(
        np.array_equal(getattr(s, part), getattr(t, part))
        for s, t in zip(a.shards, b.shards, strict=True)
        for part in ("train", "validation", "test")
    )


@pytest.mark.parametrize("kind", [*POOL_KINDS, "few-shot"])
def test_a_seed_decides_everything(kind: str) -> None:
    options = PartitionOptions(shots=10, test_shots=3)
    first = make(kind, DIGITS, 6, 3, options)
    assert same(first, make(kind, DIGITS, 6, 3, options))
    assert not same(first, make(kind, DIGITS, 6, 4, options))
    assert [s.agent for s in first.shards] == [f"agent-{i:02d}" for i in range(6)]
    assert all(
        part.dtype == np.int64 for s in first.shards for part in (s.train, s.validation, s.test)
    )


@few
@given(kind=st.sampled_from(POOL_KINDS), agents=st.integers(1, 12), seed=st.integers(0, 10**6))
def test_a_pool_is_dealt_out_whole_and_split_per_class(kind: str, agents: int, seed: int) -> None:
    partition = make(kind, DIGITS, agents, seed, PartitionOptions(alpha=0.5, classes_per_agent=3))
    held = rows(partition)
    assert len(held) == len(set(held))
    if kind != "pathological" or agents * 3 >= 10:
        assert len(held) == len(DIGITS.y)
    counts = partition.table(DIGITS.y, 10)
    tests = partition.table(DIGITS.y, 10, "test")
    assert (tests[counts >= 2] >= 1).all()
    assert np.abs(tests - counts / 4)[counts >= 2].max() <= 0.5
    assert (partition.table(DIGITS.y, 10, "train")[counts > 0] >= 1).all()
    checked = partition.table(DIGITS.y, 10, "validation")
    assert np.abs(checked - 0.1 * (counts - tests)).max() <= 0.5


@few
@given(
    ways=st.integers(2, 6),
    spread=st.integers(0, 3),
    shots=st.integers(4, 20),
    agents=st.integers(1, 8),
    seed=st.integers(0, 10**6),
)
def test_few_shot_keeps_its_bounds(
    ways: int, spread: int, shots: int, agents: int, seed: int
) -> None:
    data = vectors(8, 200, 40)
    options = PartitionOptions(ways=ways, spread=spread, shots=shots, test_shots=5)
    partition = make("few-shot", data, agents, seed, options)
    held = rows(partition)
    assert len(held) == len(set(held))
    block = max(shots + -(-shots // 10), shots + max(spread - 1, 0))
    train, checked, tests = (
        partition.table(data.y, 8, part) for part in ("train", "validation", "test")
    )
    n = (train > 0).sum(1)
    assert n.min() >= max(2, ways - spread)
    assert n.max() <= min(8, ways + spread)
    k = train.max(1)
    assert ((train == 0) | (train == k[:, None])).all()  # one number of shots per device
    assert np.abs(k - shots).max() <= max(spread - 1, 0)
    assert (train + checked == np.where(train > 0, block, 0)).all()
    assert (tests == np.where(train > 0, 5, 0)).all()
    assert all(s.train.max() < data.n_train <= s.test.min() for s in partition.shards)


def test_few_shot_draws_every_number_within_its_bounds() -> None:
    data = vectors(10, 4000, 600)
    partition = make("few-shot", data, 30, 0, PartitionOptions())
    train = partition.table(data.y, 10, "train")
    assert set((train > 0).sum(1).tolist()) == {2, 3, 4, 5}
    assert set(train.max(1).tolist()) == {99, 100, 101}
    assert {len(s.train) + len(s.validation) for s in partition.shards} == {220, 330, 440, 550}


def test_shots_may_vary_by_more_than_classes_do() -> None:
    data = vectors(10, 4000, 600)
    options = PartitionOptions(ways=4, spread=1, shot_spread=20)
    train = make("few-shot", data, 60, 0, options).table(data.y, 10, "train")
    shots = train.max(1)
    assert set((train > 0).sum(1).tolist()) == {3, 4, 5}
    assert (shots.min() >= 80, shots.max() <= 120, np.ptp(shots) > 25) == (True, True, True)
    assert ((train == 0) | (train == shots[:, None])).all()
    alike = PartitionOptions(spread=2, shot_spread=1)
    assert same(
        make("few-shot", data, 5, 3, alike), make("few-shot", data, 5, 3, PartitionOptions())
    )


def test_few_shot_uses_the_asked_share_of_the_rest() -> None:
    data = vectors(4, 500, 50)
    for share, per_class in ((0.0, 0), (0.5, 5), (1.0, 10)):
        options = PartitionOptions(ways=2, spread=0, validation=share)
        shard = make("few-shot", data, 1, 0, options).shards[0]
        assert (len(shard.train), len(shard.validation), len(shard.test)) == (
            200,
            2 * per_class,
            30,
        )


def test_few_shot_says_which_class_is_short_and_by_how_much() -> None:
    with pytest.raises(
        DataError, match=r"digits: class '\d' is \d+ training samples short \(\d+ devices need 110"
    ):
        make("few-shot", DIGITS, 20, 0, PartitionOptions())
    with pytest.raises(
        DataError,
        match=r"made: class 'c\d' is 5 test samples short \(1 devices need 15 .* has 10\)",
    ):
        make("few-shot", vectors(3, 200, 10), 1, 0, PartitionOptions(spread=0))
    with pytest.raises(DataError, match="18 classes a device are due, the set has 10"):
        make("few-shot", DIGITS, 2, 0, PartitionOptions(ways=20))
    with pytest.raises(UsageError, match="shots and test_shots"):
        make("few-shot", DIGITS, 2, 0, PartitionOptions(limit=100))


@few
@given(
    agents=st.integers(2, 15),
    alpha=st.sampled_from([0.05, 0.1, 1.0, 100.0]),
    seed=st.integers(0, 10**6),
)
def test_dirichlet_gives_every_device_enough(agents: int, alpha: float, seed: int) -> None:
    partition = make("dirichlet", DIGITS, agents, seed, PartitionOptions(alpha=alpha))
    assert partition.table(DIGITS.y, 10).sum(1).min() >= 10


def test_a_small_alpha_is_more_skewed() -> None:
    held = [
        (make("dirichlet", DIGITS, 10, 0, PartitionOptions(alpha=a)).table(DIGITS.y, 10) > 0).sum()
        for a in (0.1, 100)
    ]
    assert held[0] < 60 < held[1]


def test_dirichlet_gives_up_in_words() -> None:
    with pytest.raises(
        DataError,
        match=r"each of 200 devices 10 samples of 1797 at alpha 0\.01; a larger alpha, fewer",
    ):
        make("dirichlet", DIGITS, 200, 0, PartitionOptions(alpha=0.01))


@few
@given(agents=st.integers(1, 25), each=st.integers(1, 10), seed=st.integers(0, 10**6))
def test_pathological_deals_classes_evenly(agents: int, each: int, seed: int) -> None:
    data = vectors(10, 60, 20)
    options = PartitionOptions(classes_per_agent=each)
    counts = make("pathological", data, agents, seed, options).table(data.y, 10)
    assert ((counts > 0).sum(1) == each).all()
    holders = (counts > 0).sum(0)
    assert holders.max() - holders.min() <= 1
    if agents * each >= 10:
        assert holders.min() >= 1
        assert counts.sum() == 800
    for label in range(10):
        shares = counts[counts[:, label] > 0, label]
        assert not len(shares) or shares.max() - shares.min() <= 1


def pairs_by_the_published_loop(agents: int, classes: int, of_each: int) -> list[list[int]]:
    """PFLlib's `separate_data`, partition "pat", as its copies have it; labels a device holds."""
    room = [of_each for _ in range(agents)]
    labels: list[list[int]] = [[] for _ in range(agents)]
    for label in range(classes):
        selected = [client for client in range(agents) if room[client] > 0]
        if not selected:
            break
        selected = selected[: int(np.ceil((agents / classes) * of_each))]
        for client in selected:
            room[client] -= 1
            labels[client].append(label)
    return labels


@few
@given(agents=st.integers(1, 40), classes=st.integers(2, 20), each=st.integers(1, 6))
def test_consecutive_pairs_are_those_of_the_published_loop(
    agents: int, classes: int, each: int
) -> None:
    of_each = min(each, classes)
    holders = classes_in_order(classes, agents, of_each)
    labels = [[c for c, by in enumerate(holders) if a in by] for a in range(agents)]
    assert labels == pairs_by_the_published_loop(agents, classes, of_each)


@pytest.mark.parametrize("agents", [20, 40, 60])
@pytest.mark.parametrize("shares", ["equal", "unequal"])
def test_consecutive_pairs_of_ten_classes_are_five(agents: int, shares: str) -> None:
    data = vectors(10, 2000, 300)
    options = PartitionOptions(pairs="consecutive", shares=shares)  # type: ignore[arg-type]
    partition = make("pathological", data, agents, 0, options)
    counts = partition.table(data.y, 10)
    pairs = [tuple(np.flatnonzero(row).tolist()) for row in counts]
    assert sorted(set(pairs)) == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert {pairs.count(pair) for pair in pairs} == {agents // 5}
    held = rows(partition)
    assert len(held) == len(set(held)) == len(data.y)


@few
@given(
    samples=st.integers(40, 7000),
    holders=st.integers(1, 12),
    least=st.floats(0, 20),
    seed=st.integers(0, 10**6),
)
def test_unequal_shares_are_up_to_the_mean_and_the_last_takes_the_rest(
    samples: int, holders: int, least: float, seed: int
) -> None:
    counts = unequal_shares(np.random.default_rng(seed), samples, holders, least)
    assert counts.sum() == samples
    assert len(counts) == holders
    mean = samples / holders
    low = min(int(max(mean / 10, least, 1)), int(mean))
    assert ((counts[:-1] >= low) & (counts[:-1] <= mean)).all()
    assert counts[-1] >= int(mean)


def test_unequal_shares_spread_evenly_over_their_range() -> None:
    rng = np.random.default_rng(0)
    first = np.array([unequal_shares(rng, 4000, 4, 1)[0] for _ in range(4000)])
    # Whole numbers from 100 to 999, evenly: mean 549.5, deviation 900 / √12 = 260.
    assert abs(first.mean() - 549.5) < 4 * 260 / 4000**0.5
    assert (first.min(), first.max()) == (100, 999)


def test_without_the_balance_a_device_may_have_more_than_its_share() -> None:
    data = vectors(10, 500, 100)
    most = {
        balance: max(
            make("dirichlet", data, 5, seed, PartitionOptions(alpha=0.05, balance=balance))
            .table(data.y, 10)
            .sum(1)
            .max()
            for seed in range(5)
        )
        for balance in ("yes", "no")
    }
    share = len(data.y) / 5
    # One class more than an equal share is possible before a device is closed, and no more.
    assert most["yes"] <= share + 600
    assert most["no"] > share + 600
    # Each class by its own draw alone: numpy's, in the same order.
    counts = make(
        "dirichlet", data, 5, 3, PartitionOptions(alpha=5, balance="no", min_samples=1)
    ).table(data.y, 10)
    rng = generator("partition", "dirichlet", 3, "proportions")
    for label in range(10):
        assert np.abs(counts[:, label] - rng.dirichlet(np.full(5, 5.0)) * 600).max() <= 1


# Made by the code before there were pairs, shares and balance to choose.
BEFORE = {
    "pathological": "1d7e517024db031a",
    "dirichlet": "7389962d840c3135",
}


@pytest.mark.parametrize("kind", BEFORE)
def test_by_default_devices_hold_what_they_always_did(kind: str) -> None:
    digest = hashlib.sha256()
    for shard in make(kind, DIGITS, 20, 7, PartitionOptions()).shards:
        for part in (shard.train, shard.validation, shard.test):
            digest.update(part.tobytes())
    assert digest.hexdigest()[:16] == BEFORE[kind]


def test_pathological_says_what_does_not_fit() -> None:
    with pytest.raises(DataError, match="11 classes a device are due, the set has 10"):
        make("pathological", DIGITS, 3, 0, PartitionOptions(classes_per_agent=11))
    with pytest.raises(DataError, match=r"class 'c\d' has 5 samples for \d+ devices"):
        make("pathological", vectors(3, 4, 1), 30, 0, PartitionOptions(classes_per_agent=2))


def test_iid_is_even() -> None:
    counts = make("iid", DIGITS, 7, 0, PartitionOptions()).table(DIGITS.y, 10)
    assert counts.sum(1).max() - counts.sum(1).min() <= 1
    assert (counts.max(0) - counts.min(0)).max() <= 1
    with pytest.raises(DataError, match="too few to train and to test on"):
        make("iid", DIGITS, 900, 0, PartitionOptions())


@few
@given(limit=st.integers(100, 1797), kind=st.sampled_from(["iid", "dirichlet"]))
def test_a_limit_is_exact_and_keeps_the_shares(limit: int, kind: str) -> None:
    partition = make(kind, DIGITS, 4, 0, PartitionOptions(limit=limit, alpha=1.0))
    counts = partition.table(DIGITS.y, 10)
    assert counts.sum() == limit
    assert np.abs(counts.sum(0) - np.bincount(DIGITS.y) * limit / 1797).max() <= 1


def test_a_limit_beyond_the_set_is_refused() -> None:
    with pytest.raises(DataError, match="limit 2000 is more than its 1797"):
        make("iid", DIGITS, 4, 0, PartitionOptions(limit=2000))


def test_feature_skew_takes_the_sets_own_domains() -> None:
    data = vectors(4, 60, 20, domains=3)
    assert data.domains is not None
    partition = make("feature-skew", data, 5, 0, PartitionOptions())
    for shard in partition.shards:
        held = np.concatenate([shard.train, shard.validation, shard.test])
        assert set(data.domains[held].tolist()) == {shard.domain}
    assert {s.domain for s in partition.shards} == {0, 1, 2}
    # Two devices of one camera are told apart; one alone has the camera's name.
    names = [data.domain_names[s.domain] for s in partition.shards]
    for shard, name in zip(partition.shards, names, strict=True):
        assert shard.agent.removesuffix("-1").removesuffix("-2") == name
    odd = replace(data, domain_names=("Haus 1/Tür", "b", "_c"))
    lone = make("feature-skew", odd, 3, 0, PartitionOptions())
    assert [s.agent for s in lone.shards] == ["Haus-1-T-r", "b", "c"]
    assert len(set(rows(partition))) == len(data.y)


def test_feature_skew_makes_domains_of_square_images_only() -> None:
    partition = make("feature-skew", DIGITS, 8, 0, PartitionOptions())
    assert sorted(s.domain for s in partition.shards if s.domain is not None) == list(range(8))
    with pytest.raises(DataError, match="only square images can be turned"):
        make("feature-skew", vectors(3, 20, 5), 2, 0, PartitionOptions())


def test_domains_are_eight_different_views_that_lose_nothing() -> None:
    x = DIGITS.x[:20]
    before = x.copy()
    views = [apply_domain(x, d) for d in range(8)]
    assert np.array_equal(views[0], x)
    assert np.array_equal(x, before)
    assert all(v.shape == x.shape and v.dtype == np.uint8 and v.flags.c_contiguous for v in views)
    assert all(not np.array_equal(a, b) for a, b in pairwise(views))
    assert np.array_equal(apply_domain(views[1], 3), x)
    assert np.array_equal(apply_domain(views[6], 6), x)


def test_the_plain_report() -> None:
    partition = make("feature-skew", DIGITS, 2, 0, PartitionOptions(validation=0.0))
    plain = partition.to_plain(DIGITS.y, DIGITS.classes)
    assert plain["kind"] == "feature-skew"
    one = plain["agents"]["agent-01"]
    assert (one["classes"], one["validation"], one["domain"]) == (
        list("0123456789"),
        0,
        partition.shards[1].domain,
    )
    assert sum(a["train"] + a["test"] for a in plain["agents"].values()) == 1797


def test_the_calls_own_mistakes() -> None:
    with pytest.raises(UsageError, match="'dirichlett' is not one of few-shot, dirichlet"):
        make("dirichlett", DIGITS, 2, 0, PartitionOptions())
    with pytest.raises(UsageError, match="at least one"):
        make("iid", DIGITS, 0, 0, PartitionOptions())
