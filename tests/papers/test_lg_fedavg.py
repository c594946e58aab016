from tests.papers.cell import SHORT, accuracy


def test_a_shared_head_helps_in_the_first_rounds():
    shared, alone = (
        accuracy("lg-fedavg", "head", rounds=5, seeds=2),
        accuracy("local", "head", rounds=5, seeds=2),
    )
    assert shared > alone + 0.01


def test_extractors_of_ones_own_fit_a_device_better_than_a_common_network():
    assert accuracy("lg-fedavg", "head", **SHORT) > accuracy("fedavg", "head", **SHORT) + 0.1
