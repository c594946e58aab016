"""`protofleet bench` has these tables; nobody's script may lose one."""

import subprocess
import sys

from simulators.cli.bench_cmd import bench


def test_the_tables_there_are():
    assert set(bench.commands) == {
        "align",
        "attacks",
        "budget",
        "bytes",
        "cameras",
        "codec",
        "cross",
        "crowd",
        "device",
        "ingest",
        "lab",
        "ledger",
        "masks",
        "memory",
        "overhead",
        "pages",
        "papers",
        "photos",
        "rogues",
        "rollouts",
        "silence",
        "sites",
        "smoothing",
        "taps",
        "truth",
    }


def test_its_help_loads_nothing_that_is_measured():
    code = "import sys, simulators.cli.bench_cmd; print({'torch', 'numpy'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "torch" not in run.stdout
