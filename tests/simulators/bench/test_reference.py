"""The reference loop of the benchmarks is FedProto written independently: it must learn what ours learns."""

from statistics import fmean

import pytest

from simulators.bench import reference
from simulators.bench.lab import ours, theirs


@pytest.mark.parametrize("augment", ["none", "crop-flip"])
def test_ours_and_the_reference_reach_the_same_accuracy(small_lab, augment):
    from dataclasses import replace

    config = small_lab(agents=6, common_start="yes")
    config = replace(config, training=replace(config.training, augment=augment))
    mine, plain = ours(config), theirs(config, reference.in_memory)
    pairs = [(mine(number), plain(number)) for number in range(1, 21)]
    seen, wanted = (fmean(column[-5:]) for column in zip(*pairs, strict=True))
    assert seen > 0.5
    assert seen == pytest.approx(wanted, abs=0.06)


def test_the_page_of_results_says_what_was_reached_and_how(small_lab, tmp_path):
    from simulators.bench import papers

    config = small_lab(rounds=1)
    cell = papers.Cell("small", "A small cell", config, "prototype", 0.1, 0.01, 123, "digits")
    papers.run_cell(cell, [0, 1], tmp_path, 1)
    page = papers.page((cell,), {"small": papers.found(cell, [0, 1], tmp_path)}, "the command")
    assert "| A small cell | 10.00 ± 1.00 |" in page
    assert "yes | 2 | 1 |" in page
    assert "(paper 123)" in page
    assert "the command" in page


def test_a_cell_prints_the_command_that_repeats_it():
    from simulators.bench.papers import CELLS, command_of

    words = command_of(CELLS[0].config)
    assert words.startswith("protofleet simulate --method fedproto")
    assert "--partition-seed 1234" in words
    assert "--augment crop-flip" in words
    assert "--agents" not in words  # 20 is the default
