"""What is exported: whose network, whose points, and which samples it is checked with."""

from tests.bundles import device


def test_a_frozen_extractor_has_a_lineage_of_its_own():
    run = device().lineages()
    frozen = device(freeze=True).lineages()
    assert [each.partition(":")[0] for each in run] == ["run"]
    assert [each.partition(":")[0] for each in frozen] == ["extractor", "run"]
    assert device().lineages(freeze=True)[1:] == run
