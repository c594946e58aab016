"""The methods that are installed: entry points of the group "protofleet.methods", from this package
or any other.
"""

from __future__ import annotations

import difflib
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from protofleet.errors import FleetError, UnknownMethod
from protofleet.recipe import Recipe

GROUP = "protofleet.methods"


def names() -> list[str]:
    """Every installed method."""
    return sorted(_points())


def load(name: str) -> Recipe[Any]:
    """The recipe of this name."""
    points = _points()
    if name not in points:
        near = difflib.get_close_matches(name, points, 1)
        raise UnknownMethod(
            f"no method is called {name!r}",
            f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names())}",
        )
    try:
        recipe = points[name].load()
    except Exception as error:  # whatever another package does when it is imported
        words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise FleetError(
            f"method {name!r} of {points[name].value} cannot be loaded: {words}"
        ) from error
    if not isinstance(recipe, Recipe):
        raise FleetError(f"method {name!r}: {points[name].value} is not a Recipe")
    if recipe.name != name:
        raise FleetError(f"method {name!r}: its recipe calls itself {recipe.name!r}")
    return recipe


def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
