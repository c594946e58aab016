"""People read the same figures as programs."""

from simulators.photos.bench import PhotosOptions, bench_photos
from simulators.photos.tables import tables
from tests.simulators.photos.made_up import photographs


def test_every_figure_of_the_document_is_in_the_text():
    bench = bench_photos(photographs(), PhotosOptions(1, (0,), 1), lambda words: None)
    text = tables(bench)
    row = bench.accuracy["all"]
    for share in (row["nearest"], row["cosine"], row["fleet"], bench.new_class["fleet"]["new"]):
        assert f"{100 * share:.1f} %" in text
    assert f"AUROC {bench.unknown['auroc']:.3f}" in text
    assert f"{bench.calibration_error:.3f}" in text
