from tests.papers.cell import accuracy, guessing, without

EVERY_ROUND = ("start=1", "interval=1")


def test_gfpl_aligns_projections_with_fixed_vectors():
    aligned = accuracy("gfpl", "prototype", *EVERY_ROUND, rounds=6, last=2)
    adrift = accuracy("gfpl", "prototype", *EVERY_ROUND, "lam=0", rounds=6, last=2)
    # A projection that nothing aligns says less than the commonest class.
    assert adrift < guessing() < guessing() + 0.2 < aligned


def test_gfpl_learns_faster_from_pseudo_features_of_the_fleet():
    fed = accuracy("gfpl", "head", *EVERY_ROUND, "passes=5", rounds=3, last=2)
    assert fed > accuracy("gfpl", "head", "pseudo=0", rounds=3, last=2) + 0.05


def test_gfpl_knows_classes_by_the_fleets_mixtures_before_its_classifier_does():
    mixture = accuracy("gfpl", "mixture", *EVERY_ROUND, rounds=3, last=2)
    assert mixture > accuracy("gfpl", "head", "pseudo=0", rounds=3, last=2) + 0.06


def test_a_loss_without_the_dot_regression_would_be_noticed():
    without("dot_regression", test_gfpl_aligns_projections_with_fixed_vectors)
