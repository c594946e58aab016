"""Two bundles beside each other on the same pictures, each in a process of its own: what they
answer, and what an answer costs.
"""

# Theory of operation
#
# The candidate passed its self-test (`edge_agent.inference.sandbox`), which is what its maker shows
# of it. Here it sees what this device sees. It is still a stranger: so it runs in a child with
# little memory, little processor time and no files, as its self-test did, and what ends it (a
# signal, a graph that cannot be run on these pictures) is an answer, too. What is in use runs the
# same way without the limits, and first, so that the candidate's time can be held to it.
#
# Pictures are read before the child is confined, and are shown one by one, as a camera brings them.
# Costs are medians of processor time and not of the clock, which on a busy device says what else is
# going on; and the largest memory that a child had, of which both begin with the same.
#
# A child writes one JSON document into a pipe. A pipe that ends without one is a child that did.

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_agent.inference import sandbox
from edge_agent.trials.specimens import TrialPicture
from edge_agent.updates import cache
from protofleet.contract import Input
from protofleet.errors import DataError, FleetError
from protofleet.exchange import published
from protofleet.exchange.rollouts import TrialFigures
from protofleet.util import landlock
from protofleet.util.allocator import give_freed_memory_back
from protofleet.wire.codes import Setback

TIMES = 20.0  # the processor time of what is in use, before the candidate is ended
LEAST_SECONDS = 120
WARM = 3  # answers that are not counted: the first ones prepare the graph


@dataclass(frozen=True)
class TrialSide:
    """A bundle on the disk, and the classes that it is to answer by; none: its own."""

    bundle: Path
    state: Path | None = None
    home: Path | None = None  # the bundle beside which this device's own classes lie


@dataclass(frozen=True)
class Showing:
    """What one of them answered, picture by picture, and what it cost."""

    answers: tuple[str | None, ...] = ()
    seconds: float = 0.0  # of the processor, for one answer
    in_all: float = 0.0
    bytes: int = 0
    reason: str = ""
    words: str = ""


def run(side: TrialSide, pictures: Sequence[TrialPicture], budget: float | None) -> Showing:
    """Show it all pictures; with a budget of processor time it is confined."""
    give_freed_memory_back()
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.close(reading)
        _answer(side, pictures, budget, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        document = json.loads(text)
        return Showing(**{**document, "answers": tuple(document["answers"])})
    except (ValueError, TypeError, KeyError):
        return Showing(reason=str(Setback.CRASH), words=_ending(code))


def figures_of(pictures: Sequence[TrialPicture], before: Showing, after: Showing) -> TrialFigures:
    """What both said to the same pictures."""
    alike = sum(a == b for a, b in zip(before.answers, after.answers, strict=True))
    labelled = [i for i, picture in enumerate(pictures) if picture.label is not None]
    known = {name for run_ in (before, after) for name in run_.answers}
    # A class that neither ever names says nothing about the two.
    judged = [i for i in labelled if pictures[i].label in known]
    right = [[run_.answers[i] == pictures[i].label for i in judged] for run_ in (before, after)]
    pairs = list(zip(*right, strict=True))
    return TrialFigures(
        pictures=len(pictures),
        alike=alike,
        samples=len(judged),
        kept=sum(pictures[i].kept for i in judged),
        before=sum(right[0]),
        after=sum(right[1]),
        better=sum(b and not a for a, b in pairs),
        worse=sum(a and not b for a, b in pairs),
    )


def _answer(
    side: TrialSide, pictures: Sequence[TrialPicture], budget: float | None, pipe: int
) -> None:
    """The child: everything until its end."""
    try:
        outcome = _shown(side, pictures, budget)
    except MemoryError:
        outcome = Showing(
            reason=str(Setback.LARGER), words="it needs more memory than there may be"
        )
    except FleetError as error:
        outcome = Showing(reason=str(Setback.CRASH), words=str(error)[:200])
    except Exception as error:  # whatever the runtime stumbles over
        words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        outcome = Showing(reason=str(Setback.CRASH), words=words)
    os.write(pipe, json.dumps(asdict(outcome)).encode())
    os._exit(0)


def _shown(side: TrialSide, pictures: Sequence[TrialPicture], budget: float | None) -> Showing:
    from edge_agent.inference.classifier import Classifier
    from edge_agent.inference.session import runtime

    path, home = side.bundle, side.home or side.bundle
    payload = None if side.state is None else side.state.read_bytes()
    kind = _kind(path)
    images = [_read(picture.read, kind) for picture in pictures]
    state = None if payload is None else published.read(payload)
    bank = None if state is None else cache.with_enrolled(home, state.bank)
    runtime()
    if budget is not None:
        size = path.stat().st_size + sum(image.nbytes for image in images if image is not None)
        data = path.read_bytes()
        sandbox.confine(sandbox.room(size), int(max(LEAST_SECONDS, budget)))
        landlock.close_files()
        from edge_agent.inference.bundle import unpacked

        classifier = Classifier(unpacked(data, path.name))
    else:
        classifier = Classifier(path)
    if state and bank and state.bank.about.lineage in classifier.bundle.manifest.lineages:
        classifier.use(bank, state.digest)
    answers: list[str | None] = []
    costs: list[float] = []
    for image in images:
        began = time.process_time()
        answers.append(None if image is None else classifier.look(image[None]).best[0])
        costs.append(time.process_time() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    usual = costs[WARM:] or costs
    return Showing(tuple(answers), median(usual) if usual else 0.0, sum(costs), peak)


def _kind(path: Path) -> Input:
    from edge_agent.inference.bundle import open_bundle

    return open_bundle(path).manifest.input


def _read(read: Callable[[Input], NDArray[Any]], kind: Input) -> NDArray[Any] | None:
    try:
        return np.asarray(read(kind))
    except DataError:
        return None  # neither is judged by what cannot be read


def _ending(code: int) -> str:
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return "on this device's pictures it took more time or memory than it may"
    if code < 0:
        return f"on this device's pictures it ended with {signal.Signals(-code).name}"
    return f"on this device's pictures it ended with {code}"
