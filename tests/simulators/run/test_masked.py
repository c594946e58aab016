"""Masked sums in the laboratory: the state is that of the plain run with the same survivors."""

from functools import cache

import pytest

from coordinator.uploads.fuse import fuse_round, fuse_total, start_state
from protofleet import registry
from protofleet.errors import UsageError
from protofleet.masking.group import GroupFailed
from protofleet.recipe import Turn
from simulators.run.config import LabConfig, MaskOptions, Run
from simulators.run.masked import STEPS, added, ceilings, losses
from simulators.run.partitions import PartitionOptions
from simulators.run.rounds import LabOptions, opened, run
from simulators.run.setup import prepare
from simulators.run.workers import hire

BAGS = ("fedtgp", "fedmps", "gfpl", "fedic", "mpfedcl", "fedpac", "local")


def config(method, *settings, masks=None, **other):
    run_of = Run(method=method, dataset="digits", agents=6, rounds=2, seed=4, **other)
    split = PartitionOptions(alpha=0.5, limit=300)
    return LabConfig(run_of, split, settings=settings, masks=masks or MaskOptions(True))


@cache
def first_round(method):
    """Everything that decides the state after it."""
    setup = prepare(config(method))
    turn = Turn(setup.contract, setup.hyper, 1)
    crew, before = hire(setup, 1), start_state(setup.recipe, turn)
    crew.receive(0, before)
    uploads = {name: opened(setup, m) for name, m in crew.work(1, setup.agents).items()}
    rooms = setup.recipe.rooms(turn, ceilings(setup.config, len(uploads)))
    partials = {name: setup.recipe.fold(turn, own, 1) for name, own in uploads.items()}
    return setup, turn, before, uploads, partials, rooms


@pytest.mark.parametrize("method", ["fleet", "fedproto", "fedavg", "protonorm"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_state_is_the_plain_one_with_the_same_survivors(method, step, count):
    setup, turn, before, uploads, partials, rooms = first_round(method)
    lost = dict.fromkeys(sorted(uploads)[1 : 1 + count], step)
    there = [own for name, own in uploads.items() if step == "reveal" or name not in lost]
    masked = added(partials, rooms, 2, lost)
    state = fuse_total(setup.recipe, turn, masked.total, before)
    assert state.sha256 == fuse_round(setup.recipe, turn, before, there).sha256


@pytest.mark.parametrize("method", ["lg-fedavg", "fedproc", "feddistill", "ifca"])
def test_a_run_ends_where_the_plain_one_does(method):
    masked, plain = (
        run(prepare(config(method, masks=masks)), LabOptions(), lambda row: None)
        for masks in (MaskOptions(True), MaskOptions())
    )
    assert masked.state.sha256 == plain.state.sha256
    assert masked.rows[-1].accuracy == plain.rows[-1].accuracy


@pytest.mark.parametrize("method", ["fedprox", "fedper", "fedrep", "moon"])
def test_methods_that_add_up_as_fedavg_does_have_its_rooms(method):
    one, two = registry.load(method), registry.load("fedavg")
    assert one.rooms is two.rooms
    assert one.fuse is two.fuse


def test_a_run_that_loses_devices_goes_on_and_says_whom():
    outcome = run(
        prepare(config("fedproto", masks=MaskOptions(True, dropouts=2))),
        LabOptions(),
        lambda row: None,
    )
    assert [len(row.lost) for row in outcome.rows] == [2, 2]
    assert all(at in STEPS for row in outcome.rows for at in row.lost.values())


def test_one_too_many_ends_the_round_without_a_total():
    *_, uploads, partials, rooms = first_round("fedproto")
    with pytest.raises(GroupFailed, match="3 of 6 devices sent masked sums, 4 are due"):
        added(partials, rooms, 2, dict.fromkeys(sorted(uploads)[:3], "masks"))


@pytest.mark.parametrize("method", BAGS)
def test_methods_that_need_every_upload_refuse_in_one_line(method):
    with pytest.raises(UsageError, match=f"{method} sends more than sums"):
        prepare(config(method))


@pytest.mark.parametrize(
    ("method", "setting"),
    [("feddistill", "others=yes"), ("fedproto", "buckets=20"), ("fleet", "buckets=20")],
)
def test_settings_that_need_to_know_whose_a_sum_is_are_refused_too(method, setting):
    with pytest.raises(UsageError, match=f"{method} sends more than sums"):
        prepare(config(method, setting))


def test_who_is_lost_comes_from_the_seed():
    _, turn, *_ = first_round("fedproto")
    names = [f"d{n}" for n in range(9)]
    assert losses(turn, names, 3) == losses(turn, names, 3)
    assert len(losses(turn, names, 3)) == 3
    assert not losses(turn, names, 0)


def test_the_closer_limit_is_what_has_room():
    wide, close = (config("fedavg", masks=MaskOptions(True, mask_norm=norm)) for norm in (1e9, 4))
    assert ceilings(wide, 3).norm == wide.admission.norm
    assert (ceilings(close, 3).norm, ceilings(close, 3).trace) == (4, 16)
