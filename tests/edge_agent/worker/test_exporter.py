"""A bundle with every so many rounds, and never two exports at once."""

from edge_agent.config import DataSection, LimitsSection
from edge_agent.worker.exporter import Exporter
from edge_agent.worker.ipc import Job

BOOT = "b" * 16


def test_one_that_is_not_due_is_not_started(tmp_path):
    job = Job("a", tmp_path, BOOT, DataSection("digits"), None, LimitsSection(), 3, tmp_path / "b")
    exporter = Exporter(job)
    exporter.due(2)
    exporter.due(0)
    assert exporter._running is None
    assert "--out" in exporter.command()
