"""A scrape reads what a daemon left, and says so where there is none or it cannot be read."""

from edge_agent.daemon.status import Status, write
from edge_agent.metrics.scrape import scraped
from edge_agent.store import Store


def test_a_device_is_told_by_what_it_left(tmp_path):
    assert [family.name for family in scraped(tmp_path)] == ["protofleet_agent_running"]
    write(tmp_path, Status("a", "f", "mqtt://x", 1, samples=3), "now")
    assert len(scraped(tmp_path)) == 1  # no store: it cannot be told what waits
    Store(tmp_path).close()
    told = {family.name: family.points for family in scraped(tmp_path)}
    assert told["protofleet_agent_samples"][0].value == 3
