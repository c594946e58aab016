"""What is overheard of any method, and what its vectors give away."""

import numpy as np
import pytest

from protofleet import registry
from simulators.attacks.attacking import protocol
from simulators.attacks.hijacking import TOGETHER, Hijack, hijacked, overheard
from simulators.papers.cell import changed
from simulators.run.setup import prepare
from tests.exchanging import SETTINGS


def config(method, rounds=1):
    own = changed(
        protocol("digits"), SETTINGS.get(method, ()), method=method, rounds=rounds, validation=0.2
    )
    return changed(own, backbone="") if registry.load(method).traits.backbone else own


def silent(words):
    pass


PARTS = {
    "fedproto": ("prototypes",),
    "fedmps": ("low", "high"),
    "gfpl": ("mixtures",),
    "feddistill": ("answers",),
    "fedpac": ("prototypes",),  # and not the means from before training
    "fleet": ("prototypes",),
    "fedavg": (),
    "ifca": (),
}


@pytest.mark.parametrize(("method", "parts"), PARTS.items())
def test_vectors_of_the_samples_are_known_from_any_other_part(method, parts):
    victim = overheard(prepare(config(method)), 1, 1, silent)
    assert set(victim.telling) == set(parts)
    assert set(victim.vectors) == {*parts, *([TOGETHER] if len(parts) > 1 else [])}


def test_fleet_is_silent_on_single_samples_and_is_asked_with_copies():
    victim = overheard(prepare(config("fleet")), 1, 1, silent)
    data, shard = victim.setup.data, victim.setup.partition.shards[1]
    assert victim.copies == 5
    one, five = (data.x[shard.train[:n]] for n in (1, 5))
    assert victim.would_send(one, np.zeros(1, np.int64)) == {}
    assert len(victim.would_send(five, np.zeros(5, np.int64))["prototypes"].classes) == 1
    # Its second word is counts, so the first is what the attack is on.
    attack = Hijack(steps=5, public=60, fewer=(1, 5), uploads=1)
    outcome = hijacked(config("fleet", rounds=2), attack, silent)
    assert (outcome.round, [r.samples for r in outcome.parts[0].by_samples]) == (1, [5, 20])


def test_a_method_that_never_exchanges_is_not_overheard():
    assert overheard(prepare(config("local")), 1, 1, silent) is None


def test_the_network_answers_what_was_sent_when_it_is_asked_for_the_same_samples():
    victim = overheard(prepare(config("fedproto")), 1, 1, silent)
    data, shard = victim.setup.data, victim.setup.partition.shards[1]
    again = victim.would_send(data.x[shard.train], data.y[shard.train])["prototypes"]
    # But for what the wire rounds.
    assert again.vectors == pytest.approx(victim.vectors["prototypes"].vectors, abs=1e-2)


def test_single_samples_are_restored_and_every_figure_has_its_stranger():
    attack = Hijack(steps=120, public=600, fewer=(1,), uploads=8)
    outcome = hijacked(config("fedproto", rounds=2), attack, silent)
    (part,) = outcome.parts
    one, whole = part.by_samples
    assert (outcome.round, outcome.public, part.width) == (2, 600, 64)
    assert (one.samples, whole.samples) == (1, 20)
    assert one.vectors == 8 * outcome.classes
    assert one.ssim > one.stranger + 0.1
    assert one.retrieved > 10 * one.chance
    assert np.isfinite(whole.stranger)
    assert part.loss[-1][1] < part.loss[0][1]


def test_a_method_without_vectors_has_no_figures():
    assert hijacked(config("fedavg"), Hijack(), silent) is None
