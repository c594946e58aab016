"""The listings of docs/devices.md do what they say."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from export import page
from export.writer import Wanted, contents_of, export, write
from protofleet import wire
from protofleet.contract import Input
from protofleet.exchange import published
from protofleet.settings.fields import to_plain
from protofleet.statistics.reliability import Calibration
from tests.bundles import device, other_bank
from tests.export.browser import node_modules

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "devices.md").read_text()

__all__ = ["node_modules"]


def listings(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.S)


@pytest.fixture(scope="module")
def made():
    return export(
        device("cnn-mnist", kind=Input("image", (28, 28, 3), (0.5,) * 3, (0.5,) * 3)),
        Wanted(also=("raw",)),
    )


@pytest.fixture
def place(made, tmp_path):
    write(made, tmp_path / "bundle")
    bank = published.read(made.files["prototypes.cbor"]).bank
    (tmp_path / "other.cbor").write_bytes(
        published.write(other_bank(bank), wire.Envelope("global", "f", "r", round=9))
    )
    Image.fromarray(np.full((40, 40, 3), 90, np.uint8)).save(tmp_path / "photo.png")
    return tmp_path


@pytest.mark.parametrize("number", range(len(listings("python"))))
def test_python(place, number):
    run = subprocess.run(
        [sys.executable, "-c", listings("python")[number]],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.strip()


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_javascript(made, place, node_modules):
    page.write(contents_of(made), place / "page", node_modules)
    (listing,) = listings("js")
    (place / "listing.mjs").write_text(listing + "\nprocess.exit(0);\n")
    run = subprocess.run(
        ["node", "listing.mjs"], cwd=place, capture_output=True, text=True, check=False, timeout=120
    )
    assert (run.returncode, run.stderr) == (0, "")
    labels = set("abcd")
    lines = run.stdout.strip().splitlines()
    assert lines[0].split()[0] in labels
    assert lines[-1] in labels


def test_the_recipe_for_how_sure_gives_what_a_device_says():
    (recipe,) = [listing for listing in listings("python") if "def judged" in listing]
    scope, rng = {}, np.random.default_rng(6)
    exec(recipe, scope)
    x, w, b = rng.normal(size=(40, 9)), rng.normal(size=(9, 5)), rng.normal(size=5)
    for knots in ((), (0.3, 0.5, 0.9)):
        for usual in ((-4.0, 0.5), None):
            sure = Calibration(1.5, knots, tuple(k**2 for k in knots), usual)
            due, unknown = sure.shares(x @ w + b), sure.unknown(x @ w + b)
            for row, feature in enumerate(x):
                share, odd = scope["judged"](feature, w, b, to_plain(sure))
                assert np.allclose(share, due[row])
                assert odd == unknown[row]


def test_the_recipe_for_photos_gives_what_a_device_sees(place, monkeypatch):
    (recipe,) = [listing for listing in listings("python") if "def resized" in listing]
    monkeypatch.chdir(place)
    scope = {}
    exec(recipe, scope)
    rng = np.random.default_rng(5)
    for height, width, size in [(300, 400, (224, 224)), (90, 31, (28, 40)), (20, 30, (64, 64))]:
        photo = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        due = Image.fromarray(photo).resize(size[::-1], Image.Resampling.BILINEAR)
        apart = scope["resized"](photo, *size).astype(int) - np.asarray(due)
        assert np.abs(apart).max() <= 1
