from tests.papers.cell import accuracy


def test_fedproc_gains_from_its_prototypes():
    contrasted = accuracy("fedproc", "prototype", "rounds=15", "tau=0.1", rounds=10)
    assert contrasted > 0.92
    # One round of hand-over: nothing but the classifier's loss.
    assert contrasted > accuracy("fedproc", "prototype", "rounds=1", rounds=10) + 0.03
