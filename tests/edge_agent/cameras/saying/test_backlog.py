"""Answers on disk: in order, so many, not too old, over restarts."""

import pytest

from edge_agent.cameras.saying.backlog import Backlog, BacklogBounds
from protofleet.errors import DataError


def backlog(tmp_path, now=1000.0, **bounds):
    return Backlog(tmp_path / "answers" / "w.db", BacklogBounds(**bounds), wall=lambda: now)


def drained(of):
    lines = []
    while (first := of.first()) is not None:
        lines.append(first[1])
        of.forget(first[0])
    return lines


def test_they_come_back_in_order_and_after_a_restart(tmp_path):
    first = backlog(tmp_path)
    assert first.first() is None
    assert not (tmp_path / "answers").exists()  # nothing is written before there is need
    first.put([(999.0, "a"), (999.5, "b")])
    first.put([(1000.0, "c")])
    again = backlog(tmp_path)
    assert len(again) == 3
    assert drained(again) == ["a", "b", "c"]
    assert len(backlog(tmp_path)) == 0


def test_the_oldest_give_way(tmp_path):
    own = backlog(tmp_path, number=3)
    assert own.put([(1000.0, str(n)) for n in range(5)]) == 2
    assert own.put([(1000.0, "5")]) == 1
    assert drained(own) == ["3", "4", "5"]


def test_what_is_too_old_is_not_said(tmp_path):
    backlog(tmp_path, seconds=60).put([(990.0, "old"), (1000.0, "new")])
    assert drained(backlog(tmp_path, now=1055.0, seconds=60)) == ["new"]


def test_a_damaged_one_is_one_line(tmp_path):
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "w.db").write_bytes(b"no database" * 1000)
    with pytest.raises(DataError, match=r"w\.db.*remove it"):
        backlog(tmp_path)


def test_nobody_else_may_read_it(tmp_path):
    backlog(tmp_path).put([(1000.0, "a")])
    assert (tmp_path / "answers" / "w.db").stat().st_mode & 0o077 == 0
