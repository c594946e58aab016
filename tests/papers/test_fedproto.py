from tests.papers.cell import accuracy


def test_fedproto_pulls_devices_together():
    pulled, alone = accuracy("fedproto", "prototype"), accuracy("fedproto", "prototype", "lam=0")
    assert pulled > 0.9
    assert pulled > alone + 0.05
