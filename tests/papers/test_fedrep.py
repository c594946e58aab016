from tests.papers.cell import accuracy


def test_fedrep_trains_the_head_well_before_the_extractor():
    well = accuracy("fedrep", "head", rounds=5)
    assert well > accuracy("fedrep", "head", "head_epochs=1", rounds=5) + 0.055
    assert well > accuracy("fedper", "head", rounds=5) + 0.04  # both parts at once
