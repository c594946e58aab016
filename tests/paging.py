"""Requests to a page, without a network."""

import asyncio
import json

HOST = "127.0.0.1:8321"


def request(app, method, path, *, body=None, peer="127.0.0.1", query="", host=HOST, **headers):
    """Status, headers and body of the answer; underlines in names of headers are hyphens."""
    return asyncio.run(_request(app, method, path, body, peer, query, {"host": host, **headers}))


async def _request(app, method, path, body, peer, query, headers):
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        ],
        "client": (peer, 50_000),
        "server": ("127.0.0.1", 8321),
    }
    incoming = [{"type": "http.request", "body": data, "more_body": False}]
    answer = []

    async def receive():
        if not incoming:
            await asyncio.Event().wait()  # a browser that waits for its answer
        return incoming.pop()

    async def send(message):
        answer.append(message)

    await app(scope, receive, send)
    fields = {name.decode(): value.decode() for name, value in answer[0]["headers"]}
    return answer[0]["status"], fields, b"".join(m.get("body", b"") for m in answer[1:])
