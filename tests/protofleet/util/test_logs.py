"""A happening is one line, for people or for programs, and a reader who leaves stops nobody."""

import io
import json
from datetime import UTC, datetime

import pytest

from protofleet.util.logs import Log, printable


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


def test_what_others_write_neither_moves_a_terminal_nor_forges_a_line(stream):
    evil = "ok\x1b[2J\x1b]0;title\x07\r\n2024 error all is lost\u2028\u202e\x9b1m\x7f\ud800"
    log = Log(stream, clock=at)
    log.info("refused", why=evil)
    log.info(evil)
    assert stream.getvalue().count("\n") == 2
    for line in stream.getvalue().splitlines():
        assert line.isprintable()
    assert r"why=ok\x1b[2J" in stream.getvalue()


def test_a_line_for_programs_is_printable_and_says_the_same(stream):
    Log(stream, "json", at).info("x", why="\x1b\x7f\u202e")
    assert stream.getvalue().rstrip("\n").isprintable()
    assert json.loads(stream.getvalue())["why"] == "\x1b\x7f\u202e"


def test_letters_of_every_language_stay_as_they_are():
    text = "Köhler søker Ελιά 柿 ok"
    assert printable(text) == text
