"""`protofleet bench taps` for programs and for people."""

import json

import pytest
from click.testing import CliRunner
from PIL import Image

from simulators.cli.bench_taps_cmd import table, taps
from tests.networks import extractor_bundle, pictures


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    extractor_bundle(root / "x.pfb")
    for domain in ("a", "b"):
        for label, seed in {"red": 1, "blue": 2, "grey": 3}.items():
            folder = root / "data" / domain / label
            folder.mkdir(parents=True)
            for n, image in enumerate(pictures(seed + 10 * (domain == "b"), 12)):
                Image.fromarray(image).save(folder / f"{n}.png")
    return ["--data", str(root / "data"), "--extractor", str(root / "x.pfb"), "--taps", "15"]


def test_programs_get_one_document_and_a_picture(words, tmp_path):
    more = ["--seeds", "1", "--json", "--plot", str(tmp_path / "a.png")]
    run = CliRunner().invoke(taps, [*words, *more], catch_exceptions=False)
    document = json.loads(run.stdout)
    assert [row["taps"] for row in document["choices"]["queue"]] == [5, 10, 15]
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_people_get_a_line_for_every_visit():
    rows = [{"taps": n, "accuracy": 0.5, "spread": 0.02} for n in (5, 10)]
    live = {
        "points": [{"taps": 10, "accuracy": 0.625}],
        "undone": {"samples": [10, 9], "seconds": 3.0},
    }
    lines = table({"choices": {"queue": rows}, "live": live}).splitlines()
    assert lines[1].split() == ["5", "50.0", "±", "2.0"]
    assert lines[2].split()[-1] == "62.5"
    assert lines[3].startswith("undone: 10 -> 9 samples")
