from tests.papers.cell import accuracy


def test_fedmps_contrasts_with_the_fleets_prototypes():
    full, alone = (
        accuracy("fedmps", "prototype_all_classes"),
        accuracy("fedmps", "prototype_all_classes", "lam=0"),
    )
    assert full > 0.93
    assert full > alone + 0.015


def test_its_soft_labels_help_the_classifier():
    # Here they act by their smoothing: what the coordinator's classifier adds to it is within the
    # noise.
    assert (
        accuracy("fedmps", "head", "lam=0", "mu=20")
        > accuracy("fedmps", "head", "lam=0", "mu=0") + 0.015
    )
