from tests.papers.cell import accuracy

EARLY = {"rounds": 3, "last": 3}  # the head is what there is to gain in the first rounds


def test_fedrep_trains_the_head_well_before_the_extractor():
    well = accuracy("fedrep", "head", **EARLY)
    assert well > accuracy("fedrep", "head", "head_epochs=1", **EARLY) + 0.08
    assert well > accuracy("fedper", "head", **EARLY) + 0.05  # both parts at once
