"""Uploads of which every number is admissible and none is likely, through a coordinator's core:
each is folded or refused, and each cut ends in a state or says why not.
"""

# Theory of operation
#
# `mutations` makes uploads that should be refused. Here are those that should not: of an honest
# upload the numbers change and the form stays. What was drawn once stays for a whole part, because
# a fusion stumbles over what lies alike (all rows the same, all of one class, all weight on one
# row) and not over noise:
#
#   numbers      zeros, the largest of either sign, the smallest that half precision holds, one row
#                for all, one number in all, what it was times a power of two
#   classes      none, one, all, each twice
#   counts       none, one, the most there may be
#
# Of `fleet`, which has no rounds, contributions go through the ledger's own functions instead.
#
# What is tried is the whole of a coordinator but its network: message, admission, fold, journal,
# cut, fusion, publication. Allowed are a refusal, a state, and a cut that is written down as
# failed. Whatever else comes out of the core is a crash. A watchdog raises in the middle of what
# takes too long, and by an exception that no handler of errors catches: so a hang is found where
# it is. It counts the time of the processor, for a machine may stand still for reasons of its own.

from __future__ import annotations

import io
import random
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coordinator.config import UploadLimits
from coordinator.core import Core, Terms
from coordinator.devices import Patience
from coordinator.journal.journal import Journal
from coordinator.ledger.admission import AdmissionLimits
from coordinator.ledger.admission import admitted as admitted_there
from coordinator.ledger.ledger import GRID, Ledger
from coordinator.ledger.versions import CountTotal, VersionTerms, version
from coordinator.messages import Messages
from coordinator.rounds.machine import RoundRules
from protofleet import wire
from protofleet.errors import FleetError
from protofleet.exchange import contributed
from protofleet.exchange.contributed import Claim, Contributed
from protofleet.mqtt.topics import Topics
from protofleet.statistics.contribution import MEANS, MOST_SAMPLES, SCATTER, from_parts
from protofleet.util.logs import Log
from protofleet.values.prototypes import Mixtures, Part, Parts, Prototypes, SoftLabels, Tensors
from protofleet.wire import Envelope
from simulators.faults.mutations import mutated
from simulators.run.setup import RUN_ID, Setup
from simulators.run.workers import upload_message

TOO_LONG = 30.0  # seconds of the processor for a batch: a fusion of a few takes far less than one
DEVICES = 6
LINEAGE = "extractor:fuzz"
HIGHEST = 44  # an exponent, as it travels
MOST_TRIED = 30  # for each that is let in
FOREIGN = 0.1  # of the uploads are of another form, as `mutations` makes them


class Hanging(BaseException):
    """A batch took too long."""


@dataclass
class FuzzTally:
    """What came of the uploads of one method."""

    tried: int = 0
    admitted: int = 0
    cuts: int = 0
    longest: float = 0.0  # seconds that one batch took
    failed: Counter[str] = field(default_factory=Counter)  # cuts, by reason
    refused: Counter[str] = field(default_factory=Counter)  # uploads, by code


