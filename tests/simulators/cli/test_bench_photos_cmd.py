"""`protofleet bench photos` on folders of small pictures, for programs and for people."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from export.writer import Wanted, export, write
from simulators.cli.bench_photos_cmd import photos
from tests.bundles import device, digits


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    write(export(device(), Wanted(by="prototype")), root / "digits.pfb")
    data = digits()
    for i, (x, y) in enumerate(zip(data.x[:300], data.y[:300], strict=True)):
        if y < 4:
            folder = root / "data" / f"camera-{i % 2}" / str(y)
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.asarray(x)[..., 0]).save(folder / f"{i}.png")
    return ["--data", str(root / "data"), "--extractor", str(root / "digits.pfb")]


def test_programs_get_one_document(words):
    short = ["--splits", "1", "--shots", "5,all", "--classes", "1", "--json"]
    run = CliRunner().invoke(photos, [*words, *short], catch_exceptions=False)
    document = json.loads(run.stdout)
    assert set(document["accuracy"]) == {"5", "all"}
    assert document["accuracy"]["all"]["fleet"] > 0.5
    assert document["splits"] == 1


def test_people_get_tables(words):
    short = ["--splits", "1", "--shots", "all", "--classes", "1"]
    text = CliRunner().invoke(photos, [*words, *short], catch_exceptions=False).stdout
    assert "a new class from five photographs" in text
    assert "AUROC" in text


@pytest.mark.parametrize("shots", ["few", "1,-2"])
def test_shots_that_are_none_are_refused(words, shots):
    run = CliRunner().invoke(photos, [*words, "--shots", shots])
    assert run.exit_code != 0
