from tests.papers.cell import accuracy


def test_fedavg_averages_to_a_common_classifier():
    assert accuracy("fedavg", "head") > 0.8


def test_fedprox_holds_devices_back_when_told_to():
    free, held = accuracy("fedprox", "head"), accuracy("fedprox", "head", "mu=10.0", rounds=8)
    assert free > 0.8
    assert held < free - 0.1


def test_local_knows_only_its_own():
    assert accuracy("local", "prototype") > 0.88
