"""Methods come from entry points, this package's and anybody's."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from protofleet import registry
from protofleet.errors import UnknownMethod


def test_the_methods_of_this_package():
    assert {"local", "fedavg", "fedprox", "fedproto"} <= set(registry.names())
    assert all(registry.load(name).name == name for name in registry.names())


def test_an_unknown_method_is_answered_with_the_nearest():
    with pytest.raises(UnknownMethod, match="did you mean 'fedproto'") as caught:
        registry.load("fedprotto")
    assert caught.value.exit_code == 2


EXAMPLE = Path(__file__).parents[2] / "examples" / "my_method"


def test_a_method_from_another_package_is_installed_and_runs_in_the_lab(tmp_path):
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(EXAMPLE, source)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--target",
    ]
    subprocess.run([*pip, str(site), str(source)], check=True, capture_output=True)
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from protofleet.cli import main; main()"
    )
    words = [
        "simulate",
        "--method",
        "fedmedian",
        "--agents",
        "3",
        "--rounds",
        "4",
        "--lr",
        "0.03",
        "--json",
    ]
    run = subprocess.run(
        [sys.executable, "-c", code, str(site), *words], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert result["config"]["method"] == "fedmedian"
    assert result["final"]["accuracy"] > 0.5


@pytest.mark.parametrize("name", ["pyproject.toml", "fedmedian.py", "test_fedmedian.py"])
def test_the_walk_through_shows_the_very_files_of_the_example(name):
    page = (EXAMPLE.parents[1] / "docs" / "add-a-method.md").read_text()
    assert (EXAMPLE / name).read_text() in page


def test_the_examples_own_test_passes():
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        "/dev/null",
        "--rootdir",
        str(EXAMPLE),
        str(EXAMPLE),
    ]
    run = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        check=False,
        cwd=EXAMPLE,
    )
    assert run.returncode == 0, run.stdout
