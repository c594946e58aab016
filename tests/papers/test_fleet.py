from tests.papers.cell import accuracy


def test_fleet_knows_all_classes_after_one_exchange():
    assert accuracy("fleet", "prototype_all_classes", rounds=1, last=1) > 0.95


def test_fleet_needs_its_covariance_and_its_prior():
    whole = accuracy("fleet", "prototype_all_classes", "smooth=1e9", rounds=1, last=1)
    nearest_mean = accuracy(
        "fleet", "prototype_all_classes", "smooth=1e9", "ridge=1e6", rounds=1, last=1
    )
    assert whole > 0.93
    assert nearest_mean < whole - 0.03
