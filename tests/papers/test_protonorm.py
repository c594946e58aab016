from tests.papers.cell import accuracy, nearest_raw_mean, without

SMALL = {"batch": 8}


def what_its_pull_must_reach():
    return accuracy("protonorm", "prototype", "lam=0", **SMALL) + 0.05


def test_protonorm_spreads_classes_and_pulls_toward_them():
    full = accuracy("protonorm", "prototype", **SMALL)
    assert full > accuracy("protonorm", "prototype", "align=no", **SMALL) + 0.02
    assert full > what_its_pull_must_reach()
    assert full > nearest_raw_mean(together=False) + 0.01


def test_a_loss_without_the_pull_would_be_noticed():
    assert without("to_prototype", "protonorm", "prototype", **SMALL) < what_its_pull_must_reach()
