"""The Dockerfile's steps without an engine: the wheel is whole, and each target installs what it
says and no more.
"""

import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
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
    rooms = ("protofleet", "edge_agent", "coordinator", "export", "simulators")
    files = {
        str(file.relative_to(ROOT))
        for room in rooms
        for file in (ROOT / room).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {"coordinator/journal/schema/sqlite/v1.sql", "protofleet/py.typed"} <= files
    assert files <= names, sorted(files - names)
    # ... and nothing beside them but what says whose it is.
    assert {name.split("/")[0] for name in names - files} == {f"{_label(wheel)}.dist-info"}
    (points,) = [n for n in names if n.endswith("entry_points.txt")]
    assert "edge-agent = edge_agent.cli:main" in wheel.read(points).decode()


def _label(wheel):
    return "-".join(Path(wheel.filename).name.split("-")[:2])


def test_the_wheel_carries_its_licence(wheel):
    folder = f"{_label(wheel)}.dist-info"
    assert wheel.read(f"{folder}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    metadata = message_from_bytes(wheel.read(f"{folder}/METADATA"))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]


def test_extras_name_extras_that_exist():
    """pip only warns of one that does not, and installs less."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    named = [
        re.match(r"protofleet\[([\w,]+)\]", need) for needs in extras.values() for need in needs
    ]
    assert {extra for one in named if one for extra in one[1].split(",")} <= set(extras)


def test_targets_install_extras_that_exist_and_run_commands_that_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    targets = re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.M)
    assert set(targets) >= {"device", "agent", "coordinator"}
    named = re.findall(r'"protofleet\[([\w,]+)\]"', DOCKERFILE)
    assert len(named) == 3
    for extras in named:
        assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert set(re.findall(r'^ENTRYPOINT \["([\w-]+)"\]$', DOCKERFILE, re.M)) <= set(
        project["scripts"]
    )


def test_only_the_target_that_trains_has_torch():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def needs(extras):
        """Names of what is installed, ours resolved."""
        for need in [n for e in extras for n in project["optional-dependencies"][e]]:
            name, _, more = re.fullmatch(r"([\w.-]+)(\[(.*)\])?.*", need).groups()
            yield from needs(more.split(",")) if name == "protofleet" else (name,)

    for target, words in re.findall(
        r" AS (\w+)\n(?:(?!^FROM).*\n)*?RUN pip install (.*)", DOCKERFILE
    ):
        extras = re.search(r'"protofleet\[([\w,]+)\]"', words)[1].split(",")
        names = {*needs(extras), *(re.match(r"[\w.-]+", n)[0] for n in project["dependencies"])}
        assert ("torch" in names) == (target == "agent"), target
        # A coordinator that is given no extractor makes one.
        assert "onnx" in names or target != "coordinator"


def test_images_from_elsewhere_are_pinned_to_a_version():
    (base,) = re.findall(r"^ARG PYTHON=(\S+)$", DOCKERFILE, re.M)
    stages = set(re.findall(r" AS (\w+)$", DOCKERFILE, re.M))
    used = set(re.findall(r"^FROM (?:--\S+ )?(\S+)", DOCKERFILE, re.M))
    assert used <= {"${PYTHON}", *stages}
    assert re.fullmatch(r"python:3\.\d+\.\d+-[a-z]+-[a-z]+", base)
    # The one stage that runs where it is built makes what is the same everywhere.
    assert re.findall(r"^FROM --platform=\$BUILDPLATFORM .* AS (\w+)$", DOCKERFILE, re.M) == [
        "source"
    ]
