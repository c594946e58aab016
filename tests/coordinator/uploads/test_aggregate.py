"""An upload that is not what its method sends changes nothing: not a sum, not a state, and nobody
else's upload.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from coordinator.uploads.fuse import as_published, fuse_round
from protofleet import registry, wire
from protofleet.exchange.state import Upload
from protofleet.recipe import Turn
from protofleet.toolbox import summaries
from protofleet.values.prototypes import Head, Mixtures, Prototypes, Tensors
from simulators.run.config import LabConfig, Run
from simulators.run.partitions import PartitionOptions
from simulators.run.setup import prepare
from simulators.run.workers import Here
from tests.coordinator.made import announced, core, joined, receipts, upload
from tests.exchanging import SETTINGS

METHODS = [n for n in registry.names() if not registry.load(n).traits.frozen]  # of rounds
OPTIONAL = {"spread"}  # not sent by every device each time
STRANGER = "0-stranger"  # before all others, in time and by name


@cache
def honest(method):
    """Two rounds of five devices with uneven data, and the states they end in."""
    run = Run(method=method, dataset="digits", agents=5, partition="dirichlet", rounds=2, seed=2)
    setup = prepare(LabConfig(run, PartitionOptions(alpha=0.3), settings=SETTINGS.get(method, ())))
    crew = Here(setup, setup.agents)
    state = as_published(
        setup.recipe.start(Turn(setup.contract, setup.hyper, 0)), "half", setup.recipe.precision
    )
    crew.receive(0, state)
    uploads, states = {}, [state]
    if not setup.recipe.talks(
        Turn(setup.contract, setup.hyper, 1)
    ):  # no parts, and yet devices say when they are done
        silent = {
            r: [Upload(shard.agent, r, state.base, {}) for shard in setup.partition.shards]
            for r in (1, 2)
        }
        return setup, silent, [state] * 3
    for round in (1, 2):
        decoded = [wire.decode(message) for message in crew.work(round, setup.agents).values()]
        uploads[round] = [Upload(m.envelope.agent, round, m.envelope.base, m.body) for m in decoded]
        state = fuse_round(
            setup.recipe, Turn(setup.contract, setup.hyper, round), state, uploads[round]
        )
        crew.receive(round, state)
        states.append(state)
    return setup, uploads, states


def wider(rows):
    return np.concatenate([rows, rows[:, :1]], axis=1)


def twisted(part):
    """The same part, but not as the others have it."""
    match part:
        case Tensors():
            name, array = next(iter(part.arrays.items()))
            rest = {n: a for n, a in part.arrays.items() if n != name}
            yield "tensor renamed", Tensors({**rest, f"{name}x": array})
            yield "tensor added", Tensors({**part.arrays, "more": np.ones(3)})
            yield "tensor larger", Tensors({**rest, name: np.stack([array, array])})
            if rest:
                yield "tensor missing", Tensors(rest)
        case Prototypes():
            yield "wider", Prototypes(part.classes, wider(part.vectors), part.counts)
            yield "narrower", Prototypes(part.classes, part.vectors[:, :-1], part.counts)
        case Mixtures():
            yield "wider", replace(part, means=wider(part.means), variances=wider(part.variances))
        case Head():
            yield "wider", replace(part, weight=wider(part.weight))


def strange(parts):
    """What a stranger makes of an honest device's parts."""
    yield "part added", {**parts, "more": Tensors({"x": np.ones(3)})}
    for name, part in parts.items():
        others = {n: p for n, p in parts.items() if n != name}
        if name not in OPTIONAL:
            yield f"{name} missing", others
        kind = (
            Tensors({"x": np.ones(3)})
            if not isinstance(part, Tensors)
            else Head([0], np.ones((1, 3)), np.ones(1))
        )
        yield f"{name} of another kind", {**others, name: kind}
        yield f"{name} elsewhere", {**others, f"{name}x": part}
        for what, other in twisted(part):
            yield f"{name}: {what}", {**others, name: other}


def message(setup, agent, round, base, parts):
    fleet, run, method = setup.contract.fleet, setup.contract.run, setup.recipe.name
    return upload(agent, round, base, parts, fleet=fleet, run=run, method=method)[1]


