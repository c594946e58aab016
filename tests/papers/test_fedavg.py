from tests.papers.cell import accuracy, guessing


def test_fedavg_knows_classes_that_a_device_never_had():
    common = accuracy("fedavg", "head", test_on="everyone")
    assert common > accuracy("local", "head", test_on="everyone") + 0.2


def test_one_model_for_all_fits_a_device_less_well_than_its_own():
    common = accuracy("fedavg", "head")
    assert guessing() + 0.2 < common < accuracy("local", "head") - 0.04
