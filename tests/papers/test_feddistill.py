from tests.papers.cell import accuracy, nearest_raw_mean


def test_feddistill_learns_from_the_fleets_logits():
    distilled = accuracy("feddistill", "prototype", "lam=5", seeds=2, batch=8)
    assert distilled > accuracy("feddistill", "prototype", "lam=0", seeds=2, batch=8) + 0.012
    assert distilled > nearest_raw_mean(together=False, seeds=2) + 0.01
