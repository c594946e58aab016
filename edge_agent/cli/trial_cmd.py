"""`edge-agent trial`: another bundle beside the one in use, on this device's own pictures."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_agent.cli.common import device_options, settings
from edge_agent.cli.infer_cmd import bundle_option
from protofleet.errors import FleetError

if TYPE_CHECKING:
    from edge_agent.config import DataSection
    from edge_agent.trials.progress import TrialOutcome
    from edge_agent.trials.specimens import TrialPicture
    from protofleet.exchange.rollouts import TrialTerms

NOBODY = {"seconds": (0.0, 0.0), "bytes": (0, 0)}


class Unfit(FleetError):
    """A candidate that this device does not take."""

    code = "unfit"


@click.command()
@bundle_option
@click.option(
    "--candidate",
    type=click.Path(path_type=Path, exists=True),
    help="The other bundle. Without it: does BUNDLE still answer, from the disk alone?",
)
@click.option("--name", default="", help="What a bundle from outside is to be: its digest.")
@click.option(
    "--state",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The classes that BUNDLE answers by; by default those beside it, else its own.",
)
@click.option(
    "--candidate-state",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The classes that the candidate answers by; by default its own.",
)
@click.option("--compare/--no-compare", default=True, help="Or by its self-test alone.")
@click.option("--margin", default=0.03, show_default=True, help="Accuracy that it may lose.")
@click.option("--slower", default=2.0, show_default=True, help="Times the processor time.")
@click.option("--larger", default=2.0, show_default=True, help="Times the memory.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@device_options
def trial(
    bundle: Path,
    candidate: Path | None,
    name: str,
    state: Path | None,
    candidate_state: Path | None,
    compare: bool,
    margin: float,
    slower: float,
    larger: float,
    as_json: bool,
    file: Path | None,
    **flags: Any,
) -> None:
    """Try a bundle from outside: in a sandbox first, then beside the BUNDLE in use, on this
    device's labelled samples. Exit 1 if it does not hold.

    A device that is part of a live fleet (`edge-agent run`) does this by itself with what is rolled
    out to it.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from edge_agent.trials.comparison import TrialSide
    from protofleet.exchange.rollouts import TrialTerms

    config = settings(file, flags)
    os.nice(config.limits.nice)
    place = state if state is not None else _beside(bundle)
    now = TrialSide(bundle, place) if bundle.exists() else None
    if candidate is None:
        if now is None:
            raise FleetError(f"{bundle}: there is no bundle")
        outcome = _proof(now, config.data)
    else:
        other = TrialSide(candidate, candidate_state, bundle)
        terms = TrialTerms(compare, margin, slower, larger)
        outside = candidate if candidate != bundle else None
        outcome = _trial(now, other, (outside, name), config.data, terms)
    if as_json:
        click.echo(json.dumps(asdict(outcome)))
    if outcome.reason:
        raise Unfit(f"{outcome.reason}: {outcome.words}")
    if not as_json:
        click.echo(_sentence(outcome))


def _trial(
    now: Any,
    other: Any,
    outside: tuple[Path | None, str],
    section: DataSection,
    terms: TrialTerms,
) -> TrialOutcome:
    from edge_agent.inference import sandbox
    from edge_agent.inference.bundle import open_bundle
    from edge_agent.trials import comparison
    from edge_agent.trials.progress import TrialOutcome, verdict
    from protofleet.exchange.archive import BundleError
    from protofleet.wire.codes import Setback

    path, name = outside
    try:
        if path is not None:
            sandbox.tried(path, name)
        if not terms.compare:
            return TrialOutcome()
        kinds = [open_bundle(c.bundle).manifest.input for c in (now, other) if c is not None]
    except BundleError as error:
        return TrialOutcome(str(Setback.BUNDLE), str(error))
    pictures = shared([_pictures(section, kind) for kind in kinds])
    if now is None:
        after = comparison.run(other, pictures, 0.0)
        return TrialOutcome(after.reason, after.words) if after.reason else TrialOutcome()
    before = comparison.run(now, pictures, None)
    budget = comparison.TIMES * before.in_all if not before.reason else 0.0
    after = comparison.run(other, pictures, budget)
    if after.reason:
        return TrialOutcome(after.reason, after.words)
    if before.reason:  # what cannot answer here any more is no measure
        return TrialOutcome()
    figures = comparison.figures_of(pictures, before, after)
    costs = {"seconds": (before.seconds, after.seconds), "bytes": (before.bytes, after.bytes)}
    return verdict(terms, figures, costs)


def _proof(now: Any, section: DataSection) -> TrialOutcome:
    """A start from nothing but the disk."""
    from edge_agent.inference.bundle import open_bundle
    from edge_agent.trials import comparison
    from edge_agent.trials.progress import TrialOutcome
    from protofleet.exchange.archive import BundleError
    from protofleet.wire.codes import Setback

    try:
        pictures = _pictures(section, open_bundle(now.bundle).manifest.input)
    except BundleError as error:
        return TrialOutcome(str(Setback.BUNDLE), str(error))
    after = comparison.run(now, pictures, 0.0)
    return TrialOutcome(after.reason, after.words)


def shared(by_kind: list[list[TrialPicture]]) -> list[TrialPicture]:
    """Pictures that are read for either of two extractors, each at its own size."""
    from dataclasses import replace

    if len(by_kind) == 1:
        return by_kind[0]
    others = {picture.key: picture for picture in by_kind[1]}
    pairs = [(one, others[one.key]) for one in by_kind[0] if one.key in others]
    return [replace(one, read=_either(one, other)) for one, other in pairs]


def _either(one: TrialPicture, other: TrialPicture) -> Any:
    from protofleet.errors import DataError

    def read(kind: Any) -> Any:
        try:
            return one.read(kind)
        except DataError:
            return other.read(kind)

    return read


def _pictures(section: DataSection, kind: Any) -> list[TrialPicture]:
    from edge_agent.trials.specimens import of_device

    where = os.environ.get("PROTOFLEET_DATA")
    return of_device(section, Path(where) if where else None, kind)


def _beside(bundle: Path) -> Path | None:
    from edge_agent.updates import cache

    path = cache.state_file(bundle)
    return path if path.exists() else None


def _sentence(outcome: TrialOutcome) -> str:
    figures = outcome.figures
    if not figures.pictures:
        return "it stands; there was nothing to compare on"
    words = f"{figures.alike} of {figures.pictures} pictures answered alike"
    if figures.samples:
        words += f"; right on {figures.before} before and {figures.after} after"
        words += f" of {figures.samples} samples ({figures.kept} of them held back)"
    return f"it holds: {words}; {figures.slower:.2f} × the time, {figures.larger:.2f} × the memory"
