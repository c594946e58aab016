from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protofleet import registry, wire
from protofleet.budget.accountant import budget_of
from protofleet.budget.clipping import POINT
from protofleet.budget.noise import seeded
from protofleet.budget.private import (
    CENTRE,
    LENGTH,
    SUMS,
    folded,
    private,
    sent_first,
    sent_second,
)
from protofleet.budget.spread import RIDGE
from protofleet.contract import Contract, Input
from protofleet.errors import FusionError, UsageError
from protofleet.exchange import learned
from protofleet.exchange.state import GlobalState, Upload
from protofleet.masking.layout import Layout
from protofleet.masking.rooms import MaskTerms
from protofleet.recipe import Turn
from protofleet.statistics.contribution import MEANS, SCATTER
from protofleet.toolbox.summaries import class_means
from protofleet.values.prototypes import Prototypes, Tensors
from protofleet.values.sums import digest, merge, merge_all
from tests.masking import limits

CONTRACT = Contract("f", "r", 0, ("a", "b", "c"), Input("vector", (6,)), 6)
CLOSE = budget_of(epsilon=8.0, delta=1e-5, norm=4.0, publications=3)
STEP = 2.0**-POINT
MANY = {"samples": np.float32(10_000)}  # so many that a scatter is asked for


def under(method="fleet", *, budget=CLOSE, **settings):
    recipe = registry.load(method)
    turn = Turn(CONTRACT, recipe.hyper(**settings), 1)
    return private(recipe, turn, budget), turn


def samples(seed, count=9):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    return (rng.normal(size=(count, 6)) * 2 + labels[:, None]).astype(np.float32), labels


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.floats(0.5, 8))
def test_one_sample_moves_what_is_released_no_further_than_it_is_said_to(seed, norm):
    """The bound that all of ε rests on, for both publications, by values and by weights."""
    whole, (centre, _) = under(budget=replace(CLOSE, norm=norm)), samples(seed, 1)
    second = GlobalState({CENTRE: Tensors({"centre": centre[0], "norm": np.float32(norm), **MANY})})
    x, y = samples(seed)
    for number, before, sent in (
        (1, GlobalState(), lambda rows: sent_first(x[rows], norm)),
        (2, second, lambda rows: sent_second(x[rows] - centre, y[rows], float(np.float32(norm)))),
    ):
        mechanism = whole[0].stage(replace(whole[1], round=number), before)
        every, one_less = (mechanism.widened(folded(sent(r))) for r in (slice(None), slice(1, 9)))
        assert every.keys() == mechanism.sums.keys()
        for name, one in mechanism.sums.items():
            moved = every[name].total() - one_less[name].total()
            values = moved[:, :-1] if one.counted else moved
            assert np.linalg.norm(values) <= one.change
            if one.counted:
                assert np.linalg.norm(moved[:, -1]) <= one.counted
        assert all(one.share + one.count_share <= 1 + 1e-9 for one in mechanism.sums.values())


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from(["fedproto", "protonorm"]))
def test_one_device_moves_what_is_released_no_further_than_it_is_said_to(seed, method):
    whole, turn = under(method)
    mechanism = whole.stage(turn, GlobalState())

    class Me:
        def features(self):
            class Clean:
                high, labels = samples(seed)[0] * 5, samples(seed)[1]

            return Clean

    parts = whole.recipe.summarise(turn, Me(), {})
    sums = whole.recipe.fold(turn, Upload("d", 1, "", parts), 1)
    moved, one = sums["prototypes"].total(), mechanism.sums["prototypes"]
    assert np.linalg.norm(moved[:, :-1]) <= one.change
    assert np.linalg.norm(moved[:, -1]) <= one.counted
    assert set(np.unique(moved[:, -1])) <= {0.0, 1.0}


def published(budget, devices):
    """Both publications of a fleet, noise and all."""
    whole, turn = under(budget=budget)
    state = GlobalState()
    for round in (1, 2):
        turn, total = replace(turn, round=round), {}
        for x, y in devices:
            centre = state.shared.get(CENTRE)
            parts = (
                sent_first(x, budget.norm)
                if centre is None
                else sent_second(x - centre["centre"], y, float(centre["norm"]))
            )
            total = merge(total, whole.recipe.fold(turn, Upload("d", round, "", parts), 1))
        total = merge(total, whole.noise(turn, state, seeded(np.random.default_rng(round))))
        state = whole.recipe.fuse(turn, total, state)
    return state


