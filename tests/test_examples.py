"""The examples that are scripts, run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from protofleet.mqtt.broker import mosquitto

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_a_class_from_five_photos_reaches_another_device():
    environ = {name: value for name, value in os.environ.items() if name != "PROTOFLEET_DATA"}
    environ |= {
        "PYTHON": sys.executable,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    run = subprocess.run(
        ["bash", str(ROOT / "examples" / "enroll.sh")],
        capture_output=True,
        text=True,
        env=environ,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    before, after = (
        [
            float(x)
            for x in re.search(
                rf"device b {when}: 9 ([\d.]+) %, the other classes ([\d.]+) %", run.stdout
            ).groups()
        ]
        for when in ("before", "after")
    )
    assert before[0] == 0
    assert after[0] > 60
    assert after[1] > before[1] - 5
    assert float(re.search(r"device b has it ([\d.]+) s after", run.stdout)[1]) < 2


def test_the_page_on_python_runs_as_it_is_written(tmp_path):
    page = (ROOT / "docs" / "python.md").read_text()
    snippet = page.split("```python\n")[1].split("```")[0]
    done = subprocess.run(
        [sys.executable, "-c", snippet.replace("rounds=10", "rounds=2")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "against local" in done.stdout
    assert (tmp_path / "curves.png").stat().st_size > 1000
