"""A program that dies at a chosen instant, as by `kill -9`: when a function is entered or left for the n-th time.

    python -m simulators.faults.mortal 'coordinator:Journal.commit:leave:7' coordinator serve --config fleet.toml

The program itself knows nothing of it: Python's profiling hook counts. An instant is `package:name:edge:number`, where
the name is a function's qualified name, `*` is every function of the package, and `execute` is every statement that
SQLite is given by it.
"""

from __future__ import annotations

import importlib
import inspect
import os
import runpy
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

from protofleet.errors import UsageError

Edge = Literal["enter", "leave"]
EVENTS = {"enter": ("call", "c_call"), "leave": ("return", "c_return")}
STATEMENTS = ("execute", "executemany")


@dataclass(frozen=True)
class Instant:
    """When to die."""

    package: str
    name: str
    edge: Edge
    number: int

    def __str__(self) -> str:
        return f"{self.package}:{self.name}:{self.edge}:{self.number}"

    @classmethod
    def parse(cls, text: str) -> Instant:
        """As it is written on the command line."""
        match text.split(":"):
            case [package, name, ("enter" | "leave") as edge, number] if number.isdigit():
                return cls(package, name, "enter" if edge == "enter" else "leave", int(number))
        raise UsageError(f"{text!r} is no instant", "package:function:enter|leave:number")


def watch(instant: Instant, die: Callable[[], None]) -> Callable[[FrameType, str, Any], None]:
    """The hook; `die` is called once the instant has come."""
    package, left = f"{os.sep}{instant.package.replace('.', os.sep)}{os.sep}", instant.number
    python, native = EVENTS[instant.edge]
    statements = instant.name == "execute"

    def hook(frame: FrameType, event: str, what: Any) -> None:
        nonlocal left
        if statements:
            hit = event == native and what.__name__ in STATEMENTS
        else:
            code = frame.f_code
            hit = event == python and (
                instant.name == code.co_qualname
                or (instant.name == "*" and bool(code.co_flags & inspect.CO_OPTIMIZED))  # no class or module body
            )
        if hit and package in frame.f_code.co_filename:
            left -= 1
            if left == 0:
                die()

    return hook


def die_at_once() -> None:
    """Without another word, as when the power goes."""
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Run the program that the arguments name, until the instant."""
    instant, module = Instant.parse(sys.argv[1]), sys.argv[2]
    sys.argv = [module, *sys.argv[3:]]
    importlib.import_module(f"{module.partition('.')[0]}.cli")  # nothing that happens while it loads is an instant
    sys.setprofile(watch(instant, die_at_once))
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
