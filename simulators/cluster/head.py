"""A connection to a Ray cluster: one that is there, or one that is begun here for a command and
ends with it. Ray itself is imported here and nowhere else, when somebody asks for it.
"""

# Theory of operation
#
# Ray knows that a worker has died, and says so to whoever waits for its answer (`WorkerLost`):
# that is nothing bad, since what the worker did can be done again (`seats.py`). Of its own head it
# is less clear: a driver whose head is gone waits for a minute, prints pages, and is ended by Ray's
# own threads. So nobody here waits for long: every second it is looked whether the head still takes
# connections, and the node (raylet) of this machine. Who has been silent for `PATIENCE` is gone,
# and the command ends in one line; what is in `--out` goes on with `--resume`. Where Ray was
# quicker and has ended the process, `witness.py` says that line.
#
# Ray prints to a driver's stdout, where our results go, from threads of its own: those are not
# heard.
#
# Whoever reaches a cluster's ports can have it run anything. A cluster that is begun here listens
# on the loopback interface alone and asks for a token that nobody else has; one of several machines
# is its owner's to keep (docs/lab.md).

from __future__ import annotations

import logging
import os
import pickle
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from hashlib import sha256
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, TextIO, cast

from protofleet.errors import FleetError, UsageError
from simulators.cluster.baton import Baton
from simulators.cluster.witness import GONE, HINT, takes_connections, witnessed

PATIENCE = 10.0  # s that a head may be silent
HERE = "127.0.0.1"


class ClusterLost(FleetError):
    """The cluster's head, or this machine's part of it, is gone."""

    code = "cluster-lost"


class WorkerLost(Exception):
    """Whoever was to answer is gone; the cluster is not."""


class ClusterHead:
    """What a command asks of a cluster."""

    def __init__(self, ray: Any) -> None:
        context = ray.get_runtime_context()
        self.ray = ray
        self.baton = Baton()
        (node,) = (n for n in ray.nodes() if n["NodeID"] == context.get_node_id())
        self.parts = {
            context.gcs_address: f"the cluster's head at {context.gcs_address} is gone",
            f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}": GONE,
        }
        # What the command lines of all its processes have in them.
        self.session = Path(node["RayletSocketName"]).parents[1].name
        self._heard = dict.fromkeys(self.parts, time.monotonic())
        self._looked = time.monotonic()
        self._carried: dict[str, Any] = {}

    def has(self, kind: str) -> float:
        """How much of it (CPU, GPU) all machines have together."""
        return float(self.ray.cluster_resources().get(kind, 0.0))

    def free(self, kind: str) -> float:
        """How much of it nobody has taken."""
        return float(self.ray.available_resources().get(kind, 0.0))

    @property
    def nodes(self) -> int:
        """How many are there."""
        return sum(bool(node["Alive"]) for node in self.ray.nodes())

    def carried(self, value: Any) -> Any:
        """A reference to what is to be sent to each node once."""
        try:
            return self.ray.put(value)
        except TypeError as error:
            words = " ".join(str(error).split())[:300]
            raise UsageError(f"what you brought cannot be sent to a cluster: {words}") from error

    def carried_once(self, value: Any) -> Any:
        """The same, for as long as this command lasts: of two runs on the same data one does."""
        buffers: list[pickle.PickleBuffer] = []
        hashed = sha256(pickle.dumps(value, protocol=5, buffer_callback=buffers.append))
        for buffer in buffers:
            hashed.update(buffer.raw())
        name = hashed.hexdigest()
        if name not in self._carried:
            self._carried[name] = self.carried(value)
        return self._carried[name]

    def answer(self, reference: Any, most: float | None = None) -> Any:
        """What it refers to, as soon as it is there; `WorkerLost` where that will never be, and
        `TimeoutError` where it takes longer than this.
        """
        began = time.monotonic()
        while True:
            with self.baton.away():
                there = self._there(reference)
            self.baton.go_on()
            self.look()
            if there:
                return self._taken(reference)
            if most is not None and time.monotonic() - began > most:
                raise TimeoutError

    def until(self, condition: Callable[[], bool], most: float) -> bool:
        """Wait for it; whether it came true."""
        ends = time.monotonic() + most
        while not condition():
            if time.monotonic() > ends:
                return False
            with self.baton.away():
                time.sleep(0.2)
            self.baton.go_on()
            self.look()
        return True

    def look(self) -> None:
        """Whether the head is there, and we are part of its cluster; once a second at most."""
        if time.monotonic() - self._looked < 1.0:
            return
        self._looked = time.monotonic()
        for address, words in self.parts.items():
            if takes_connections(address):
                self._heard[address] = time.monotonic()
            elif time.monotonic() - self._heard[address] > PATIENCE:
                raise ClusterLost(words, HINT)

    def _there(self, reference: Any) -> bool:
        done, _ = self.ray.wait([reference], timeout=1.0)
        return bool(done)

    def _taken(self, reference: Any) -> Any:
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            # It may be the cluster's own end, which is seen first in a worker's.
            self.until(lambda: all(map(takes_connections, self.parts)), 2 * PATIENCE)
            raise WorkerLost(_reason(error)) from error


@contextmanager
def connected(address: str = "") -> Iterator[ClusterHead]:
    """A cluster at this address; `auto` is the one that this machine is part of; without one the
    cluster of `RAY_ADDRESS`, or of this machine's cores alone.
    """
    address = address or os.environ.get("RAY_ADDRESS", "")
    if address.startswith("ray://"):
        raise UsageError(
            "Ray's client is not enough",
            "run the command on a machine of the cluster: --address auto",
        )
    if not address:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if "RAY_AUTH_MODE" not in os.environ:
            os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    ray = _imported()
    if ray.is_initialized():  # by a program that goes on with it
        yield ClusterHead(ray)
        return
    if ":" in address and not takes_connections(address):
        # Ray itself would go on asking for minutes.
        raise UsageError(f"no cluster answers at {address}", "`ray start --head` begins one")
    with redirect_stdout(cast(TextIO, _Unheard(sys.stdout))):
        own = {} if address else {"_node_ip_address": HERE, "include_dashboard": False}
        try:
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                **own,
            )
        except (ray.exceptions.RayError, OSError, RuntimeError, ValueError) as error:
            raise UsageError(
                f"no cluster answers at {address or HERE}: {_reason(error)}",
                "`ray start --head` begins one; its token is to be known here, too",
            ) from error
        try:
            head = ClusterHead(ray)
            with witnessed(tuple(head.parts)):
                yield head
        finally:
            with redirect_stdout(StringIO()):  # what it had not printed yet
                ray.shutdown()


def _imported() -> Any:
    try:
        return import_module("ray")
    except ModuleNotFoundError as error:
        raise UsageError("ray is not installed", "pip install 'protofleet[ray]'") from error


def _reason(error: Exception) -> str:
    """A line of what may be pages: what Python said, or else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if line.partition(":")[0].endswith("Error")]
    return ([*said[-1:], *lines] or [type(error).__name__])[0][:200]


class _Unheard:
    """Standard output, but for what Ray's own threads print."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        ours = not threading.current_thread().name.startswith("ray_")
        return self._out.write(text) if ours else len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)
