from tests.papers.cell import SHORT, accuracy, nearest_raw_mean, without

CONTRASTED = ("fedmps", "prototype_all_classes")
# Here soft labels act by their smoothing: what the coordinator's classifier adds to it is within
# the noise.
SMOOTHED = ("fedmps", "head", "lam=0", "mu=20")


def what_its_contrast_must_reach():
    return accuracy(*CONTRASTED, "lam=0", **SHORT) + 0.02


def what_its_soft_labels_must_reach():
    return accuracy("fedmps", "head", "lam=0", "mu=0", **SHORT) + 0.03


def test_fedmps_contrasts_with_the_fleets_prototypes():
    assert accuracy(*CONTRASTED, **SHORT) > what_its_contrast_must_reach()
    # among all classes, as these are
    assert accuracy(*CONTRASTED, last=3) > nearest_raw_mean(together=True) + 0.03


def test_its_soft_labels_help_the_classifier():
    assert accuracy(*SMOOTHED, **SHORT) > what_its_soft_labels_must_reach()


def test_a_loss_without_its_contrast_would_be_noticed():
    assert without("supcon", *CONTRASTED, **SHORT) < what_its_contrast_must_reach()


def test_a_loss_without_soft_labels_would_be_noticed():
    assert without("kl_to_soft_labels", *SMOOTHED, **SHORT) < what_its_soft_labels_must_reach()
