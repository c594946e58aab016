"""The path of docs/tutorials/app.md from an ONNX file to a program that classifies, as it stands
there.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

from edge_agent.cli import agent as edge_agent
from export.cli.extractor_cmd import extractor
from tests.networks import foreign, pictures

TEXT = (Path(__file__).parents[2] / "docs" / "tutorials" / "app.md").read_text()
LINES = next(
    block.strip().splitlines()
    for block in re.findall(r"```\n(.*?)```", TEXT, re.S)
    if block.startswith("protofleet extractor net.onnx")
)
COMMANDS = {"protofleet": {"extractor": extractor}, "edge-agent": edge_agent.commands}


def run(line):
    program, verb, *words = shlex.split(line, comments=True)
    command = COMMANDS[program][verb]
    outcome = CliRunner().invoke(command, words, standalone_mode=False, catch_exceptions=False)
    return outcome.output


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A network of one's own, photos of two things, and some to be looked at."""
    monkeypatch.chdir(tmp_path)
    foreign("net.onnx")
    for seed, name in ((1, "mug"), (2, "bike")):
        folder, new = Path("photos") / name, Path("new")
        folder.mkdir(parents=True)
        new.mkdir(exist_ok=True)
        for i, pixels in enumerate(pictures(seed, n=8, side=48)):
            Image.fromarray(pixels).save(folder / f"{i}.png" if i < 5 else new / f"{name}{i}.png")


def test_there_are_at_most_five_lines():
    assert len(LINES) <= 5


def test_they_lead_to_answers(place):
    answers = [run(line) for line in LINES][-1].splitlines()
    assert len(answers) == 6
    for line in answers:
        path, label = re.match(r"(\S+)  (\w+) \(", line).groups()
        assert Path(path).stem.startswith(label)


def test_and_to_a_program_of_one_s_own(place):
    for line in LINES[:-1]:
        run(line)
    snippet = next(
        code for code in re.findall(r"```python\n(.*?)```", TEXT, re.S) if "Client" in code
    )
    done = subprocess.run(
        [sys.executable, "-c", snippet], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["mug", "bike"]
