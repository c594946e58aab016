from tests.papers.cell import SHORT, accuracy, without


def what_its_pull_must_reach():
    return accuracy("fedproto", "prototype", "lam=0", **SHORT) + 0.045


def test_fedproto_pulls_devices_together():
    assert accuracy("fedproto", "prototype", **SHORT) > what_its_pull_must_reach()


def test_with_devices_that_begin_alike_fedproto_does_better_than_from_ones_own_weights():
    alike = accuracy("fedproto", "prototype", common_start="yes", **SHORT)
    assert alike > accuracy("fedproto", "prototype", **SHORT) + 0.01


def test_a_loss_without_the_pull_would_be_noticed():
    assert without("to_prototype", "fedproto", "prototype", **SHORT) < what_its_pull_must_reach()
