"""The laboratory: a run's rounds in memory, with the agents, the codec and the fusion of the live
fleet.
"""

# Theory of operation
#
# A run is a chain of states. The laboratory makes it in memory, a live fleet over a broker, and
# both must end in the same bytes, so everything that decides a number is shared with the field:
#
#     step                     here                      in the field
#     who takes part           selection.participants    the same function, in the coordinator
#     training, summaries      Agent.work, by the crew   the same class, in a training process
#     what crosses the wire    wire.encode, wire.decode  the same, in MQTT payloads
#     what is let in           validation.content        the same function, in the coordinator
#     fusion                   fuse_total                fold on arrival, fuse_total at the cut
#     masked sums, noise       masked_round, `_total`    uploads/assembly.py, service/spending.py
#     what devices hold next   the state as published    the same, decoded
#
# Left out is only what has to do with time: nobody is late, nothing is lost, nothing is sent
# twice. A live run in which nobody was lost is therefore this run (`live/schedule.py` says what
# remains true of one in which somebody was).
#
# The rules of a round:
#
# 1. Uploads are encoded and decoded again though they never leave the process. Half precision
#    rounds, and a state that was fused from unrounded numbers would differ in its last bits.
# 2. They are fused in the order of names. Sums are exact, so any order gives the same; a fixed one
#    keeps a mistake in a recipe from hiding as noise.
# 3. A recipe need not talk in every round. A silent one trains and changes no state; devices are
#    then not given the old state again, since for some methods receiving is itself a step.
# 4. Evaluation comes last and must change nothing: a run that is evaluated less often ends in the
#    same state.
#
# A checkpoint is written after a round has ended, with what every device must remember. To go on,
# devices are put back first and then receive the state, as the round before it that talked: that
# number tells an agent that it has already learned from it.

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coordinator.rounds.selection import participants
from coordinator.uploads import validation
from coordinator.uploads.fuse import fuse_total, start_state
from protofleet import mistakes, wire
from protofleet.errors import RunLeft
from protofleet.exchange.state import GlobalState, Upload
from protofleet.recipe import Turn
from protofleet.values.prototypes import Parts, count_floats
from protofleet.values.sums import Partial, merge, merge_all
from simulators.run.masked import masked_round, sampler
from simulators.run.result import Outcome, Row, Traffic, common_of, row_of
from simulators.run.rundir import RunCheckpoint, RunDir
from simulators.run.setup import RUN_ID, Setup
from simulators.run.workers import Crew, LabEngine, Local, hire

Watch = Callable[[Row], None]
Enough = Callable[[Sequence[Row]], bool]


def never(rows: Sequence[Row]) -> bool:
    """A run goes to its end."""
    return False


@dataclass(frozen=True)
class LabOptions:
    """What changes how long a run takes, and no number in it."""

    engine: LabEngine = field(default_factory=Local)
    checkpoint_every: int = 5
    common: bool = False  # after the last round all devices are measured on one test set, too
    # Asked after each checkpoint: whether the run may be left there, to be taken up another day.
    enough: Enough = never


def run(
    setup: Setup, how: LabOptions, watch: Watch, out: RunDir | None = None, *, resume: bool = False
) -> Outcome:
    """All rounds, from the beginning or from the last checkpoint in `out`."""
    with mistakes.named(setup.recipe):
        return _run(setup, how, watch, out, resume=resume)


def _run(
    setup: Setup, how: LabOptions, watch: Watch, out: RunDir | None, *, resume: bool
) -> Outcome:
    began = time.perf_counter()
    crew = how.engine.hire(setup)
    try:
        state = start_state(setup.recipe, Turn(setup.contract, setup.hyper, 0))
        rows: list[Row] = []
        saved = out.latest(setup) if out is not None and resume else None
        if saved is not None:
            state, rows = saved.state, list(saved.rows)
            crew.restore(saved.agents)
            for row in rows:
                watch(row)
        crew.receive(_came_out_of(setup, len(rows)), state)
        for round in range(len(rows) + 1, setup.config.run.rounds + 1):
            state, row = one_round(setup, crew, state, round)
            last = round == setup.config.run.rounds
            if last and how.common:
                row = replace(row, common=common_of(crew.evaluate(round, common=True)))
            rows.append(row)
            watch(row)
            if out is not None and (last or round % how.checkpoint_every == 0):
                out.save(round, state, rows, crew.checkpoint())
                if not last and how.enough(rows):
                    raise RunLeft(f"left in round {round} of {setup.config.run.rounds}")
        seconds = time.perf_counter() - began
        return Outcome(
            setup,
            state,
            tuple(rows),
            seconds,
            crew.peak_rss(),
            crew.embed(40) if out is not None else {},
        )
    finally:
        crew.close()


def asked_again(setup: Setup, saved: RunCheckpoint) -> Row:
    """How a run's devices classify what this setup tests them on, as its checkpoint left them: an
    evaluation changes nothing, so one run answers for several test sets.
    """
    crew = hire(setup, 1)
    try:
        crew.restore(saved.agents)
        last = len(saved.rows)
        crew.receive(_came_out_of(setup, last), saved.state)
        return row_of(last, crew.evaluate(last), Traffic(), Traffic(), 0)
    finally:
        crew.close()


