"""A flood counts what it asked and what was refused."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from simulators.speed.flood import flood


class Busy(BaseHTTPRequestHandler):
    """Refuses every other request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.count += 1
        self.send_response(429 if self.server.count % 2 else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass


def test_requests_and_refusals_are_counted():
    with ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        server.count = 0
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert flood(server.server_port, "/", 10) == (10, 5)
        server.shutdown()
