from tests.papers.cell import accuracy, guessing, without

EVERY_ROUND = ("start=1", "interval=1")
ALIGNED = ("gfpl", "prototype", *EVERY_ROUND)
SIX = {"rounds": 6, "last": 2}
THREE = {"rounds": 3, "last": 2}


def test_gfpl_aligns_projections_with_fixed_vectors():
    # A projection that nothing aligns says less than the commonest class.
    assert accuracy(*ALIGNED, "lam=0", **SIX) < guessing()
    assert accuracy(*ALIGNED, **SIX) > guessing() + 0.2


def test_gfpl_learns_faster_from_pseudo_features_of_the_fleet():
    fed = accuracy("gfpl", "head", *EVERY_ROUND, "passes=5", **THREE)
    assert fed > accuracy("gfpl", "head", "pseudo=0", **THREE) + 0.06


def test_gfpl_knows_classes_by_the_fleets_mixtures_before_its_classifier_does():
    mixture = accuracy("gfpl", "mixture", *EVERY_ROUND, **THREE)
    assert mixture > accuracy("gfpl", "head", "pseudo=0", **THREE) + 0.08


def test_a_loss_without_the_dot_regression_would_be_noticed():
    assert without("dot_regression", *ALIGNED, **SIX) < guessing() + 0.2
