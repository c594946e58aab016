"""`protofleet bench sites`, but for what it measures (`tests/simulators/trees/test_deadly.py`)."""

from click.testing import CliRunner

from simulators.cli.bench_cmd import bench
from simulators.cli.bench_sites_cmd import table


def test_a_line_a_figure():
    answer = {"devices": 30, "sites": 3, "kills": 50, "state": "ab" * 32, "alone": "ab" * 32}
    answer |= {"same": True, "seconds": {"first": 3.0, "after_all_deaths": 4.5}}
    answer |= {"bytes": {"from_devices": 30_000, "from_sites": 2_000}}
    lines = table(answer).splitlines()
    assert lines[0] == "30 devices at 3 sites, 50 deaths"
    assert lines[2].endswith("  the same")
    assert "another" in table({**answer, "same": False})


def test_help_teaches_by_example():
    done = CliRunner().invoke(bench, ["sites", "--help"])
    assert "protofleet bench sites --kills 50" in done.output