def test_with_hardly_any_noise_means_and_covariance_are_those_of_the_shortened_samples():
    devices = [samples(seed, 200) for seed in range(4)]
    x, y = (np.concatenate(column) for column in zip(*devices, strict=True))
    of = learned.moments(published(budget_of(999.0, 0.5, 64.0, 1), devices).shared)
    # By hand: about the centre, and no longer than the root of the mean square.
    offsets = x - x.mean(0)
    lengths = np.linalg.norm(offsets, axis=1, keepdims=True)
    offsets *= np.minimum(1, np.sqrt((lengths**2).mean()) / lengths)
    true = class_means(offsets, y)
    within = (offsets - true.vectors[y]).T @ (offsets - true.vectors[y]) / len(y)
    ridge = RIDGE * np.trace(within) / 6 * np.eye(6)
    assert of.counts == pytest.approx(true.counts, abs=2)
    assert of.means - x.mean(0) == pytest.approx(true.vectors, abs=0.06)
    assert of.within == pytest.approx(within + ridge, abs=0.1)


def test_with_too_much_noise_there_is_no_class_and_no_crash():
    assert learned.HEAD not in published(budget_of(0.01, 1e-9, 4.0, 1), [samples(1)]).shared


def test_the_budget_ends_and_then_nobody_is_asked():
    whole, turn = under()
    assert [whole.recipe.talks(replace(turn, round=n)) for n in range(1, 30)] == [True] * 2 + [
        False
    ] * 27
    spent = [whole.spent(replace(turn, round=n)) for n in (1, 2, 29)]
    assert spent == [whole.accountant.spent(n) for n in (1, 2, 2)]
    assert spent[0] < spent[1] == pytest.approx(8.0)
    trained, turn = under("fedproto")
    assert [trained.recipe.talks(replace(turn, round=n)) for n in (1, 3, 4)] == [True, True, False]
    assert (trained.unit, whole.unit) == ("device", "sample")


@pytest.mark.parametrize(
    ("method", "settings", "words"),
    [
        ("fedavg", {}, "fedavg sends more than means"),
        ("fedproc", {}, "fedproc sends more than means"),
        ("gfpl", {}, "gfpl sends more than means"),
        ("feddistill", {"others": True}, "feddistill sends more than means"),
        ("fedproto", {"weighted": True}, "weighs devices by samples.*weighted=no"),
    ],
)
def test_what_no_noise_can_hide_is_refused_in_one_line(method, settings, words):
    with pytest.raises(UsageError, match=words):
        under(method, **settings)


@given(st.integers(-(2**38), 2**38), st.integers(1, 4))
def test_whole_numbers_come_back_from_their_octets(number, scale):
    steps = np.full((1, 3), number // scale)
    parts = sent_first(np.zeros((2, 3), np.float32), 1.0)
    from protofleet.budget.private import _octets

    arrays = dict(parts[SUMS].arrays) | {f"{CENTRE}.octets": _octets(steps)}
    total = folded({SUMS: Tensors(arrays)})[CENTRE].total()
    assert np.array_equal(total, steps * STEP)


def spoiled(**arrays):
    good = sent_second(*samples(1), 2.0)[SUMS].arrays
    return {SUMS: Tensors({**good, **{n.replace("_", "."): a for n, a in arrays.items()}})}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "part 'sums' is missing"),
        ({SUMS: Prototypes([0], [[1.0]])}, "Tensors is due"),
        (spoiled(prototypes_keys=np.array([2, 1, 0])), "rising keys"),
        (spoiled(prototypes_weights=np.array([0, 1, 1])), "weights from 1 up"),
        (spoiled(prototypes_weights=np.array([1, 1])), "a weight for every row"),
        (spoiled(prototypes_octets=np.array([[[256]] * 3])), "octets from 0 to 255"),
        (spoiled(prototypes_octets=np.array([1.5])), "octets of numbers are due"),
        (spoiled(prototypes_octets=np.zeros((7, 3, 6), np.int64)), "octets of numbers are due"),
    ],
)
def test_sums_that_are_none_are_refused_in_one_line(parts, words):
    with pytest.raises(FusionError, match=words):
        folded(parts)


def test_late_uploads_do_not_count_less():
    whole, turn = under()
    upload = Upload("d", 1, "", sent_first(samples(1)[0], 4.0))
    with pytest.raises(FusionError, match="counts once"):
        whole.recipe.fold(turn, upload, 2)
    assert LENGTH in whole.recipe.fold(turn, upload, 1)
    assert {MEANS, SCATTER} <= whole.recipe.rooms(replace(turn, round=2), limits(5)).keys()
    assert merge_all([]) == {}


