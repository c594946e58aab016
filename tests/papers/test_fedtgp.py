from tests.papers.cell import accuracy, nearest_raw_mean


def test_fedtgp_pulls_toward_prototypes_that_were_trained():
    trained = accuracy("fedtgp", "prototype", "lam=10", batch=8)
    assert trained > accuracy("fedtgp", "prototype", "lam=0", batch=8) + 0.02
    assert trained > accuracy("fedtgp", "prototype", "lam=10", "server_epochs=0", batch=8) + 0.1
    assert trained > nearest_raw_mean(together=False) + 0.01