@pytest.mark.parametrize("method", METHODS)
def test_whatever_a_stranger_sends_first_the_honest_are_all_accepted_and_end_in_their_own_states(
    method, tmp_path
):
    setup, uploads, states = honest(method)
    agents = [each.agent for each in uploads[1]]
    kinds = list(strange(uploads[1][0].parts))
    for at, (what, parts) in enumerate(kinds):
        made = core(
            tmp_path / str(at), rounds=2, method=method, contract=setup.contract, hyper=setup.hyper
        )
        joined(made, [STRANGER, *agents])

        def send(agent, round, base, parts, made=made):
            return made.take(
                [
                    (
                        made.topics.parse(made.topics.upload(agent, round)),
                        message(setup, agent, round, base, parts),
                    )
                ],
                1.0,
            )

        for round in (1, 2):
            assert made.run_state.number == round
            base = states[round - 1].base
            first = receipts(send(STRANGER, round, base, parts))
            if round == 2:
                assert [status for _, status, _ in first] == ["refused"], what
            said = []
            for each in uploads[round]:
                said += send(each.agent, round, base, each.parts)
            made_receipts = receipts(said + made.take([], 100.0 * round))
            assert [r for r in made_receipts if r[0] != STRANGER] == [
                (a, "accepted", "") for a in agents
            ], what
            assert any(
                who == STRANGER and status == "refused" for who, status, _ in first + made_receipts
            ), what
            assert made.state.sha256 == states[round].sha256, what
        assert made.run_state.phase == "done"
        made.journal.close()


def weights(size, samples=5):
    return {"weights": Tensors({"w": np.full(size, 2.0)}), "data": summaries.sample_count(samples)}


def answer(made, agent, round, base, parts):
    return made.take([upload(agent, round, base, parts, method="fedavg")], 1.0)


def test_of_two_likenesses_with_as_many_votes_neither_is_fused_and_a_third_device_decides(tmp_path):
    made = core(tmp_path, method="fedavg", min_agents=2, quorum=0.5, rounds=2)
    _, _, base = joined(made)
    answer(made, "a", 1, base, weights(9))
    answer(made, "b", 1, base, weights(3))
    said = made.take([], 61.0)
    assert sorted(receipts(said)) == [("a", "refused", "unlike"), ("b", "refused", "unlike")]
    assert (announced(said)[0], announced(said)[2]) == (2, base)
    answer(made, "a", 2, base, weights(9, 6))
    for agent in "bc":
        said = answer(made, agent, 2, base, weights(3, 6))
    assert receipts(said) == [("c", "accepted", ""), ("a", "refused", "unlike")]
    assert made.state.shared["weights"]["w"].shape == (3,)


def test_a_restart_between_the_uploads_of_a_round_and_after_its_cut_changes_no_vote(tmp_path):
    made = core(tmp_path, method="fedavg", rounds=2)
    _, _, base = joined(made)
    for agent, size in (("a", 9), ("b", 3)):
        answer(made, agent, 1, base, weights(size))
    made.journal.close()
    made = core(tmp_path, method="fedavg", rounds=2)
    joined(made)
    answer(made, "c", 1, base, weights(3))
    assert made.journal.cut(1).counted == ((1, "b", 1), (1, "c", 1))
    base = made.state.base
    made.journal.close()
    made = core(tmp_path, method="fedavg", rounds=2)
    joined(made)
    assert receipts(answer(made, "a", 2, base, weights(9, 6))) == [("a", "refused", "unlike")]


def test_more_samples_than_are_plausible_do_not_keep_the_others_out(tmp_path):
    made = core(tmp_path, method="fedavg")
    _, _, base = joined(made)
    assert receipts(answer(made, "a", 1, base, weights(3, 2**31 - 1))) == [
        ("a", "refused", "count")
    ]
    assert receipts(answer(made, "b", 1, base, weights(3))) == [("b", "accepted", "")]


def test_rogues_that_say_they_have_the_most_samples_keep_nobody_out(tmp_path):
    """Twenty-two names at the bound of admission were more than one sum could hold."""
    made = core(tmp_path, method="fedavg", staleness=1, rounds=1, quorum=0.5)
    rogues = [f"r{n}" for n in range(40)]
    _, _, base = joined(made, (*rogues, *"abc"))
    said = [answer(made, name, 1, base, weights(3, 100_000_000)) for name in rogues]
    said += [answer(made, name, 1, base, weights(3)) for name in "abc"]
    assert {status for each in said for _, status, _ in receipts(each)} == {"accepted"}
    assert made.journal.cut(1).failed == ""
    assert made.state.shared["weights"]["w"].tolist() == [2.0] * 3
