from tests.papers.cell import accuracy, without

FEW_CLASSES = {"partition": "pathological", "rounds": 10}


def test_mpfedcl_learns_a_common_classifier_where_averaging_alone_does_not():
    contrasted = accuracy("mpfedcl", "head", **FEW_CLASSES)
    averaging = accuracy("mpfedcl", "head", "lam=0", **FEW_CLASSES)
    assert averaging == accuracy("fedavg", "head", **FEW_CLASSES)
    assert contrasted > averaging + 0.08


def test_mpfedcl_without_weights_still_gains_from_the_pool():
    pooled = accuracy("mpfedcl", "prototype", "prototypes_only=yes", rounds=8)
    alone = accuracy("mpfedcl", "prototype", "prototypes_only=yes", "lam=0", rounds=8)
    assert pooled > alone + 0.01


def test_a_loss_without_the_contrast_with_the_pool_would_be_noticed():
    without("to_pool", test_mpfedcl_learns_a_common_classifier_where_averaging_alone_does_not)
