"""The device bench in short: the command is there, and graph and network agree before and after a
swap.
"""

from click.testing import CliRunner

from simulators.cli.bench_cmd import bench
from simulators.speed import device
from simulators.speed.device_process import tables


def test_the_graph_agrees_with_the_network():
    (row,) = device.agree(["cnn-mnist"], 60, lambda words: None)
    assert max(row.before, row.after) <= 1e-4
    assert row.same_class


def test_the_command_is_there():
    assert "Interleaved blocks" in CliRunner().invoke(bench, ["device", "--help"]).output


def test_ratios_are_of_the_fastest_blocks():
    took = device.interleaved(
        {"one": lambda: sum(range(2000)), "ten": lambda: sum(range(20_000))}, 20, 0.002
    )
    assert took["ten"] > 3 * took["one"]


def test_tables_name_what_was_measured():
    ratio = {"what": "swap", "ours": 1.0, "beside": 2.0, "ratio": 0.5, "target": "≤ 1"}
    process = {"name": "torch, a traced network", "rss_mb": 200.0, "cpu_seconds": 1.0}
    lines = "\n".join(tables({"cost": [ratio], "process": [process]}))
    assert "swap" in lines
    assert "torch" in lines
