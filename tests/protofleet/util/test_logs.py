"""A happening is one line, for people or for programs, and a reader who leaves stops nobody."""

import io
import json
from datetime import UTC, datetime

import pytest

from protofleet.util.logs import Log


def at() -> datetime:
    return datetime(2024, 2, 29, 23, 59, 59, 123_456, tzinfo=UTC)


@pytest.fixture
def stream():
    return io.StringIO()


def test_a_line_for_people(stream):
    log = Log(stream, clock=at)
    log.info("round opened", round=3, asked=2)
    log.warning("refused:\n  several   lines", agent="a")
    log.error("no room")
    assert stream.getvalue().splitlines() == [
        "2024-02-29T23:59:59.123Z info    round opened round=3 asked=2",
        "2024-02-29T23:59:59.123Z warning refused: several lines agent=a",
        "2024-02-29T23:59:59.123Z error   no room",
    ]


def test_a_line_for_programs_takes_any_key(stream, tmp_path):
    Log(stream, "json", at).info("written\nto", path=tmp_path, round=1)
    assert json.loads(stream.getvalue()) == {
        "time": "2024-02-29T23:59:59.123Z",
        "level": "info",
        "message": "written to",
        "path": str(tmp_path),
        "round": 1,
    }
    assert stream.getvalue().count("\n") == 1


class Left(io.StringIO):
    """A pipe whose reader has gone: it is found out when the line leaves the buffer."""

    def flush(self) -> None:
        raise BrokenPipeError


def test_the_work_goes_on_when_the_reader_has_left(stream):
    Log(Left()).info("nobody reads this")
    stream.close()
    Log(stream).info("nor this")
