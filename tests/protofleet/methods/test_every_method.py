"""What every registered method must keep, whatever it does: properties of its folds and fusion on
real uploads.
"""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.uploads.folding import AccessLog
from coordinator.uploads.fuse import as_published, fuse_round
from protofleet import registry, wire
from protofleet.exchange.state import GlobalState, Upload
from protofleet.recipe import Turn
from protofleet.values.sums import merge
from simulators.run.config import LabConfig, Run
from simulators.run.partitions import PartitionOptions
from simulators.run.setup import prepare
from simulators.run.workers import Here
from tests.exchanging import SETTINGS

METHODS = registry.names()


@cache
def uploads_of(method):
    """The uploads of a second round (so that there is a state before), by six devices with uneven
    data.
    """
    run = Run(method=method, dataset="digits", agents=6, partition="dirichlet", rounds=2, seed=2)
    setup = prepare(LabConfig(run, PartitionOptions(alpha=0.3), settings=SETTINGS.get(method, ())))
    crew = Here(setup, setup.agents)
    state = as_published(
        setup.recipe.start(Turn(setup.contract, setup.hyper, 0)), "half", setup.recipe.precision
    )
    crew.receive(0, state)
    uploads = []
    for round in (1, 2):
        before, uploads = state, []
        for message in crew.work(round, setup.agents).values():
            got = wire.decode(message)
            uploads.append(Upload(got.envelope.agent, round, got.envelope.base, got.body))
        state = fuse_round(setup.recipe, Turn(setup.contract, setup.hyper, round), before, uploads)
        crew.receive(round, state)
    return setup, before, uploads, state


def turn_of(setup):
    return Turn(setup.contract, setup.hyper, 2)


@pytest.mark.parametrize("method", METHODS)
@given(random=st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_fusion_depends_on_which_uploads_and_not_on_order_splits_or_merges(method, random):
    setup, before, uploads, state = uploads_of(method)
    turn = turn_of(setup)
    parts = [setup.recipe.fold(turn, upload, 1) for upload in uploads]
    random.shuffle(parts)
    while len(parts) > 1:
        at = random.randrange(len(parts) - 1)
        parts[at : at + 2] = [merge(parts[at], parts[at + 1])]
    fused = setup.recipe.fuse(turn, parts[0] if parts else {}, before)
    assert as_published(fused, "half", setup.recipe.precision).sha256 == state.sha256


@pytest.mark.parametrize("method", METHODS)
def test_leaving_an_upload_out_is_another_state(method):
    setup, before, uploads, state = uploads_of(method)
    if uploads:
        assert fuse_round(setup.recipe, turn_of(setup), before, uploads[1:]).sha256 != state.sha256


@pytest.mark.parametrize("method", METHODS)
def test_a_round_in_which_nobody_sent_keeps_what_was_known(method):
    setup, before, _, _ = uploads_of(method)
    assert fuse_round(setup.recipe, turn_of(setup), before, []).sha256 == before.sha256


@pytest.mark.parametrize("method", METHODS)
def test_a_state_is_what_its_readers_decode(method):
    setup, _, _, state = uploads_of(method)
    assert as_published(state, "half", setup.recipe.precision).sha256 == state.sha256
    assert GlobalState(state.shared, state.own, state.server).sha256 == state.sha256


@pytest.mark.parametrize("method", METHODS)
def test_partial_participation_and_missing_classes_are_no_error(method, small_lab):
    from simulators.run.rounds import LabOptions, run

    setup = prepare(small_lab(method, participation=0.4, partition="pathological"))
    outcome = run(setup, LabOptions(), lambda row: None)
    assert len(outcome.rows) == 3
    # These have one classifier, by prototypes. Ten digits: guessing is right one time in ten.
    evaluator = "prototype" if method in ("fleet", "grow") else "head"
    assert outcome.rows[-1].accuracy[evaluator] > 0.1


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_on_embeddings_of_length_one(method, small_lab):
    setup = prepare(small_lab(method, unit_embedding=True))
    assert setup.contract.unit_embedding
    agent = setup.agent(setup.partition.shards[0], setup.context())
    agent.receive(0, setup.recipe.start(Turn(setup.contract, setup.hyper, 0)).shared, {})
    agent.work(1)
    embedded, _ = agent.embed(50)
    np.testing.assert_allclose((embedded.astype(np.float64) ** 2).sum(1), 1, atol=1e-5)


def test_fedmps_whose_loss_scales_them_itself_notices_nothing(small_lab):
    parts = []
    for unit in (False, True):
        setup = prepare(small_lab("fedmps", unit_embedding=unit))
        agent = setup.agent(setup.partition.shards[0], setup.context())
        agent.receive(0, {}, {})
        parts.append(agent.work(1))
    for level in ("low", "high"):
        plain, scaled = (sent[level] for sent in parts)
        np.testing.assert_array_equal(plain.classes, scaled.classes)
        np.testing.assert_allclose(plain.vectors, scaled.vectors, atol=1e-4)


OPTIONS = [
    ("fedavg", "weighted=no"),
    ("fedper", "weighted=no"),
    ("fedic", "combine=learnt"),
    ("fedic", "combine=none"),
    ("fedpac", "combine=no"),
    ("feddistill", "others=yes"),
    ("gfpl", "retrain=batch"),
    ("mpfedcl", "prototypes_only=yes"),
]


@pytest.mark.parametrize(("method", "option"), OPTIONS)
def test_a_coordinator_refuses_nothing_that_an_option_sends(method, option, small_lab):
    settings = (*SETTINGS.get(method, ()), option)
    setup = prepare(small_lab(method, settings))
    agent = setup.agent(setup.partition.shards[0], setup.context())
    agent.receive(0, {}, {})
    parts = AccessLog(agent.work(1))
    turn = Turn(setup.contract, setup.hyper, 1)
    setup.recipe.fold(turn, Upload(agent.name, 1, "", parts), 1)
    assert parts.names == set(parts)  # a part that nobody reads is refused in a live fleet
