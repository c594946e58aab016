"""A client's answers to a conformance folder beside those that are due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def differences(answers: Any, expected: Mapping[str, Any]) -> list[str]:
    """In what a client's answers are not those that are due: a line each."""
    try:
        return list(_differences(answers, expected))
    except (KeyError, TypeError, IndexError, ValueError) as error:
        return [f"the answers are not of the form: {type(error).__name__} {error}"]


def _differences(answers: Any, expected: Mapping[str, Any]) -> Iterable[str]:
    most = expected["tolerance"]
    if len(answers["states"]) != len(expected["states"]):
        yield f"{len(answers['states'])} states where {len(expected['states'])} are due"
    for state, given in zip(expected["states"], answers["states"], strict=False):
        if len(given["answers"]) != len(state["answers"]):
            yield f"{state['file']}: {len(given['answers'])} answers"
        largest = max([abs(s) for one in state["answers"] for s in one["scores"]], default=0.0)
        for file, due, one in zip(
            expected["inputs"], state["answers"], given["answers"], strict=False
        ):
            where = f"{state['file']}, {file['file']}"
            for name in ("label", "unknown"):
                if one[name] != due[name]:
                    yield f"{where}: {name} {one[name]!r} where {due[name]!r} is due"
            yield from _apart(where, "scores", one, due, most["score"] * largest)
            yield from _apart(where, "probabilities", one, due, most["probability"])
    for name, words in zip(expected["refused"], answers["refused"], strict=True):
        if not words:
            yield f"{name} was taken"


def _apart(where: str, name: str, one: Any, due: Any, most: float) -> Iterable[str]:
    if one[name] is None or due[name] is None:
        if one[name] != due[name]:
            yield f"{where}: {name}: {one[name]} where {due[name]} are due"
        return
    given, wanted = np.array(one[name], np.float64), np.array(due[name], np.float64)
    if given.shape != wanted.shape:
        yield f"{where}: {given.size} {name} where {wanted.size} are due"
        return
    apart = float(np.abs(given - wanted).max(initial=0))
    # Not the other way round: what is no number must differ.
    if not apart <= most:
        yield f"{where}: {name} differ by {apart:.3g}, at most {most:.3g} is allowed"
