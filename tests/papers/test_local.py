from tests.papers.cell import SHORT, accuracy, nearest_raw_mean, share_of_known_classes


def test_local_knows_only_its_own_classes():
    everyones = accuracy("local", "prototype_all_classes", test_on="everyone", **SHORT)
    assert everyones <= share_of_known_classes(test_on="everyone")
    own = accuracy("local", "prototype", **SHORT)
    assert own == accuracy(
        "local", "prototype_all_classes", **SHORT
    )  # it has no others to mistake them for
    assert own > everyones + 0.15


def test_its_prototypes_are_about_as_good_as_means_of_raw_images():
    assert abs(accuracy("local", "prototype", **SHORT) - nearest_raw_mean(together=False)) < 0.05
