"""The papers' protocols, by the numbers that the papers give."""

from simulators.papers.protocols import (
    CIFAR,
    CLUSTERED,
    FASHION,
    MIXED,
    MPS_CIFAR,
    POOLED,
    SPIRAL,
    mnist_few_shot,
    quick,
)
from simulators.run.partitions import TEST_SHARE


def test_few_shot_is_fedproto_s_on_the_devices_its_own_code_draws():
    for config in (CIFAR, FASHION, MPS_CIFAR):
        assert (config.run.agents, config.run.partition_seed) == (20, 1234)
        assert (config.partition.ways, config.partition.shots) == (3, 100)
        training = config.training
        assert (training.batch_size, training.lr, training.momentum) == (8, 0.01, 0.5)
    assert (CIFAR.training.augment, FASHION.training.augment) == ("crop-flip", "none")


def test_mp_fedcl_trains_on_two_thousand_samples_in_all():
    assert POOLED.partition.limit * (1 - TEST_SHARE) == 2000.25
    assert POOLED.run.test_on == "everyone"


def test_ways_are_the_only_difference_between_gfpl_s_cells():
    three, five = mnist_few_shot(3), mnist_few_shot(5)
    assert (three.partition.ways, five.partition.ways) == (3, 5)
    assert three.run == five.run
    assert three.training == five.training


def test_quick_changes_how_and_not_what_is_computed():
    fast = quick(SPIRAL)
    assert fast.numerics.compile
    assert (fast.run, fast.partition, fast.training) == (
        SPIRAL.run,
        SPIRAL.partition,
        SPIRAL.training,
    )


def test_mixed_networks_meet_at_the_paper_s_512():
    assert (MIXED.run.resize, MIXED.run.embedding) == ("pool", 512)
    assert len(MIXED.run.backbone.split(",")) == 4


def test_what_is_built_on_pfllib_leaves_out_a_last_batch_that_is_not_full():
    assert {config.training.last_batch for config in (MIXED, CLUSTERED)} == {"drop"}
    assert CLUSTERED.partition.pairs == "consecutive"
    assert CLUSTERED.partition.shares == "unequal"
    assert CIFAR.training.last_batch == "keep"
