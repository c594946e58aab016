from tests.papers.cell import accuracy, nearest_raw_mean

TEN = {"rounds": 10, "batch": 8, "seeds": 2}


def test_fedproc_gains_from_its_prototypes():
    contrasted = accuracy("fedproc", "prototype", "rounds=15", "tau=0.1", **TEN)
    # One round of hand-over: nothing but the classifier's loss.
    assert contrasted > accuracy("fedproc", "prototype", "rounds=1", **TEN) + 0.03
    assert contrasted > nearest_raw_mean(together=False, seeds=2) + 0.01
