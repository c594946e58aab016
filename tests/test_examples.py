"""The examples that are scripts, run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

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


def outputs(cell):
    """What a cell came to, as plain text."""
    return "".join(
        each.get("text", "") or each.get("data", {}).get("text/plain", "")
        for each in cell.get("outputs", [])
    )


@pytest.mark.parametrize("name", ["compare", "device"])
def test_a_notebook_runs_from_top_to_bottom(name, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(ROOT / "examples" / f"{name}.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code), "kept without outputs"
    # An error in a cell is an error here.
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place).execute()
    if name == "compare":
        table, picture = code[1], code[2]
        assert "own, against local" in outputs(table)
        # One line a run, written anew each round: three methods with three seeds, and the table.
        assert len(table.outputs) == 10
        assert "round 4/4" in table.outputs[0].data["text/plain"]
        assert "image/png" in picture.outputs[0].data
        assert "tabular" in outputs(code[4])
    else:
        assert outputs(code[3]).startswith("zero ")
        nines, others = map(int, re.findall(r"(\d+)%", outputs(code[4])))
        assert nines > 60
        assert others < 15


@pytest.mark.parametrize("name", ["python.md", "tutorials/research.md"])
def test_a_page_on_python_runs_as_it_is_written(name, tmp_path):
    page = (ROOT / "docs" / name).read_text()
    snippet = page.split("```python\n")[1].split("```")[0]
    assert "import protofleet as pf" in snippet
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