def _came_out_of(setup: Setup, round: int) -> int:
    """The round whose outcome is the state after this one: the last in which the recipe talks."""
    while round and not setup.recipe.talks(Turn(setup.contract, setup.hyper, round)):
        round -= 1
    return round


def one_round(
    setup: Setup, crew: Crew, before: GlobalState, round: int, among: Sequence[str] | None = None
) -> tuple[GlobalState, Row]:
    """Train, send, fuse, give back, evaluate; `among` are the devices that are there, all where
    nobody says.
    """
    began = time.perf_counter()
    run, recipe = setup.config.run, setup.recipe
    turn = Turn(setup.contract, setup.hyper, round)
    chosen = participants(setup.contract, round, among or setup.agents, run.participation)
    messages = crew.work(round, chosen)
    state, up, down, counted = before, Traffic(), Traffic(), 0
    refused: Mapping[str, str] = {}
    lost: Mapping[str, str] = {}
    if recipe.talks(turn):
        sent = [opened(setup, messages[name]) for name in sorted(messages)]
        refused = refusals(setup, turn, before, sent)
        uploads = [upload for upload in sent if upload.agent not in refused]
        up = Traffic(sum(map(len, messages.values())), sum(count_floats(u.parts) for u in sent))
        if setup.config.masks.secure_sum:
            masked = masked_round(setup, turn, before, uploads)
            lost, up = masked.lost, replace(up, bytes=masked.up)
            state = fuse_total(recipe, turn, masked.total, before)
            down = published(setup, state, round)
            down = replace(down, bytes=down.bytes + masked.down)
        else:
            state = fuse_total(recipe, turn, _total(setup, turn, before, uploads), before)
            down = published(setup, state, round)
        counted = recipe.paper_floats(turn, [upload.parts for upload in uploads], state)
        crew.receive(round, state)
    evaluates = round % run.eval_every == 0 or round == run.rounds
    tallies = crew.evaluate(round) if evaluates else {}
    row = row_of(round, tallies, up, down, counted)
    row = replace(row, refused=refused, lost=lost, seconds=time.perf_counter() - began)
    return state, row if setup.private is None else replace(row, epsilon=setup.private.spent(turn))


def _total(
    setup: Setup, turn: Turn[Any], before: GlobalState, uploads: Sequence[Upload]
) -> Partial:
    """Of all uploads, with the coordinator's noise where the run has a budget."""
    total = merge_all(setup.recipe.fold(turn, upload, 1) for upload in uploads)
    if setup.private is None or not total:
        return total
    return merge(total, setup.private.noise(turn, before, sampler(setup.config, turn)))


def refusals(
    setup: Setup, turn: Turn[Any], before: GlobalState, sent: Sequence[Upload]
) -> dict[str, str]:
    """Whose uploads a coordinator would not let in, and why."""
    found = {u.agent: validation.content(setup.expected, u.parts, talks=True) for u in sent}
    words = {agent: refusal.words for agent, refusal in found.items() if refusal is not None}
    if setup.private is not None:
        fine = (upload for upload in sent if upload.agent not in words)
        too_long = {u.agent: setup.private.unclipped(turn, before, u.parts) for u in fine}
        words |= {agent: why for agent, why in too_long.items() if why}
    return words


def opened(setup: Setup, message: bytes) -> Upload:
    """An upload as it came over the wire."""
    upload = wire.decode(message)
    envelope = upload.envelope
    return Upload(str(envelope.agent), int(envelope.round or 0), str(envelope.base), upload.body)


def published(setup: Setup, state: GlobalState, round: int) -> Traffic:
    """What reaches the devices: the shared part each, and to each its own part."""
    envelope = wire.Envelope(
        t="global",
        fleet=setup.contract.fleet,
        run=RUN_ID,
        epoch=1,
        round=round,
        method=setup.recipe.name,
    )

    def size(kind: str, parts: Parts) -> int:
        if not parts:
            return 0
        message = replace(envelope, t=kind)
        precision, exceptions = setup.contract.wire, setup.recipe.precision
        return len(wire.encode(message, parts, precision=precision, exceptions=exceptions))

    own: Mapping[str, Parts] = state.own
    everyone = len(setup.agents)
    return Traffic(
        everyone * size("global", state.shared) + sum(size("own", parts) for parts in own.values()),
        everyone * count_floats(state.shared) + sum(count_floats(parts) for parts in own.values()),
    )


def run_in(
    setup: Setup, how: LabOptions, watch: Watch, path: Path | None, *, resume: bool = False
) -> Outcome:
    """As `run`, leaving everything a person or a program may want in a directory."""
    if path is None:
        return run(setup, how, watch)
    out = RunDir(path)
    out.begin(setup, resume=resume)
    outcome = run(setup, how, watch, out, resume=resume)
    out.finish(outcome)
    return outcome
