import pytest

from tests.papers.cell import accuracy


def test_fedtgp_pulls_toward_prototypes_that_were_trained():
    trained = accuracy("fedtgp", "prototype", "lam=10")
    assert trained == pytest.approx(0.95, abs=0.025)
    assert trained > accuracy("fedtgp", "prototype", "lam=0") + 0.02
    assert trained > accuracy("fedtgp", "prototype", "lam=10", "server_epochs=0") + 0.1
