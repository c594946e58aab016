from tests.papers.cell import SHORT, accuracy, without

FEW_CLASSES = {"partition": "pathological", **SHORT}
ALONE = ("mpfedcl", "prototype", "prototypes_only=yes")


def what_its_contrast_must_reach():
    return accuracy("mpfedcl", "head", "lam=0", **FEW_CLASSES) + 0.06


def test_mpfedcl_learns_a_common_classifier_where_averaging_alone_does_not():
    averaging = accuracy("mpfedcl", "head", "lam=0", **FEW_CLASSES)
    assert averaging == accuracy("fedavg", "head", **FEW_CLASSES)
    assert accuracy("mpfedcl", "head", **FEW_CLASSES) > what_its_contrast_must_reach()


def test_mpfedcl_without_weights_still_gains_from_the_pool():
    assert accuracy(*ALONE, **SHORT) > accuracy(*ALONE, "lam=0", **SHORT) + 0.01


def test_a_loss_without_the_contrast_with_the_pool_would_be_noticed():
    broken = without("to_pool", "mpfedcl", "head", **FEW_CLASSES)
    assert broken < what_its_contrast_must_reach()
