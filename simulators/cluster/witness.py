"""Says in one line that a cluster is gone and took the command with it: where a driver's own part
of a cluster ends, Ray ends the driver, at once and without a word. So a small process waits beside
it.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

GONE = "this machine's part of the cluster is gone"
HINT = "--resume goes on with what is in --out"
ENDS = b"."  # what a command says that ends by itself


def takes_connections(address: str) -> bool:
    """Whether somebody listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), 2.0):
        return True
    return False


@contextmanager
def witnessed(addresses: Sequence[str]) -> Iterator[None]:
    """A command that is not to end without a word, if one of these does."""
    words = [sys.executable, "-m", __name__, *addresses]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        try:
            yield
        finally:
            with suppress(OSError):
                process.stdin.write(ENDS)
                process.stdin.close()


def main(addresses: Sequence[str]) -> None:
    """Wait for the command's end; whoever was killed while its cluster stands needs no words."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ended = sys.stdin.buffer.read()
    if not ended and not all(map(takes_connections, addresses)):
        print(f"error: {GONE}; {HINT} (cluster-lost)", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
