from tests.papers.cell import SHORT, accuracy, guessing

FEW_CLASSES = {"partition": "pathological", **SHORT}


def test_moon_is_fedavg_without_its_contrast_and_held_back_by_much_of_it():
    averaged = accuracy("fedavg", "head", **FEW_CLASSES)
    assert averaged > guessing(partition="pathological") + 0.06
    assert accuracy("moon", "head", "mu=0", **FEW_CLASSES) == averaged
    assert accuracy("moon", "head", "mu=10", **FEW_CLASSES) < averaged - 0.06
