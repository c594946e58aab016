"""A real coordinator for tests of what follows it: no rounds, only what devices classify with."""

import subprocess
import sys
from contextlib import contextmanager

from coordinator.service.control import NotRunning, ask
from tests.linking import eventually

FLEET = """
[broker]
packet = {packet}
[serve]
fleet = "f"
method = "fedproto"
min_agents = 1000
[contract]
classes = ["a", "b"]
embedding = 24
[contract.input]
kind = "image"
shape = [8, 8, 1]
"""


@contextmanager
def coordinator(url, folder, packet=131_072):
    """A service of fleet `f` that answers by its socket."""
    folder.mkdir(exist_ok=True)
    (folder / "fleet.toml").write_text(FLEET.format(packet=packet))
    command = [
        sys.executable,
        "-m",
        "coordinator",
        "serve",
        "--config",
        str(folder / "fleet.toml"),
        "--broker",
        url,
    ]
    service = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: told(folder, what="list"))
        yield service
    finally:
        service.terminate()
        service.wait(20)


def told(folder, **words):
    """The answer to `coordinator classes`; None while nobody is there."""
    try:
        return ask(folder / "coordinator-data", "classes", **words)
    except NotRunning:
        return None


def frozen(folder, bundle):
    """This `.pfb` is the fleet's from now on."""
    return told(folder, what="freeze", file=str(bundle))
