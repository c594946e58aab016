"""The first reason against training, and what the day's bytes amount to."""

from datetime import date, datetime, timedelta
from pathlib import Path

from edge_agent.config import LimitsSection
from edge_agent.daemon.policy import TrafficToday, allowed
from edge_agent.protocol.events import OwnerLimits

NOON = datetime(2026, 3, 1, 12, 0)
SPENT = TrafficToday(NOON.date(), 3_000_000)


def test_every_limit_has_its_reason(tmp_path):
    assert allowed(LimitsSection(min_free_mb=0), tmp_path, SPENT, NOON) == OwnerLimits()
    at_night = LimitsSection(windows=("22:00-06:00",), min_free_mb=0)
    words = "window: it may train at 22:00-06:00 only"
    assert allowed(at_night, tmp_path, SPENT, NOON) == OwnerLimits(words)
    full = allowed(LimitsSection(min_free_mb=10**9), tmp_path, SPENT, NOON)
    words = "disk: less than limits.min_free_mb = 1000000000 MB are free"
    assert full == OwnerLimits(words, disk_full=True)
    metered = LimitsSection(daily_mb=2.5, min_free_mb=0)
    words = "bytes: the day's 2.5 MB are used up"
    assert allowed(metered, tmp_path, SPENT, NOON) == OwnerLimits(words, may_send=False)
    assert allowed(metered, tmp_path, SPENT, NOON + timedelta(days=1)) == OwnerLimits()


def test_a_closed_window_does_not_let_a_spent_device_send(tmp_path):
    both = LimitsSection(windows=("22:00-06:00",), daily_mb=1.0, min_free_mb=0)
    assert not allowed(both, tmp_path, SPENT, NOON).may_send


def test_what_cannot_be_measured_forbids_nothing():
    nowhere = Path("/no/such/directory")
    assert allowed(LimitsSection(min_free_mb=10**9), nowhere, SPENT, NOON) == OwnerLimits()


def test_a_new_day_begins_at_nothing():
    today = date(2026, 3, 1)
    spent = TrafficToday(today, 5).add(7, today)
    assert spent == TrafficToday(today, 12)
    assert spent.add(2, today + timedelta(days=1)) == TrafficToday(today + timedelta(days=1), 2)
