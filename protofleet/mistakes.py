"""A mistake in a method of somebody's own, in one line that says where: its move, file, line and
what Python said. `--debug`, or the exception that it comes from, has the whole traceback.
"""

# A move is called deep inside training and fusion, and what it raises comes up through much of
# ours. Whose mistake it is can be read off the traceback: the innermost frame of a module that one
# of the recipe's functions is from. Our own methods are not looked at: there it is ours.

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any

from protofleet.errors import FleetError
from protofleet.recipe import Recipe

OURS = ("protofleet", "edge_agent", "coordinator", "simulators", "export")


class RecipeError(FleetError):
    """A function of a method failed."""

    code = "bad-method"


@contextmanager
def named(recipe: Recipe[Any]) -> Iterator[None]:
    """What goes wrong inside in this recipe's own functions is raised as a `RecipeError`."""
    try:
        yield
    except FleetError:
        raise
    except Exception as error:
        place = _innermost(recipe, error)
        if place is None:
            raise
        frame, line = place
        code = frame.f_code
        where = f"{code.co_name}() in {Path(code.co_filename).name}, line {line}"
        words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise RecipeError(f"method {recipe.name!r}: {where}: {words}") from error


def _innermost(recipe: Recipe[Any], error: Exception) -> tuple[FrameType, int] | None:
    modules = {_module(move) for move in vars(recipe).values() if callable(move)}
    foreign = {name for name in modules if name.partition(".")[0] not in OURS}
    frames = [
        (frame, line)
        for frame, line in walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") in foreign
    ]
    return frames[-1] if frames else None


def _module(move: Callable[..., Any]) -> str:
    return str(getattr(move, "__module__", ""))
