"""A bundle that came from outside, tried before anybody here uses it: in a process of its own, with
little memory, little time, no files and nothing to tell.

`python -m edge_agent.inference.sandbox NAME` reads a bundle on its standard input; the one line of
its standard error says why it is refused.
"""

# Theory of operation
#
# What a channel names may be anything, and to find out that it is none of ours takes unpacking it
# and running its graph. So both are first done where nothing can be lost:
#
#   of the process      is                                      against
#   standard input      the file, opened by who starts it       -
#   directory           new and empty                           paths relative to it
#   environment         what Python needs to start, no more     passwords and settings in it
#   memory (data)       MEMORY, and TIMES the file              what unpacks or computes to GiB
#   processor time      SECONDS                                 graphs that do not end
#   files it writes     of no byte                              a full disk
#   files it opens      none, once all is loaded (Linux 5.13)   reading what lies here
#   life                its parent's                            a process that nobody waits for
#
# It does all that a device would do with the bundle: unpack it, hold every file to its hash and the
# whole to its NAME, walk its graphs, build the session, run the self-test, load the prototypes and
# what unknown things are told by. Its exit is the answer:
#
#   0                   it stands
#   1, with a line      refused, and why
#   by a signal         refused: it took more than it may have, or broke the runtime
#
# Only after that the same is done in the process that is going to use it; the walk alone then keeps
# it from the outside. A bundle on disk that its owner names is not tried here: it is the owner's,
# and a process more at every start would cost a device a second.
#
# The limits are the process's own, set before it reads a byte: set between fork and exec they would
# ask for what must not be done in a process with threads.

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from protofleet.errors import FleetError
from protofleet.exchange.archive import BundleError
from protofleet.util import landlock
from protofleet.util.processes import die_with_parent

# Bytes of data, and how many more for each of the bundle's own, which are unpacked, parsed, made
# weights of and prepared. Of lite0 (11 MB) the test takes 136 MB, of resnet152 (205 MB) 1,079.
MEMORY, TIMES = 256 << 20, 6
SHARE = 0.5  # of the memory that there is; it is less than the others on small devices only
SECONDS = 120  # of processor time; the self-test of a large network on a small device takes 20
PATIENCE = 600.0  # seconds by the clock, however busy the machine is
# What is handed on of the environment: where Python and its libraries are.
_NEEDED = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL")


def tried(path: Path, name: str = "") -> None:
    """`BundleError` if the bundle in this file, which is to have this name, must not be used."""
    with empty_folder(path.parent) as empty, path.open("rb") as file:
        command = [sys.executable, "-m", "edge_agent.inference.sandbox", str(os.getpid()), name]
        process = subprocess.Popen(
            command,
            stdin=file,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=empty,
            env=environment(empty),
        )
        try:
            words = process.communicate(timeout=PATIENCE)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise BundleError(f"its test took more than {PATIENCE:g} s") from None
    if process.returncode:
        raise BundleError(_why(process.returncode, words))


def examine(data: bytes, name: str = "") -> None:
    """All that a device would do with a bundle's bytes; `BundleError` says why it is none."""
    from edge_agent.inference.bundle import CALIBRATION, unpacked
    from edge_agent.inference.session import Engine
    from protofleet.exchange import graph
    from protofleet.exchange.archive import SELFTEST

    bundle = unpacked(data, f"the bundle {name[:16]}".rstrip())
    if name and bundle.digest != name:
        raise BundleError(
            f"the channel names the bundle {name[:16]}, what came is {bundle.digest[:16]}"
        )
    for further in bundle.files:
        if further.endswith(".onnx"):
            graph.check(bundle.files[further])
    engine, state = Engine(bundle, 1, unknown=CALIBRATION in bundle.files), bundle.published
    engine.self_test()
    one = bundle.arrays(SELFTEST)["image"][:1]
    engine.look(one, engine.load(state.bank, state.digest))


def room(size: int) -> int:
    """How much memory the test of a bundle of so many bytes may take."""
    return min(MEMORY + TIMES * size, int(SHARE * machine_memory()))


def machine_memory() -> int:
    """Bytes of this machine, or of the service or container that this process is in."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        group = Path("/proc/self/cgroup").read_text().strip().rpartition(":")[2]
        most = Path(f"/sys/fs/cgroup{group}/memory.max").read_text().strip()
    except OSError:
        return machine
    return min(machine, int(most)) if most.isdigit() else machine


def empty_folder(other: Path) -> tempfile.TemporaryDirectory[str]:
    """Where the system has them, or else beside the bundle, which was written there."""
    try:
        return tempfile.TemporaryDirectory(prefix="protofleet-")
    except OSError:
        return tempfile.TemporaryDirectory(prefix="protofleet-", dir=other)


def confine(memory: int, seconds: int | None = SECONDS) -> None:
    """The limits of this process, from now on."""
    for kind, most in (
        # Data and not address space: libraries map far more than they ever touch.
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_CPU, resource.RLIM_INFINITY if seconds is None else seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        bounds = [bound for bound in (most, hard) if bound != resource.RLIM_INFINITY]
        allowed = min(bounds, default=resource.RLIM_INFINITY)
        resource.setrlimit(kind, (allowed, allowed))


def environment(empty: str) -> dict[str, str]:
    """What such a process needs of ours: where Python is, and no more."""
    room = str(Path(__file__).parents[2])  # its own directory is empty, so it cannot look there
    needed = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    paths = [room, *(path for path in needed.get("PYTHONPATH", "").split(os.pathsep) if path)]
    return {
        **needed,
        "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in paths),
        "HOME": empty,
        "TMPDIR": empty,
        "ORT_DISABLE_TELEMETRY": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }


def _why(code: int, words: bytes) -> str:
    if code > 0:
        lines = words.decode(errors="replace").strip().splitlines()
        last = lines[-1].removeprefix("error: ") if lines else f"its test ended with {code}"
        # The line may hold what the bundle says, and is going to be logged.
        return "".join(c if c.isprintable() else "?" for c in last)[:300]
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"its test took more than {SECONDS} s of processor time, or more memory than it may"
    return f"its test ended with {signal.Signals(-code).name}"


def main() -> None:
    """Try what comes on standard input."""
    die_with_parent(int(sys.argv[1]))
    memory = room(os.fstat(0).st_size)
    with suppress(OSError):  # where memory ends, this process does, and not who started it
        Path("/proc/self/oom_score_adj").write_text("1000")
    confine(memory)
    too_much = f"error: its test needs more than {memory >> 20} MB of memory"
    try:
        from edge_agent.inference.session import NO_MEMORY, runtime

        runtime()
        data = sys.stdin.buffer.read()
        landlock.close_files()
        examine(data, sys.argv[2])
    except FleetError as error:
        sys.exit(too_much if NO_MEMORY in str(error) else f"error: {error}")
    except MemoryError:
        sys.exit(too_much)


if __name__ == "__main__":
    main()
