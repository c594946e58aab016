"""So many requests to a page of this machine as fast as it answers: a process of `protofleet bench
pages`. It prints how many there were, and how many were refused.
"""

from __future__ import annotations

import os
import sys
import threading
from http.client import HTTPConnection, HTTPException

from protofleet.pages.server import NICE

PATHS = ("/api/fleet", "/api/status", "/", "/static/base/page.mjs")


def flood(port: int, path: str, requests: int) -> tuple[int, int]:
    """By one connection; how many, and how many were refused."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    refused = 0
    for _ in range(requests):
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
        except (OSError, HTTPException):
            connection.close()
            refused += 1
        else:
            refused += answer.status in (429, 503)
    connection.close()
    return requests, refused


def main() -> None:
    """As the module's text says."""
    os.nice(NICE)
    port, requests = map(int, sys.argv[1:])
    own, counts = -(-requests // len(PATHS)), list[tuple[int, int]]()
    threads = [
        threading.Thread(target=lambda path=path: counts.append(flood(port, path, own)))
        for path in PATHS
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(*map(sum, zip(*counts, strict=True)))


if __name__ == "__main__":
    main()
