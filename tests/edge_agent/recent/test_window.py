"""A window of blocks outlives its process; what it says is of this extractor, in a few numbers."""

import numpy as np

from edge_agent.contributing import statement
from edge_agent.recent.window import RecentWindow, read_report, report_file
from edge_agent.updates import cache
from protofleet import wire
from protofleet.exchange import contributed, learned
from protofleet.exchange.contributed import Claim
from protofleet.statistics.closed_form import moments
from protofleet.statistics.contribution import fold
from protofleet.statistics.drift import BLOCK, KEPT, LEAST
from tests.contributing import GRID, LINEAGE, WIDTH, message, read, samples

NAMES = ("apple", "pear")


def fill(bundle, blocks, moved=0.0, start=0):
    """One life of a process that saw so many blocks."""
    window = RecentWindow(bundle, LINEAGE, WIDTH)
    for n in range(start, start + blocks):
        features, labels = samples(NAMES, 100 + n, number=BLOCK // 2)
        for feature, label in zip(features + moved, labels, strict=True):
            window.add(feature.astype(np.float32), NAMES[label], n % 2 == 0)
    return window


def sums(bundle):
    """What the daemon fetched, and what this device contributed."""
    total = learned.parts(moments(fold(read("a", NAMES, number=40).contribution, GRID)))
    envelope = wire.Envelope("global", "orchard", "r")
    cache.total_file(bundle).write_bytes(
        contributed.write_total(Claim(LINEAGE, NAMES, total="t"), total, envelope)
    )
    folder = statement.folder_of(bundle, LINEAGE)
    folder.mkdir(parents=True)
    (folder / statement.CONTRIBUTION).write_bytes(message("a", NAMES, number=40))


def test_without_sums_there_is_one_number_and_with_them_there_are_two(tmp_path):
    bundle = tmp_path / "x.pfb"
    fill(bundle, LEAST - 1)
    assert read_report(bundle) is None
    fill(bundle, 1, start=LEAST - 1)  # the next life goes on where the last one was
    lineage, first = read_report(bundle)
    assert (lineage, first.blocks, first.unknown, first.moved) == (LINEAGE, LEAST, 0.6, None)
    sums(bundle)
    fill(bundle, KEPT, start=LEAST)
    calm = read_report(bundle)[1]
    assert calm.labelled
    assert (calm.blocks, round(calm.unknown, 1)) == (KEPT, 0.5)
    assert abs(calm.moved) < 3 * calm.moved_error + 0.05
    fill(bundle, KEPT, moved=2.0, start=LEAST)
    assert read_report(bundle)[1].moved > 1


def test_the_open_block_is_remembered_where_the_process_ends_in_good_order(tmp_path):
    window = fill(tmp_path / "x.pfb", 0)
    for n in range(LEAST * BLOCK):
        window.add(np.full(WIDTH, n, np.float32), "apple", unknown=False)
        if n % 7 == 0:
            window.save()
            window = RecentWindow(tmp_path / "x.pfb", LINEAGE, WIDTH)
    assert read_report(tmp_path / "x.pfb")[1].samples == LEAST * BLOCK


def test_one_thing_that_is_looked_at_for_ever_is_one_sample(tmp_path):
    bundle = tmp_path / "x.pfb"
    window = RecentWindow(bundle, LINEAGE, WIDTH)
    for _ in range(2 * LEAST * BLOCK):
        window.add(np.ones(WIDTH, np.float32), "apple", unknown=True)
    assert read_report(bundle) is None


def test_files_that_are_damaged_or_anothers_are_as_none(tmp_path):
    bundle = tmp_path / "x.pfb"
    fill(bundle, LEAST)
    other = RecentWindow(bundle, "extractor:other", WIDTH)
    other.add(np.ones(WIDTH, np.float32), "apple", unknown=False)
    for path in cache.recent_folder(bundle).glob("*.npz"):
        path.write_bytes(path.read_bytes()[:-40])
    assert fill(bundle, 1).add(np.ones(WIDTH, np.float32), "apple", unknown=False) is None
    for text in ("", "[]", '{"lineage": "x"}', '{"lineage": "x", "blocks": 1e9}', "{" * 5000):
        report_file(bundle).write_text(text)
        assert read_report(bundle) is None
