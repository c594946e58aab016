from tests.papers.cell import accuracy


def test_a_shared_head_helps_in_the_first_rounds():
    shared, alone = accuracy("lg-fedavg", "head", rounds=5), accuracy("local", "head", rounds=5)
    assert shared > alone + 0.01


def test_extractors_of_ones_own_fit_a_device_better_than_a_common_network():
    assert accuracy("lg-fedavg", "head", rounds=8) > accuracy("fedavg", "head", rounds=8) + 0.1