def test_a_device_whose_rows_are_longer_than_agreed_is_refused():
    whole, turn = under("fedproto")
    rows = np.array([[4.0, 0, 0, 0, 0, 0], [0, 3, 0, 0, 0, 0]], np.float32)
    assert whole.unclipped(turn, GlobalState(), {"prototypes": Prototypes([0, 2], rows)}) == ""
    longer = {"prototypes": Prototypes([0, 2], rows * np.float32(1.001))}
    assert "length 4.004 where 4 was agreed" in whole.unclipped(turn, GlobalState(), longer)


@given(st.integers(0, 10_000), st.floats(0.5, 8))
def test_what_was_shortened_is_let_in_in_both_publications(seed, norm):
    whole, turn = under(budget=replace(CLOSE, norm=norm))
    (x, y), (centre, _) = samples(seed), samples(seed, 1)
    second = GlobalState({CENTRE: Tensors({"centre": centre[0], "norm": np.float32(norm), **MANY})})
    assert whole.unclipped(turn, GlobalState(), sent_first(x, norm)) == ""
    sent, later = sent_second(x - centre, y, float(np.float32(norm))), replace(turn, round=2)
    assert whole.unclipped(later, second, sent) == ""
    # As long as it likes, or for another publication.
    assert "longer than" in whole.unclipped(turn, GlobalState(), sent_first(x * 50, norm * 50))
    assert "are due" in whole.unclipped(later, second, sent_first(x, norm))
    longer = sent_second((x - centre) * 50, y, norm * 50)
    assert "longer than" in whole.unclipped(later, second, longer)


def test_who_has_no_samples_answers_like_everybody_and_adds_nothing():
    whole, turn = under()
    second = GlobalState({CENTRE: Tensors({"centre": np.zeros(6), "norm": np.float32(4), **MANY})})
    x, y = samples(2)
    for number, before, sent in (
        (1, GlobalState(), lambda rows: sent_first(x[rows], 4.0)),
        (2, second, lambda rows: sent_second(x[rows], y[rows], 4.0)),
    ):
        turn = replace(turn, round=number)
        nobody, some = (wire.as_received(sent(rows), "half") for rows in (slice(0), slice(None)))
        assert whole.unclipped(turn, before, nobody) == ""
        folded_in = [whole.recipe.fold(turn, Upload("d", 1, "", p), 1) for p in (nobody, some)]
        for name, one in folded_in[1].items():
            assert np.array_equal(merge_all(folded_in)[name].total(), one.total())


def test_a_scatter_that_the_squared_lengths_do_not_carry_is_refused():
    whole, turn = under()
    second = GlobalState({CENTRE: Tensors({"centre": np.zeros(6), "norm": np.float32(4), **MANY})})
    x, y = samples(3)
    good, large = (dict(sent_second(x * f, y, 4.0)[SUMS].arrays) for f in (0.1, 1.0))
    turn = replace(turn, round=2)
    mixed = {**good, f"{SCATTER}.octets": large[f"{SCATTER}.octets"]}
    assert "a scatter of samples longer" in whole.unclipped(turn, second, {SUMS: Tensors(mixed)})
    narrow = {**good, f"{MEANS}.octets": good[f"{MEANS}.octets"][:, :, :5]}
    assert "rows of other sizes" in whole.unclipped(turn, second, {SUMS: Tensors(narrow)})


def test_a_round_is_the_publication_of_its_number_whatever_the_state_says():
    """Nobody who makes up states has the large part of the budget twice."""
    whole, turn = under()
    second = GlobalState({CENTRE: Tensors({"centre": np.zeros(6), "norm": np.float32(4), **MANY})})
    first, later = (whole.stage(replace(turn, round=n), second) for n in (1, 2))
    assert (set(first.sums), first.rho) == ({CENTRE, LENGTH}, whole.accountant.rho_at(1))
    assert (set(later.sums), later.rho) == ({MEANS, LENGTH, SCATTER}, whole.accountant.rho_at(2))
    assert first.rho + later.rho == pytest.approx(CLOSE.rho)


def test_where_the_first_came_to_nothing_the_second_is_of_means_about_no_centre():
    whole, turn = under(budget=budget_of(900.0, 0.5, 64.0, 1))
    turn, (x, y) = replace(turn, round=2), samples(4, 400)

    class Me:
        def features(self):
            class Seen:
                high, labels = x, y

            return Seen

    parts = wire.as_received(whole.recipe.summarise(turn, Me(), {}), "half")
    assert whole.unclipped(turn, GlobalState(), parts) == ""
    assert set(folded(parts)) == {MEANS, LENGTH}
    total = whole.recipe.fold(turn, Upload("d", 2, "", parts), 1)
    total = merge(total, whole.noise(turn, GlobalState(), seeded(np.random.default_rng(0))))
    of = learned.moments(whole.recipe.fuse(turn, total, GlobalState()).shared)
    assert of.means == pytest.approx(class_means(x, y).vectors, abs=0.1)


