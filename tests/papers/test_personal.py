from tests.papers.cell import accuracy


def test_lg_fedavg_shares_a_head_which_helps_in_the_first_rounds():
    shared, alone = accuracy("lg-fedavg", "head", rounds=5), accuracy("local", "head", rounds=5)
    assert abs(shared - 0.81) < 0.03
    assert shared > alone + 0.01


def test_fedper_keeps_personal_heads():
    assert abs(accuracy("fedper", "head") - 0.9475) < 0.025


def test_fedrep_trains_the_head_well_before_the_extractor():
    well, little = (
        accuracy("fedrep", "head", rounds=5),
        accuracy("fedrep", "head", "head_epochs=1", rounds=5),
    )
    assert abs(well - 0.87) < 0.03
    assert well > little + 0.08


def test_ifca_gives_devices_of_another_look_another_model():
    looks = {"partition": "feature-skew", "rounds": 10, "last": 2}
    two, one = accuracy("ifca", "head", **looks), accuracy("ifca", "head", "clusters=1", **looks)
    assert two > one + 0.05
