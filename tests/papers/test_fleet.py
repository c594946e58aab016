from tests.papers.cell import accuracy, discriminants_of_raw_images

ONE_EXCHANGE = {"rounds": 1, "last": 1}
NO_PRIOR = "smooth=1e9"


def test_fleet_knows_all_classes_after_one_exchange():
    # Better, in one exchange, than the same analysis of all raw images in one place.
    common = accuracy("fleet", "prototype_all_classes", NO_PRIOR, **ONE_EXCHANGE)
    assert common > discriminants_of_raw_images() + 0.015
    assert accuracy("fleet", "prototype_all_classes", **ONE_EXCHANGE) > common - 0.01


def test_fleet_needs_its_covariance():
    whole = accuracy("fleet", "prototype_all_classes", NO_PRIOR, **ONE_EXCHANGE)
    variances = accuracy("fleet", "prototype_all_classes", NO_PRIOR, "rank=0", **ONE_EXCHANGE)
    assert variances < whole - 0.07
