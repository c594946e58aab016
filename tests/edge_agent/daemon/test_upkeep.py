"""Hours, disk, bytes and samples: what changes what a device may do."""

import os
from datetime import date, datetime, timedelta
from io import StringIO

from edge_agent.config import AgentSection, Config, DataSection, LimitsSection
from edge_agent.daemon import upkeep
from edge_agent.daemon.policy import TrafficToday
from edge_agent.data import watch
from edge_agent.protocol.events import OwnerLimits
from edge_agent.recent.labelling import tapped_file
from edge_agent.store import Store
from protofleet.util.logs import Log

NOON = datetime(2026, 3, 1, 12, 0)


def test_a_change_is_said_once(tmp_path):
    store, words = Store(tmp_path), StringIO()
    config = Config(limits=LimitsSection(windows=("22:00-06:00",), min_free_mb=0))
    account, log = upkeep.TrafficAccount(store, NOON.date), Log(words)
    first = upkeep.limits(config, account, OwnerLimits(), NOON, log)
    again = upkeep.limits(config, account, first, NOON, log)
    later = upkeep.limits(config, account, again, NOON + timedelta(hours=11), log)
    assert later == OwnerLimits()
    assert words.getvalue().count("it may not train: window") == 1
    assert words.getvalue().count("it may train again") == 1
    store.close()


def test_the_days_bytes_survive_a_restart_and_end_with_the_day(tmp_path):
    store, today = Store(tmp_path), [date(2026, 3, 1)]
    account = upkeep.TrafficAccount(store, lambda: today[0])
    account.count(700)
    account.note(0.0)
    account.count(300)
    account.note(1.0)  # not a minute later
    assert upkeep.TrafficAccount(store, lambda: today[0]).spent.bytes == 700
    account.note(2.0, at_once=True)
    assert upkeep.TrafficAccount(store, lambda: today[0]).spent.bytes == 1000
    today[0] += timedelta(days=1)
    assert upkeep.TrafficAccount(store, lambda: today[0]).spent.bytes == 0
    account.count(5)
    assert account.spent == TrafficToday(today[0], 5)
    store.close()


def test_new_samples_are_taken_in_once_they_have_stopped_coming(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.png").write_text("")
    samples = upkeep.SampleWatch(
        Config(data=DataSection(source=str(tmp_path), watch_seconds=10)), 0.0
    )
    assert not samples.changed(11.0)
    (tmp_path / "cat" / "2.png").write_text("")
    assert not samples.changed(12.0)  # it does not look so soon
    assert not samples.changed(21.0)  # it sees them, and waits for more
    assert samples.changed(31.0)
    assert not samples.changed(41.0)


def test_a_source_that_cannot_change_has_no_stamp(tmp_path):
    assert watch.stamp(DataSection(source="digits")) == ""
    (tmp_path / "a.npz").write_text("x")
    assert watch.stamp(DataSection(source=str(tmp_path / "a.npz"))) != ""


def test_what_was_named_on_the_page_is_taken_in_a_moment_after_the_last_tap(tmp_path):
    config = Config(
        agent=AgentSection(data_dir=str(tmp_path)),
        data=DataSection(source=str(tmp_path / "photos"), watch_seconds=1000),
    )
    (tmp_path / "photos" / "mug").mkdir(parents=True)
    samples = upkeep.SampleWatch(config, 0.0)
    tapped = tapped_file(tmp_path / "fleet.pfb")
    tapped.parent.mkdir()

    def tap(name):
        (tmp_path / "photos" / "mug" / name).write_text("")
        tapped.touch()
        os.utime(tapped, ns=(int(name[0]), int(name[0])))

    tap("1.jpg")
    assert not samples.changed(1.0)
    tap("2.jpg")
    assert not samples.changed(3.0)
    assert not samples.changed(3.0 + upkeep.AFTER_A_TAP / 2)
    assert samples.changed(3.0 + upkeep.AFTER_A_TAP)
    assert not samples.changed(20.0)
    tap("3.jpg")
    assert not samples.changed(21.0)
    (tmp_path / "photos" / "mug" / "3.jpg").unlink()  # taken back at once
    os.utime(tapped, ns=(4, 4))
    assert not samples.changed(22.0)
    assert samples.changed(30.0)  # the folder is another one, even if what is in it is not
