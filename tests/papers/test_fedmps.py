from tests.papers.cell import accuracy, nearest_raw_mean, without


def test_fedmps_contrasts_with_the_fleets_prototypes():
    full = accuracy("fedmps", "prototype_all_classes")
    assert full > accuracy("fedmps", "prototype_all_classes", "lam=0") + 0.015
    assert full > nearest_raw_mean(together=True) + 0.03  # among all classes, as these are


def test_its_soft_labels_help_the_classifier():
    # Here they act by their smoothing: what the coordinator's classifier adds to it is within the
    # noise.
    smoothed = accuracy("fedmps", "head", "lam=0", "mu=20")
    assert smoothed > accuracy("fedmps", "head", "lam=0", "mu=0") + 0.015


def test_a_loss_without_its_contrast_would_be_noticed():
    without("supcon", test_fedmps_contrasts_with_the_fleets_prototypes)


def test_a_loss_without_soft_labels_would_be_noticed():
    without("kl_to_soft_labels", test_its_soft_labels_help_the_classifier)
