"""The commands of a device, called as a person calls them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def call(tmp_path):
    """`edge-agent WORDS` in a folder of its own, with nothing of this shell's settings."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PROTOFLEET")}
    environ["PYTHONPATH"] = str(ROOT)

    def run(*words):
        command = [sys.executable, "-m", "edge_agent", *map(str, words)]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environ
        )

    return run
