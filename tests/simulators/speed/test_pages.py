"""The bench of pages measures rounds of a live coordinator beside a page that is bothered."""

import pytest

from protofleet.mqtt.broker import mosquitto
from simulators.speed import pages
from tests.browsing import free_port


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_rounds_go_on_whatever_is_done_to_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "TURNS", 1)
    monkeypatch.setattr(pages, "BLOCK", 2)
    monkeypatch.setattr(pages, "FIRST", 1)
    rows = pages.bench_pages(40, 2, free_port(), tmp_path, lambda words: None)
    assert [row.condition for row in rows] == list(pages.CONDITIONS)
    alone, _, flooded, _ = rows
    assert (alone.more_ms, alone.requests) == (0.0, 0)
    assert flooded.requests == 40
    assert all(row.rounds >= 2 and row.round_ms > 0 for row in rows)
