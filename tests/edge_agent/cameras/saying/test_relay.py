"""Answers through a daemon: one at a time, each with its outcome."""

import io
import queue

import pytest

from edge_agent.cameras.saying import relay
from edge_agent.cameras.saying.outlets import Unsaid, Unwelcome
from edge_agent.cameras.saying.relay import RelaySender


def sender(*outcomes):
    waiting = queue.Queue()
    for words in outcomes:
        waiting.put(words)
    out = io.BytesIO()
    return RelaySender(out, waiting), out


def test_a_line_is_handed_over_with_its_number():
    one, out = sender("1 ok", "2 ok")
    one.send('{"a": 1}')
    one.send('{"a": 2}')
    assert out.getvalue() == b'1 {"a": 1}\n2 {"a": 2}\n'


def test_what_became_of_it():
    with pytest.raises(Unsaid):
        sender("1 later")[0].send("{}")
    with pytest.raises(Unwelcome):
        sender("1 no")[0].send("{}")
    with pytest.raises(Unsaid):
        sender("")[0].send("{}")  # the daemon has left


def test_an_outcome_that_comes_late_is_not_that_of_the_next(monkeypatch):
    monkeypatch.setattr(relay, "PATIENCE", 0.05)
    one, _ = sender()
    with pytest.raises(Unsaid):
        one.send("{}")
    one._outcomes.put("1 ok")
    one._outcomes.put("2 no")
    with pytest.raises(Unwelcome):
        one.send("{}")
