from tests.papers.cell import accuracy


def test_feddistill_learns_from_the_fleets_logits():
    distilled, alone = (
        accuracy("feddistill", "prototype", "lam=5"),
        accuracy("feddistill", "prototype", "lam=0"),
    )
    assert distilled > 0.94
    assert distilled > alone + 0.012
    assert accuracy("feddistill", "head") > 0.92
