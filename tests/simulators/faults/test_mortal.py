"""A program dies at the instant that was chosen, and not before."""

import subprocess
import sys

import pytest

from protofleet.errors import UsageError
from simulators.faults.mortal import Instant


def test_an_instant_is_written_as_it_is_read():
    text = "coordinator:Journal.commit:leave:7"
    assert str(Instant.parse(text)) == text


@pytest.mark.parametrize("text", ["", "a:b:c:1", "a:b:enter:x", "a:b:enter"])
def test_what_is_no_instant_is_said(text):
    with pytest.raises(UsageError):
        Instant.parse(text)


@pytest.mark.parametrize(("instant", "code"), [("coordinator:as_toml:enter:1", -9), ("coordinator:as_toml:enter:2", 0)])
def test_it_dies_when_the_function_is_entered_so_often(tmp_path, instant, code):
    path = tmp_path / "fleet.toml"
    command = [sys.executable, "-m", "simulators.faults.mortal", instant, "coordinator", "init", str(path)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == code
    assert bool(path.read_text()) == (code == 0)  # it is opened before the text is made
