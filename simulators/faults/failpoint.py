"""A program that dies at a failpoint, as by `kill -9`: when a function is entered or left for the
n-th time.

    POINT=coordinator.journal.journal:Journal.commit:leave:7
    python -m simulators.faults.failpoint $POINT coordinator serve ...

The program itself knows nothing of it: Python's profiling hook counts. A failpoint is
`module:function:edge:number`. The function is a qualified name that must be there when the program
starts, so that a name that was changed elsewhere is refused and does not stand for a moment that
never comes. With a package in the module's place, `*` is every function in it, and `execute` every
statement that a database is given by it.
"""

# Theory of operation
#
# `sys.setprofile` calls a hook for every Python function that is entered or left, and for every C
# function that is called from Python. The hook counts those that are meant and sends SIGKILL to its
# own process at the n-th. So no line of the program under test is written for the test, and every
# moment between two calls can be met.
#
#     a failpoint names         counted are
#     module:Class.method       entries or leavings of that very code object
#     package:*                 those of any function in the package's files
#     package:execute           calls from its files of a database's execute and executemany
#
# What one must know to read a failure:
#
# - *Enter* is before the first line of the function, *leave* after its last, also where it is left
#   by an exception (a statement only where it succeeds). A generator is entered and left at every
#   step.
# - Only the thread that starts the program is counted. Daemon and coordinator decide everything
#   there; what their helper threads do goes by unseen.
# - SIGKILL ends the process, not the machine: what was written is in the page cache and survives,
#   synced or not. Power losses are another case (`cases/disks.py` cuts the log short).
# - Functions are resolved before the program starts. Counting by name alone would accept a name
#   that was changed elsewhere, and its case would pass because nothing ever happens.
# - The hook makes every call several times slower. Nothing here may be timed.

from __future__ import annotations

import importlib
import inspect
import os
import runpy
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Literal

from protofleet.errors import UsageError

Edge = Literal["enter", "leave"]
EVENTS = {"enter": ("call", "c_call"), "leave": ("return", "c_return")}
STATEMENTS = ("execute", "executemany")


ANY, STATEMENT = "*", "execute"  # of a whole package


@dataclass(frozen=True)
class Failpoint:
    """When to die."""

    module: str
    name: str
    edge: Edge
    number: int

    def __str__(self) -> str:
        return f"{self.module}:{self.name}:{self.edge}:{self.number}"

    @classmethod
    def of(cls, function: Callable[..., Any], edge: Edge, number: int) -> Failpoint:
        """When this function is entered or left so often."""
        return cls(function.__module__, function.__qualname__, edge, number)

    @classmethod
    def parse(cls, text: str) -> Failpoint:
        """As it is written on the command line."""
        match text.split(":"):
            case [module, name, ("enter" | "leave") as edge, number] if number.isdigit():
                return cls(module, name, "enter" if edge == "enter" else "leave", int(number))
        raise UsageError(f"{text!r} is no instant", "module:function:enter|leave:number")


def resolve(failpoint: Failpoint) -> CodeType | None:
    """The code that the failpoint counts, None if it is any in a package; a name that stands for
    none is refused.
    """
    try:
        target: Any = importlib.import_module(failpoint.module)
        if failpoint.name in (ANY, STATEMENT):
            return None
        for part in failpoint.name.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{failpoint} is no instant: {error}") from error
    if not inspect.isfunction(target):
        raise UsageError(f"{failpoint} is no instant: {failpoint.name} is not a Python function")
    code: CodeType = inspect.unwrap(target).__code__
    return code


def watch(failpoint: Failpoint, die: Callable[[], None]) -> Callable[[FrameType, str, Any], None]:
    """The hook; `die` is called once the failpoint has come."""
    package = f"{os.sep}{failpoint.module.replace('.', os.sep)}{os.sep}"
    remaining = failpoint.number
    python, native = EVENTS[failpoint.edge]
    code = resolve(failpoint)

    def is_function(frame: FrameType, event: str, what: Any) -> bool:
        return event == python and frame.f_code is code

    def is_any(frame: FrameType, event: str, what: Any) -> bool:
        body = not frame.f_code.co_flags & inspect.CO_OPTIMIZED  # of a class or a module
        return event == python and not body and package in frame.f_code.co_filename

    def is_statement(frame: FrameType, event: str, what: Any) -> bool:
        if event == native:  # sqlite3 is written in C
            return what.__name__ in STATEMENTS and package in frame.f_code.co_filename
        if event != python or frame.f_code.co_name not in STATEMENTS or frame.f_back is None:
            return False
        own = package in frame.f_code.co_filename
        return not own and package in frame.f_back.f_code.co_filename

    if code is not None:
        hit = is_function
    else:
        hit = is_statement if failpoint.name == STATEMENT else is_any

    def hook(frame: FrameType, event: str, what: Any) -> None:
        nonlocal remaining
        if hit(frame, event, what):
            remaining -= 1
            if remaining == 0:
                die()

    return hook


def die_at_once() -> None:
    """Without another word, as when the power goes."""
    os.kill(os.getpid(), signal.SIGKILL)


# What a program starts by itself is not started by us: it dies at a failpoint because Python runs
# `sitecustomize` before anything else. Each failpoint is one process's, the first that takes it.
CUSTOM = """import sys
if sys.orig_argv[1:3] == ["-m", {module!r}]:
    from simulators.faults.failpoint import doomed
    doomed({folder!r})
"""


def condemn(folder: Path, module: str, failpoints: Sequence[Failpoint]) -> list[str]:
    """Words before a command, by which processes of this module that it starts die at these, one
    each.
    """
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(CUSTOM.format(module=module, folder=str(folder)))
    for number, failpoint in enumerate(failpoints):
        (folder / f"{number}.death").write_text(str(failpoint))
    return ["env", f"PYTHONPATH={os.pathsep.join([str(folder), *filter(None, sys.path)])}"]


def doomed(folder: str) -> None:
    """This process takes the next failpoint, if there is one."""
    for death in sorted(Path(folder).glob("*.death")):
        failpoint = Failpoint.parse(death.read_text())
        with suppress(FileNotFoundError):  # somebody else took it
            death.rename(death.with_suffix(".taken"))
            sys.setprofile(watch(failpoint, die_at_once))
            return


def main() -> None:
    """Run the program that the arguments name, until the failpoint."""
    failpoint, module = Failpoint.parse(sys.argv[1]), sys.argv[2]
    sys.argv = [module, *sys.argv[3:]]
    # What happens while the program loads is not counted.
    importlib.import_module(f"{module.partition('.')[0]}.cli")
    sys.setprofile(watch(failpoint, die_at_once))
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
