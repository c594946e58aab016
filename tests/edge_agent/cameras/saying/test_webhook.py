"""Answers to a web server that does what the test says."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from edge_agent.cameras.saying import webhook
from edge_agent.cameras.saying.outlets import Unsaid, Unwelcome
from edge_agent.cameras.saying.webhook import WebhookSender
from protofleet.errors import SettingError


@pytest.fixture
def server():
    """What was asked of it, and how it answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            running.requests.append((self.path, dict(self.headers), json.loads(body)))
            code, headers = running.answers
            self.send_response(code)
            for name, text in headers.items():
                self.send_header(name, text)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words): ...

    running = HTTPServer(("127.0.0.1", 0), Handler)
    running.requests, running.answers = [], (200, {})
    running.url = f"http://127.0.0.1:{running.server_address[1]}/api/webhook/id"
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()


def test_an_answer_is_posted_as_json_with_the_token(server, tmp_path):
    (tmp_path / "token").write_text("word\n")
    WebhookSender(server.url, tmp_path / "token").send('{"label": "a"}')
    ((path, headers, body),) = server.requests
    assert (path, body) == ("/api/webhook/id", {"label": "a"})
    assert headers["Authorization"] == "Bearer word"
    assert headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("code", "error", "after"),
    [
        (500, Unsaid, 0),
        (503, Unsaid, 7),
        (429, Unsaid, 7),
        (404, Unwelcome, 0),
        (302, Unwelcome, 0),
    ],
)
def test_what_an_answer_means(server, code, error, after):
    server.answers = (code, {"Retry-After": str(after)} if after else {})
    if code == 302:
        server.answers = (302, {"Location": server.url})
    with pytest.raises(error) as refused:
        WebhookSender(server.url).send("{}")
    assert str(code) in str(refused.value)
    assert getattr(refused.value, "after", 0) == after
    assert len(server.requests) == 1


def test_nobody_there_is_not_now_and_the_address_is_not_in_the_words(server):
    server.shutdown()
    server.server_close()
    with pytest.raises(Unsaid) as refused:
        WebhookSender(server.url).send("{}")
    assert "webhook/id" not in str(refused.value)


def test_one_that_never_answers_is_given_up(monkeypatch):
    import socket

    monkeypatch.setattr(webhook, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(Unsaid):
            WebhookSender(url).send("{}")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/", "http:///x", "x"])
def test_other_addresses_are_refused(url):
    with pytest.raises(SettingError):
        WebhookSender(url)


def test_a_token_is_one_word(tmp_path):
    (tmp_path / "token").write_text("two words")
    with pytest.raises(SettingError) as refused:
        WebhookSender("http://x/", tmp_path / "token")
    assert "two words" not in str(refused.value)
