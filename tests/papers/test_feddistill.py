from tests.papers.cell import accuracy, nearest_raw_mean


def test_feddistill_learns_from_the_fleets_logits():
    distilled = accuracy("feddistill", "prototype", "lam=5")
    assert distilled > accuracy("feddistill", "prototype", "lam=0") + 0.012
    assert distilled > nearest_raw_mean(together=False) + 0.01
