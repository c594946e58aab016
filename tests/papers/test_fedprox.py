from tests.papers.cell import SHORT, accuracy


def test_fedprox_is_fedavg_without_its_term_and_nearly_so_with_little_of_it():
    averaged = accuracy("fedavg", "head", **SHORT)
    assert accuracy("fedprox", "head", "mu=0", **SHORT) == averaged
    assert abs(accuracy("fedprox", "head", **SHORT) - averaged) < 0.02


def test_fedprox_holds_devices_back_when_told_to():
    assert (
        accuracy("fedprox", "head", "mu=10.0", **SHORT) < accuracy("fedavg", "head", **SHORT) - 0.2
    )
