import pytest

from tests.papers.cell import accuracy


def test_protonorm_spreads_classes_and_pulls_toward_them():
    full = accuracy("protonorm", "prototype")
    assert full == pytest.approx(0.95, abs=0.025)
    assert full > accuracy("protonorm", "prototype", "align=no") + 0.02
    assert full > accuracy("protonorm", "prototype", "lam=0") + 0.05
