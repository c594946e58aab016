"""A command that ended without a word, and whether its cluster was the reason."""

import socket
import subprocess
import sys

import pytest

from simulators.cluster import witness


@pytest.fixture
def somebody():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def said(addresses, ends):
    words = [sys.executable, "-m", witness.__name__, *addresses]
    return subprocess.run(words, input=ends, capture_output=True, check=True).stderr.decode()


def test_only_a_cluster_that_is_gone_is_named(somebody, nobody_listens):
    assert (
        said([somebody, nobody_listens], b"")
        == f"error: {witness.GONE}; {witness.HINT} (cluster-lost)\n"
    )
    assert said([somebody], b"") == ""  # killed by hand
    assert said([nobody_listens], witness.ENDS) == ""


def test_who_ends_by_itself_says_so(nobody_listens, capfd):
    with witness.witnessed([nobody_listens]):
        pass
    assert capfd.readouterr().err == ""