@pytest.mark.parametrize(
    "changes",
    [
        {"norm": np.float32(0)},
        {"norm": np.float32(-4)},
        {"norm": np.float32(8.1)},
        {"norm": np.ones(2, np.float32)},
        {"samples": np.ones(3, np.float32)},
        {"centre": np.zeros(5, np.float32)},
        {"centre": np.zeros((6, 6), np.float32)},
    ],
)
def test_a_centre_that_no_publication_comes_to_is_answered_by_nobody(changes):
    whole, turn = under()
    good = {"centre": np.zeros(6, np.float32), "norm": np.float32(8), **MANY}
    whole.stage(replace(turn, round=2), GlobalState({CENTRE: Tensors(good)}))

    class Me:
        def features(self):
            class Seen:
                high, labels = samples(1)

            return Seen

    for lies in (good | changes, {n: a for n, a in good.items() if n not in changes}):
        state = {CENTRE: Tensors(lies)}
        with pytest.raises(FusionError, match="a centre"):
            whole.stage(replace(turn, round=2), GlobalState(state))
        with pytest.raises(FusionError, match="a centre"):
            whole.recipe.summarise(replace(turn, round=2), Me(), state)


@pytest.mark.parametrize("number", [1, 2])
def test_a_device_s_sums_have_room_with_their_noise_and_little_more(number):
    """The ring is as wide as so many samples of so many devices need it, and hardly wider."""
    whole, turn = under()
    turn, ceilings = replace(turn, round=number), limits(5)
    state = GlobalState({CENTRE: Tensors({"centre": np.zeros(6), "norm": np.float32(8), **MANY})})
    x, y = np.full((ceilings.samples, 6), 50.0, np.float32), np.zeros(ceilings.samples, np.int64)

    class Me:
        def features(self):
            class Seen:
                high, labels = x, y

            return Seen

    parts = whole.recipe.summarise(turn, Me(), state.shared)
    largest = whole.recipe.fold(turn, Upload("d", number, "", parts), 1)
    rooms = whole.recipe.rooms(turn, ceilings)
    layout, mechanism = Layout.of(rooms, largest, 5), whole.stage(turn, state)
    noise = mechanism.noise(seeded(np.random.default_rng(0)), 1 / 3)
    total = layout.zeros()
    for _ in range(5):
        total = total.plus(layout.pack(merge(largest, noise)))
    assert digest(layout.unpack(total)) == digest(merge_all([largest, noise] * 5))
    for name, part in largest.items():
        most = np.abs(part.total()).max() * 2**POINT * 5
        assert 2.0 ** rooms[name].bits(5) < 2**9 * (most + 5 * 16 * max(mechanism.scales(name)))


WIDE = 120


def strong(dropouts):
    """How many directions seem to stand out of the noise, where samples hardly differ in any of
    them, and seven devices added noise that is enough for four.
    """
    contract = replace(CONTRACT, embedding=WIDE, masks=MaskTerms(dropouts))
    recipe = registry.load("fleet")
    turn = Turn(contract, recipe.hyper(), 2)
    whole = private(recipe, turn, budget_of(20.0, 1e-5, 4.0, 1))
    about = {"centre": np.zeros(WIDE), "norm": np.float32(4), **MANY}
    state, total = GlobalState({CENTRE: Tensors(about)}), {}
    for seed in range(7):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(300, WIDE)) / 50, rng.integers(0, 3, 300)
        upload = Upload("d", 2, "", sent_second(x, y, 4.0))
        noise = whole.noise(turn, state, seeded(rng), 1 / 4)
        total = merge_all([total, whole.recipe.fold(turn, upload, 1), noise])
    values = np.linalg.eigvalsh(
        learned.moments(whole.recipe.fuse(turn, total, state).shared).within
    )
    return int((values > np.median(values) * 1.01).sum())


def test_what_devices_added_for_those_who_might_be_lost_is_taken_for_noise_too():
    """It fills a half circle as wide as it is: of seven, of whom three might have been lost,
    √(7/4) times as wide as was asked for.
    """
    assert strong(0) > 5
    assert strong(3) == 0
