from tests.papers.cell import accuracy, nearest_raw_mean, without


def test_protonorm_spreads_classes_and_pulls_toward_them():
    full = accuracy("protonorm", "prototype")
    assert full > accuracy("protonorm", "prototype", "align=no") + 0.02
    assert full > accuracy("protonorm", "prototype", "lam=0") + 0.05
    assert full > nearest_raw_mean(together=False) + 0.01


def test_a_loss_without_the_pull_would_be_noticed():
    without("to_prototype", test_protonorm_spreads_classes_and_pulls_toward_them)
