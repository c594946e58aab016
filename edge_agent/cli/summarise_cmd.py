"""`edge-agent summarise`: what this device contributes through the fleet's extractor."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_agent.cli.common import device_options, settings, warned
from edge_agent.cli.infer_cmd import bundle_option
from protofleet.errors import DataError, FleetError
from protofleet.exchange.archive import BundleError
from protofleet.util.allocator import give_freed_memory_back, keep_no_large_block

if TYPE_CHECKING:
    from edge_agent.contributing.statement import Spoken, Statement
    from edge_agent.data.labelled import LabelledSample
    from edge_agent.inference.bundle import Manifest

MOST_NAMED = 20  # classes in one line


@click.command()
@bundle_option
@click.option(
    "--offer",
    "url",
    metavar="URL",
    help="Send it to the coordinator at this broker (mqtt://host).",
)
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    help="The bundle came from outside: try it first, apart from all else, and move it here.",
)
@click.option("--name", default="", help="What a bundle from outside is to be: its digest.")
@click.option("--run", "run", default="", help="The coordinator's run; by default the bundle's.")
@click.option(
    "--minimum", default=5, show_default=True, type=click.IntRange(1), help="Samples of a class."
)
@click.option(
    "--changed",
    default=5,
    show_default=True,
    type=click.IntRange(1),
    help="Samples of a class that must have changed before it is said anew.",
)
@click.option(
    "--rank",
    default=256,
    show_default=True,
    type=click.IntRange(0, 1024),
    help="Directions of the samples' spread: about a byte each for every number of a feature.",
)
@click.option(
    "--covariance",
    type=click.Choice(["open", "off"]),
    default="open",
    show_default=True,
    help="off: of the spread its size alone is said, and --rank says nothing.",
)
@click.option(
    "--total",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Count the samples against this total, too.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@device_options
def summarise(
    bundle: Path,
    url: str | None,
    to: Path | None,
    name: str,
    run: str,
    total: Path | None,
    as_json: bool,
    file: Path | None,
    **flags: Any,
) -> None:
    """Say what this device's labelled samples are like through the BUNDLE's extractor: no training,
    and no torch.

    Means of its classes, and their spread; not one sample. What the devices of a fleet say adds up
    to its classifier. A device that is part of a live fleet (`edge-agent run`) does this by itself.
    The message stays beside the bundle, and with --offer goes to the coordinator.
    """
    # Before numpy is imported: one thread, whose sums are the same wherever they are made.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from edge_agent.config import need_source
    from edge_agent.contributing.rules import SpeechRules
    from edge_agent.contributing.statement import Speaker, SpeechSettings
    from edge_agent.data import labelled
    from edge_agent.inference import sandbox
    from edge_agent.inference.bundle import open_bundle

    config = need_source(settings(file, flags))
    os.nice(config.limits.nice)  # it works beside its owner's work
    keep_no_large_block()
    if to is not None:
        sandbox.tried(bundle, name)
    try:
        path, kind = to or bundle, open_bundle(bundle).manifest.input
    except BundleError:
        if as_json:  # the daemon fetches it anew
            click.echo(json.dumps({"damaged": True}))
        raise
    where = os.environ.get("PROTOFLEET_DATA")
    samples = partial(labelled.samples, config.data, Path(where) if where else None, kind)
    if path != bundle:
        _in_a_child(lambda: _embed(bundle, path, samples))
    statement, manifest = _opened(path)
    lacking = statement.lacks(samples())
    if lacking:
        _in_a_child(lambda: _embed(path, path, samples))
    speaker = Speaker(flags.get("fleet") or manifest.fleet, config.id, run or manifest.run)
    rules = SpeechRules(flags["minimum"], flags["changed"])
    terms = SpeechSettings(rules, flags["rank"], flags["covariance"])
    spoken = statement.speak(samples(), terms, speaker)
    document: dict[str, Any] = {
        "samples": spoken.samples,
        "classes": list(spoken.classes),
        "new": spoken.new,
        "notices": _notices(spoken, rules.minimum),
    }
    if total is not None and spoken.samples:
        document["total"] = statement.count(total.read_bytes(), speaker)
    if not spoken.samples and not as_json:
        raise DataError(_nothing(spoken, rules.minimum))
    message = statement.contribution
    if url is not None:
        from edge_agent.updates.offer import offer

        broker = warned(replace(config.broker, url=url).address(os.environ))
        answer = offer(message.read_bytes(), broker, speaker.fleet, config.id)
        document |= {"status": answer.status, "words": answer.words}
        if answer.status not in ("accepted", "duplicate"):
            raise FleetError(f"the coordinator does not take it: {answer.words}")
    lines = [_sentence(spoken), *_notices(spoken, rules.minimum)]
    lines.append(f"{message}: {message.stat().st_size} bytes" if url is None else "taken")
    click.echo(json.dumps(document) if as_json else "\n".join(lines))


def _opened(path: Path) -> tuple[Statement, Manifest]:
    """What is said under this bundle's extractor, and the bundle without the graph's bytes."""
    from edge_agent.contributing.statement import Statement
    from edge_agent.inference.bundle import open_bundle

    bundle = open_bundle(path)
    if not bundle.manifest.lineages[0].startswith("extractor:"):
        raise DataError(
            "this bundle's extractor is one device's own: what it sees does not add up",
            "an extractor for all: protofleet extractor, or export --freeze",
        )
    return Statement(path, bundle), bundle.manifest


def _embed(bundle: Path, path: Path, samples: Callable[[], Iterable[LabelledSample]]) -> None:
    """Look at what was not looked at yet; a bundle that is new is tested, and moved to its path."""
    from edge_agent.contributing.statement import Statement
    from edge_agent.inference.classifier import Classifier

    classifier = Classifier(bundle)
    # Only now: what does not stand must not be moved to where the next start looks for it.
    if path != bundle:
        bundle.replace(path)
    Statement(path, classifier.bundle).embed(samples(), classifier.embed)


def _in_a_child(work: Callable[[], None]) -> None:
    """In a process of its own: the runtime's memory is gone when sums are made, which take as much
    again.
    """
    give_freed_memory_back()
    child = os.fork()
    if not child:
        work()
        os._exit(0)  # an error leaves as it does from any command
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        raise FleetError("the samples could not be looked at: the process was killed")
    if code:
        raise click.exceptions.Exit(code)


def _sentence(spoken: Spoken) -> str:
    classes, new = len(spoken.classes), "" if spoken.new else "; nothing changed since"
    return f"{spoken.samples} samples of {classes} classes{new}"


def _notices(spoken: Spoken, minimum: int) -> list[str]:
    """What the owner should know of samples that are not in it."""
    lines = []
    if spoken.short:
        some = list(spoken.short.items())[:MOST_NAMED]
        few = ", ".join(f"{name} ({count})" for name, count in some)
        few += " …" if len(spoken.short) > len(some) else ""
        lines.append(f"left out, because {minimum} samples of a class are due: {few}")
    if spoken.broken:
        lines.append(f"{len(spoken.broken)} files cannot be read: {spoken.broken[0]}")
    return lines


def _nothing(spoken: Spoken, minimum: int) -> str:
    return "; ".join(["no class with enough samples", *_notices(spoken, minimum)])