def peak_bytes() -> int:
    """The most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fuzz(
    setup: Setup, honest: Sequence[Parts], folder: Path, seed: int, admitted: int
) -> FuzzTally:
    """Rounds of such uploads, until so many were let in; raises what the core raises."""
    rng, tally = np.random.default_rng([seed, *setup.recipe.name.encode()]), FuzzTally()
    core = _core(setup, folder, staleness=int(rng.integers(0, 2)))
    agents = [f"liar-{i}" for i in range(DEVICES)]
    now = 0.0
    try:
        with _watched(tally):
            core.recover(now)
        with _watched(tally):
            core.take([_birth(core, setup, agent) for agent in agents], now)
        while tally.admitted < admitted:
            if tally.tried > MOST_TRIED * admitted:
                raise FleetError(f"of {tally.tried} uploads {tally.admitted} were let in")
            now += 10.0
            number = core.run_state.number
            opened = core.journal.round(number)
            assert opened is not None
            batch = []
            for agent in agents[: int(rng.integers(1, DEVICES + 1))]:
                parts = honest[int(rng.integers(len(honest)))]
                message = _forged(setup, agent, number, opened.base, parts, rng)
                tally.tried += 1
                if message is not None:
                    batch.append((core.topics.parse(core.topics.upload(agent, number)), message))
            with _watched(tally):
                core.take([(topic, message) for topic, message in batch if topic], now)
            with _watched(tally):
                core.take([], now + 5.0)  # the deadline
            _settle(core, number, tally)
        tally.refused.update(core.intake.counters.refused)
    finally:
        core.journal.close()
    return tally


def fuzz_ledger(setup: Setup, honest: Sequence[Parts], seed: int, admitted: int) -> FuzzTally:
    """The same of a ledger, which has no rounds: contributions come, and take each other's place,
    and versions are made of what is there.
    """
    rng, tally = np.random.default_rng([seed, 1]), FuzzTally()
    limits = AdmissionLimits(LINEAGE, setup.contract.embedding, figures=setup.config.admission)
    terms = VersionTerms(
        setup.contract.wire, setup.recipe.precision, setup.hyper.alarms, setup.hyper.buckets
    )
    contributions = [parts for parts in honest if SCATTER in parts]
    ledger, present = Ledger(LINEAGE, buckets=terms.buckets), dict[str, Contributed]()
    while tally.admitted < admitted:
        tally.tried += 1
        agent = f"liar-{int(rng.integers(DEVICES))}"
        parts = contributions[int(rng.integers(len(contributions)))]
        with _watched(tally):
            new = _contributed(agent, _extreme_contribution(parts, rng))
            refusal = None if new is None else admitted_there(new, limits)
            if new is None or refusal is not None:
                tally.refused["bad-bytes" if refusal is None else refusal.code] += 1
                continue
            ledger = ledger.plus(agent, new, present.get(agent))
            present[agent] = new
            tally.admitted += 1
            if rng.random() < 0.2:
                ledger = ledger.without(agent, present.pop(agent))
            if rng.random() < 0.3:
                tally.cuts += 1
                try:
                    version(ledger, setup.contract.classes, CountTotal(), terms)
                except Exception as error:  # as the keeper takes it: the last version stays
                    tally.failed[f"{type(error).__name__}: {error}"] += 1
    return tally


def _extreme_contribution(parts: Parts, rng: np.random.Generator) -> Parts:
    """Means as of any upload; a factor's rows are bytes, and its exponents lie near each other."""
    scatter = parts[SCATTER]
    assert isinstance(scatter, Tensors)
    rows, exponents, residual = (scatter[name] for name in ("rows", "exponents", "residual"))
    none = exponents * 0
    drawn = [
        (rows, rows * 0 + 255, rows * 0 + 1, rows * 0 + 128, 256 - rows, rows[:1]),
        (exponents, none, none + 20, none + HIGHEST),
        (residual, residual * 0, np.full_like(residual, 2.0 ** int(rng.integers(-16, 24)))),
    ]
    rows, exponents, residual = (some[int(rng.integers(len(some)))] for some in drawn)
    arrays = {"rows": rows, "exponents": exponents[: len(rows)], "residual": residual}
    limits = UploadLimits(largest=31, norm=31, count=MOST_SAMPLES // 16, samples=MOST_SAMPLES - 1)
    return {**extreme({MEANS: parts[MEANS]}, rng, limits), SCATTER: Tensors(arrays)}


def _contributed(agent: str, parts: Parts) -> Contributed | None:
    """As it crosses the wire, means on the grid; None where that is refused."""
    try:
        means = parts[MEANS]
        assert isinstance(means, Prototypes)
        once = np.unique(means.classes, return_index=True)[1]
        ids = np.arange(len(once))
        counts = None if means.counts is None else means.counts[once]
        means = Prototypes(ids, GRID.onto(means.vectors[once]), counts)
        own = from_parts({**parts, MEANS: means})
        claim = Claim(LINEAGE, tuple(f"class {i}" for i in ids))
        envelope = Envelope("enrol", "fleet", agent=agent, method=contributed.CONTRIBUTE)
        message = contributed.read(contributed.write_contribution(claim, own, envelope))
    except FleetError:
        return None
    return message if isinstance(message, Contributed) else None


def extreme(parts: Parts, rng: np.random.Generator, limits: UploadLimits) -> Parts:
    """The same form, other numbers; what the vocabulary refuses stays as it was."""
    changed = dict(parts)
    for name, part in parts.items():
        if rng.random() < 0.8:
            with suppress(FleetError, ValueError):
                changed[name] = _part(part, rng, limits)
    return changed


def _part(part: Part, rng: np.random.Generator, limits: UploadLimits) -> Part:
    if isinstance(part, Tensors):
        arrays = {key: _numbers(array, rng, limits) for key, array in part.arrays.items()}
        return Tensors(arrays)
    values: dict[str, Any] = {f.name: getattr(part, f.name) for f in fields(part)}
    if isinstance(part, Prototypes):
        values |= _rows(values, rng)
    if isinstance(part, (Prototypes, Mixtures)) and values["counts"] is not None:
        values["counts"] = _counts(values["counts"], rng, limits)
    if isinstance(part, Mixtures):
        values["means"] = _numbers(part.means, rng, limits)
        small = rng.choice([1e-7, 1.0, limits.largest, float(limits.trace) / part.dim])
        values["variances"] = np.full_like(part.variances, min(small, 6e4))
    elif isinstance(part, SoftLabels):
        one = np.zeros_like(part.probabilities)
        one[:, int(rng.integers(one.shape[1]))] = 1
        values["probabilities"] = one
    else:
        for key, array in values.items():
            if key != "classes" and np.asarray(array).dtype.kind == "f":
                values[key] = _numbers(array, rng, limits)
    made: Part = type(part)(**values)
    return made


def _rows(values: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Fewer rows, or each twice, or other classes; by what was drawn."""
    count = len(values["classes"])
    rows = {
        0: np.arange(0),
        1: np.arange(count)[: int(rng.integers(1, count + 1))],
        2: np.repeat(np.arange(count), 2),
    }.get(int(rng.integers(0, 8)), np.arange(count))
    return {key: None if array is None else array[rows] for key, array in values.items()}


def _counts(array: Any, rng: np.random.Generator, limits: UploadLimits) -> Any:
    most = min(limits.count, limits.samples // max(len(array), 1))
    choice = int(rng.integers(0, 5))
    if choice == 4:
        return rng.choice(np.array([0, 1, most]), len(array))
    return np.full_like(array, (0, 1, most, most - 1)[choice])


def _numbers(array: NDArray[Any], rng: np.random.Generator, limits: UploadLimits) -> Any:
    """Other numbers of the same shape and kind."""
    if array.dtype.kind != "f":
        # Rows of a factor travel as bytes, and most other whole numbers are samples.
        most_whole = 255 if array.max(initial=0) <= 255 else limits.samples
        whole = (array, array * 0, array * 0 + 1, array * 0 + most_whole, array // 2)
        return whole[int(rng.integers(len(whole)))]
    # A row may be so long, and half precision holds no larger number.
    width = max(array.shape[-1] if array.ndim else 1, 1)
    most = np.float32(min(limits.largest, 0.99 * limits.norm / width**0.5, 6e4))
    peak = float(np.abs(array).max(initial=0.0)) or 1.0
    few = np.zeros_like(array)
    few.reshape(-1)[: max(1, few.size // 100)] = most
    changes: tuple[Callable[[], NDArray[Any]], ...] = (
        lambda: np.zeros_like(array),
        lambda: np.full_like(array, most * rng.choice([-1, 1])),
        lambda: most * rng.choice(np.array([-1, 1], np.float32), array.shape),
        lambda: np.full_like(array, rng.choice([6e-8, -6e-8, 1e-38])),
        lambda: np.broadcast_to(array[:1], array.shape) if array.ndim else array,
        lambda: few,
        lambda: array * np.float32(2.0 ** np.floor(np.log2(max(float(most) / peak, 1e-30)))),
        lambda: array * np.float32(2.0**-20),
        lambda: -array,
    )
    return changes[int(rng.integers(len(changes)))]()


def _forged(
    setup: Setup, agent: str, round: int, base: str, parts: Parts, rng: np.random.Generator
) -> bytes | None:
    """As it would cross the wire; None where it cannot even be written."""
    if rng.random() < FOREIGN:
        forged = mutated(parts, random.Random(int(rng.integers(2**32))))
    else:
        forged = extreme(parts, rng, setup.config.admission)
    with suppress(FleetError, TypeError, ValueError):
        return upload_message(setup, agent, round, base, forged)
    return None


def _settle(core: Core, number: int, tally: FuzzTally) -> None:
    """What the journal says of a round that is over."""
    cut = core.journal.cut(number)
    if cut is None:
        return
    tally.cuts += 1
    tally.admitted += len(cut.counted)
    if cut.failed:
        tally.failed[cut.failed] += 1


@contextmanager
def _watched(tally: FuzzTally) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise Hanging(f"longer than {TOO_LONG:g} s")

    before = signal.signal(signal.SIGPROF, stop)
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, TOO_LONG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        tally.longest = max(tally.longest, time.process_time() - began)


def _core(setup: Setup, folder: Path, staleness: int) -> Core:
    contract, recipe = setup.contract, setup.recipe
    topics = Topics(contract.fleet)
    rules = RoundRules(lambda number, agents: tuple(agents), None, 1, 0.0, 1.0, None)
    terms = Terms(setup.expected, setup.hyper, staleness, True, Patience(1e9, 1e9))
    messages = Messages(topics, contract, recipe, setup.hyper, 1, "b" * 16, 131_072)
    journal = Journal(folder, lambda: 0.0)
    return Core(journal, rules, terms, topics, messages, Log(io.StringIO()))


def _birth(core: Core, setup: Setup, agent: str) -> tuple[Any, bytes]:
    body = {"online": True, "version": "1", "wire": [wire.VERSION], "classes": [], "samples": 5}
    envelope = Envelope("birth", setup.contract.fleet, run=RUN_ID, agent=agent, boot="1" * 16)
    return core.topics.parse(core.topics.state(agent)), wire.encode(envelope, body)
