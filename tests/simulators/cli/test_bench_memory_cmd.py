"""`protofleet bench memory` prints a line for each moment it looked at."""

from click.testing import CliRunner

from simulators.cli.bench_memory_cmd import memory
from simulators.speed import memory as measuring
from simulators.speed.memory import MemoryRow


def test_a_line_for_each_moment(monkeypatch):
    asked = []

    def bench(devices, uploads, rounds, *_):
        asked.append((devices, uploads, rounds))
        return [MemoryRow("idle", 41.25), MemoryRow("20 devices", 42.0, "2.0 KB a device")]

    monkeypatch.setattr(measuring, "bench_memory", bench)
    run = CliRunner().invoke(memory, ["--devices", "20", "--uploads", "7", "--rounds", "3"])
    assert asked == [(20, 7, 3)]
    assert [line.split() for line in run.stdout.splitlines()[1:]] == [
        ["idle", "41.2"],
        ["20", "devices", "42.0", "2.0", "KB", "a", "device"],
    ]
