"""A Ray cluster of two nodes on this machine, in a network of its own in which there is nothing but
the loopback interface, and with a token: nobody else can reach it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE

import pytest

from simulators.cluster.witness import takes_connections
from simulators.scale.footprint import family

PATIENCE = 180  # s, on a machine that has other work
STORE = str(100_000_000)  # bytes; a node wants no less than 75 MB


def until(condition, what):
    """What it answers as soon as that is something."""
    ends = time.monotonic() + PATIENCE
    while not (answer := condition()):
        assert time.monotonic() < ends, f"{what}: not within {PATIENCE} s"
        time.sleep(0.1)
    return answer


class TwoNodes:
    """The cluster; its nodes are begun and killed one by one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = str(server.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"
        self.nodes: list[subprocess.Popen[bytes]] = []
        own = ["-n"] if os.geteuid() == 0 else ["-r", "-n"]
        words = "ip link set lo up && echo up && exec sleep infinity"
        self._network = subprocess.Popen(["unshare", *own, "sh", "-c", words], stdout=PIPE)
        assert self._network.stdout is not None
        # Where none can be made (as in some containers) there is the machine's own loopback
        # interface, on which a cluster of such an address listens alone, and the token.
        self._enter: list[str] = []
        if self._network.stdout.readline() == b"up\n":
            user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
            self._enter = ["nsenter", "-t", str(self._network.pid), *user, "-n"]
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(Path(__file__).parents[3]),
        }

    def begin(self, words, **how):
        """A process of this environment's in that network."""
        return subprocess.Popen([*self._enter, sys.executable, *words], env=self.environment, **how)

    def lab(self, *words, **how):
        """A command of the laboratory on it."""
        engine = ["--engine", "ray", "--address", self.address]
        return self.begin(["-m", "protofleet", *words, *engine], text=True, **how)

    def head(self):
        """The first node, which holds the cluster together."""
        words = ["--head", "--node-ip-address", "127.0.0.1", "--port", self.port]
        self._node(*words, "--include-dashboard", "false", "--temp-dir", self._temporary())
        self._reached(1)

    def node(self):
        """One more."""
        self._node("--address", self.address)
        self._reached(2)

    def _temporary(self):
        # A socket's whole path has room for a hundred letters.
        return tempfile.mkdtemp(prefix="r", dir=self.folder)

    def _node(self, *words):
        command = [*words, "--num-cpus", "1", "--object-store-memory", STORE]
        node = self.begin(
            ["-m", "ray.scripts.scripts", "start", "--block", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.nodes.append(node)

    def _reached(self, nodes):
        code = (
            "import logging, ray, time\n"
            f"ray.init('{self.address}', logging_level=logging.CRITICAL, log_to_driver=False)\n"
            f"while len([n for n in ray.nodes() if n['Alive']]) < {nodes}: time.sleep(0.1)\n"
        )
        listens = [*self._enter, sys.executable, "-c", _LISTENS, self.address]
        until(lambda: subprocess.run(listens, check=False).returncode == 0, "the head listens")
        assert self.begin(["-c", code], stderr=subprocess.DEVNULL).wait(PATIENCE) == 0

    def processes(self, node, called):
        """Those of a node with such a name."""
        found = []
        for pid in family(self.nodes[node].pid):
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if words[0].decode().rpartition("/")[2] == called:
                    found.append(pid)
        return found

    def kill(self, node, called):
        """`kill -9` of one of them."""
        pid = until(lambda: self.processes(node, called), f"{called} of node {node}")[0]
        os.kill(pid, signal.SIGKILL)
        return pid

    def stop(self):
        """All of its processes, by their numbers."""
        for node in self.nodes:
            ours = family(node.pid)
            node.terminate()
            with suppress(subprocess.TimeoutExpired):
                node.wait(20)
            for pid in ours:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            node.wait()
        self.nodes.clear()

    def close(self):
        """And its network."""
        self.stop()
        self._network.kill()
        self._network.wait()


_LISTENS = (
    "import sys; from simulators.cluster.witness import takes_connections as t; "
    "sys.exit(not t(sys.argv[1]))"
)


@pytest.fixture(scope="module")
def two_nodes():
    """Both of them, begun."""
    pytest.importorskip("ray")
    folder = Path(tempfile.mkdtemp(prefix="pf-", dir="/tmp"))
    cluster = TwoNodes(folder)
    try:
        cluster.head()
        cluster.node()
        yield cluster
    finally:
        cluster.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def nobody_listens():
    """An address of this machine at which there is nobody."""
    address = "127.0.0.1:1"
    assert not takes_connections(address)
    return address
