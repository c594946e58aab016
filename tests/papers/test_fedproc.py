from tests.papers.cell import accuracy, nearest_raw_mean


def test_fedproc_gains_from_its_prototypes():
    contrasted = accuracy("fedproc", "prototype", "rounds=15", "tau=0.1", rounds=10)
    # One round of hand-over: nothing but the classifier's loss.
    assert contrasted > accuracy("fedproc", "prototype", "rounds=1", rounds=10) + 0.03
    assert contrasted > nearest_raw_mean(together=False) + 0.01
