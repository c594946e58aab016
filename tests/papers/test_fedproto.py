from tests.papers.cell import accuracy, without


def test_fedproto_pulls_devices_together():
    pulled = accuracy("fedproto", "prototype")
    assert pulled > accuracy("fedproto", "prototype", "lam=0") + 0.035


def test_with_devices_that_begin_alike_fedproto_does_better_than_from_ones_own_weights():
    assert accuracy("fedproto", "prototype", common_start="yes") > accuracy("fedproto", "prototype")


def test_a_loss_without_the_pull_would_be_noticed():
    without("to_prototype", test_fedproto_pulls_devices_together)
