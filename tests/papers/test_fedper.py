from tests.papers.cell import accuracy


def test_a_personal_head_fits_a_device_better_than_the_common_one():
    assert accuracy("fedper", "head") > accuracy("fedavg", "head") + 0.045
