"""The Dockerfile's steps without an engine: the wheel is whole, and each target installs what it
says and no more.
"""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    steps = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
    ]
    subprocess.run([*steps, str(folder), str(_copied(folder / "source"))], check=True)
    (made,) = folder.glob("*.whl")
    return zipfile.ZipFile(made)


def _copied(target):
    """What the first stage copies, and nothing else."""
    target.mkdir()
    for line in re.findall(r"^COPY (?!--)(.+)$", DOCKERFILE, re.M):
        *sources, where = line.split()
        if where == "/wheels/":
            continue
        for source in sources:
            place = target / (source if where == "./" else where)
            subprocess.run(["cp", "-r", str(ROOT / source), str(place)], check=True)
    return target


def test_the_wheel_holds_every_file_that_is_read_at_run_time(wheel):
    names = set(wheel.namelist())
    assert {
        "coordinator/journal/schema/sqlite/v1.sql",
        "protofleet/py.typed",
        "edge_agent/worker/runner.py",
    } <= names
    (points,) = [n for n in names if n.endswith("entry_points.txt")]
    assert "edge-agent = edge_agent.cli:main" in wheel.read(points).decode()


def test_targets_install_extras_that_exist_and_run_commands_that_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    targets = re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.M)
    assert set(targets) >= {"device", "agent", "coordinator"}
    assert set(re.findall(r'"protofleet\[(\w+)\]"', DOCKERFILE)) <= set(
        project["optional-dependencies"]
    )
    assert set(re.findall(r'^ENTRYPOINT \["([\w-]+)"\]$', DOCKERFILE, re.M)) <= set(
        project["scripts"]
    )


def test_the_device_target_has_no_torch():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not any(
        re.match(r"torch|scikit|onnxscript|matplotlib", need) for need in project["dependencies"]
    )
