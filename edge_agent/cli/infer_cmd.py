"""`edge-agent infer`: classify photos with a bundle, once or as they come, with prototypes fresh
from the fleet.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from edge_agent.cli.common import warned
from protofleet.errors import DataError, FleetError, UsageError
from protofleet.util.logs import printable

if TYPE_CHECKING:
    from edge_agent.inference.classifier import Answer, Classifier, InUse
    from edge_agent.recent.memory import Memory, View
    from protofleet.contract import Input
    from protofleet.mqtt.address import Address

    Reach = Callable[[str], Address]

F = TypeVar("F", bound=Callable[..., Any])
AT_ONCE = 32  # photos in memory
SHARE = 0.75  # of the machine's memory, where bundles are others'
NAP = 0.5  # seconds between two looks at a watched folder

bundle_option = click.option(
    "--bundle",
    required=True,
    type=click.Path(path_type=Path),
    help="A bundle's folder or .pfb file.",
)
follow_option = click.option(
    "--follow",
    metavar="URL",
    help="Keep prototypes fresh from the fleet at this broker (mqtt://host).",
)
channel_option = click.option(
    "--channel", default="stable", show_default=True, help="Which of the fleet's channels."
)
fleet_option = click.option("--fleet", help="The fleet's name; by default the bundle's own.")
fetch_option = click.option(
    "--fetch/--no-fetch",
    default=True,
    show_default=True,
    help="Where the channel names a bundle of another extractor: take that one, or stay with this.",
)


def broker_options(command: F) -> F:
    """What a broker may ask for; the command gets `reach`, which makes an address of a URL."""

    @wraps(command)
    def with_reach(
        credentials: str, ca: str, cert: str, key: str, member: str, **others: Any
    ) -> Any:
        from protofleet.member import membership

        def reach(url: str) -> Address:
            from protofleet.settings.broker import BrokerSection

            section = BrokerSection(url, credentials, ca, cert, key)
            return warned(membership.reached(section, member, os.environ))

        # Where a command has this device's name, it is the one that it joined by.
        if member and others.get("agent", "") is None:
            joined = membership.of_folder(Path(member))
            others["agent"] = None if joined is None else joined.name
        return command(reach=reach, **others)

    for name, help in (
        ("member", "The data directory of this device, where it joined a fleet by invitation."),
        ("key", "The file with its key."),
        ("cert", "A file with this device's certificate, where the broker asks for one."),
        ("ca", "A file with the authority that signed the broker's certificate."),
        ("credentials", "A file with user name and password for the broker."),
    ):
        with_reach = click.option(f"--{name}", default="", metavar="PATH", help=help)(with_reach)
    return cast(F, with_reach)


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@bundle_option
@click.option(
    "--top", default=1, show_default=True, type=click.IntRange(1), help="So many classes a photo."
)
@click.option("--unknown", is_flag=True, help="Give no label to what is like none of the classes.")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1))
@click.option(
    "--watch",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Classify what appears here.",
)
@click.option("--stdin", "from_stdin", is_flag=True, help="Paths come on stdin, one a line.")
@follow_option
@channel_option
@fetch_option
@fleet_option
@click.option(
    "--collect/--no-collect",
    default=None,
    help="Keep what is unknown or unsure for `edge-agent serve` and `unknowns`; by default with "
    "--watch.",
)
@click.option(
    "--prior",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SAMPLES",
    help="What this device labelled often is likely: by its own counts, and so many samples more "
    "of each class (2 is usual).",
)
@click.option(
    "--memory-mb",
    type=click.IntRange(0),
    help="Most memory that bundle and photos may take, 0: all; by default three quarters of the "
    "machine's with --follow, whose bundles are others'.",
)
@broker_options
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON document; with --watch or --stdin one a line."
)
def infer(
    paths: tuple[Path, ...],
    bundle: Path,
    top: int,
    unknown: bool,
    threads: int,
    watch: Path | None,
    from_stdin: bool,
    follow: str | None,
    channel: str,
    fetch: bool,
    fleet: str | None,
    collect: bool | None,
    prior: float | None,
    memory_mb: int | None,
    as_json: bool,
    reach: Reach,
) -> None:
    """Classify photos: PATHS are files or folders.

    Where the bundle takes vectors or series they are files of numbers, a sample each: .csv, a line
    a moment, or .npy.
    """
    # Before all that imports numpy: it keeps that to one thread.
    from edge_agent.inference.classifier import Classifier

    endless = watch is not None or from_stdin
    if bool(paths) + (watch is not None) + from_stdin != 1:
        raise UsageError("one of PATHS, --watch and --stdin is due")
    from edge_agent.data import images
    from edge_agent.updates.cache import settled
    from edge_agent.updates.freshness import Freshness, kept_by_daemon
    from edge_agent.updates.uses import AnswerCount
    from protofleet.exchange import archive
    from protofleet.exchange.published import STABLE

    bound(memory_mb, others=follow is not None)
    uses = AnswerCount(bundle)
    if endless:
        uses.begin(archive.name_of(bundle))
    with ExitStack() as stack:
        classifier = Classifier(bundle, threads=threads, unknown=unknown)
        if follow and not (channel == STABLE and kept_by_daemon(bundle)):
            from edge_agent.updates.listener import Channel, following

            source = Channel(reach(follow), channel, fleet)
            stack.enter_context(
                following(classifier, bundle, source, wait=not endless, fetch=fetch)
            )
        else:
            settled(classifier, bundle)
        expect(classifier, bundle, prior)
        keep = watch is not None if collect is None else collect
        # Whoever watches and follows has time, the first classes may be on their way; and what is
        # kept is what a person is going to name.
        if not classifier.loaded.labels and not (endless and follow) and not keep:
            raise NoClass(str(bundle))
        memory = _memory(bundle, stack) if keep else None
        if not endless:
            kind = classifier.bundle.manifest.input
            rows = list(answers(classifier, images.find(paths, kind), top, memory))
            click.echo(
                json.dumps({"state": classifier.loaded.state, "answers": rows}, indent=1)
                if as_json
                else table(rows)
            )
            return
        fresh = Freshness(bundle)
        uses.ready()
        kind = classifier.bundle.manifest.input
        for batch in appearing(watch, kind) if watch is not None else from_lines(sys.stdin):
            # A daemon beside it keeps the same files up to date, and a person may have enrolled a
            # class since.
            if fresh.changed():
                fresh.settle(classifier, uses)
            expect(classifier, bundle, prior)
            uses.asking(classifier.bundle.digest)
            for row in answers(classifier, batch, top, memory):
                click.echo(json.dumps(row) if as_json else table([row]))
            uses.answered(classifier.bundle.digest, len(batch))
            # A program at the other end of a pipe waits for this answer before it asks on.
            sys.stdout.flush()


def bound(memory_mb: int | None, *, others: bool) -> None:
    """How much memory this process may take: what a graph takes may depend on the picture, and a
    bundle that passed its test on one may take all there is on another.
    """
    import resource

    from edge_agent.inference.sandbox import machine_memory

    usual = int(SHARE * machine_memory()) if others else 0
    most = usual if memory_mb is None else memory_mb << 20
    if most:
        # Data and not address space: libraries map far more than they ever touch.
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))


def expect(classifier: Classifier, bundle: Path, smooth: float | None) -> None:
    """Classes that this device labelled are likely, if that was asked for."""
    if smooth is not None:
        from edge_agent.contributing import statement
        from edge_agent.inference.classifier import OwnPrior

        folder = statement.folder_of(bundle, classifier.bundle.manifest.lineages[0])
        classifier.expect(OwnPrior(statement.labelled(folder), smooth))


class NoClass(FleetError):
    """An extractor that nobody has shown anything yet."""

    code = "no-class"

    def __init__(self, bundle: str) -> None:
        super().__init__(
            f"{bundle} is an extractor: it sees, but knows no class yet",
            f"edge-agent enroll --bundle {bundle} --label NAME PHOTOS, "
            "or --follow a fleet that has classes",
        )


def _memory(bundle: Path, stack: ExitStack) -> Memory:
    """What is seen is remembered until the stack ends."""
    from edge_agent.recent.memory import Memory

    memory = Memory(bundle)
    stack.callback(memory.save)
    return memory


def answers(
    classifier: Classifier, files: list[Path], top: int, memory: Memory | None = None
) -> Iterator[dict[str, Any]]:
    """One document a photo; a file that cannot be read has an error instead of a label."""
    from edge_agent.data import images

    for start in range(0, len(files), AT_ONCE):
        # For photos read at its size, even if another bundle comes meanwhile.
        now = classifier.in_use
        kind, far = now.bundle.manifest.input, now.loaded.bank.kind == "prototypes"
        batch = files[start : start + AT_ONCE]
        photos: dict[Path, Any] = {}
        errors: dict[Path, str] = {}
        for path in batch:
            try:
                photos[path] = images.read(path, kind)
            except DataError as error:
                errors[path] = str(error)
        # While a fleet's first classes are awaited there is no answer, but a reason.
        if not now.loaded.labels:
            errors = dict.fromkeys(batch, "no class is known yet")
        looked = _looked(now, photos, errors)
        for path in batch:
            if memory is not None and path in looked:
                memory.add(now, *looked[path], view(path, kind))
            if path in errors:
                yield {"path": str(path), "label": None, "error": errors[path]}
                continue
            answer, row = looked[path]
            # The square of a distance from the score that leaves the feature's own part out.
            square = float((answer.features[row] ** 2).sum())
            best: list[dict[str, Any]] = [
                {"label": label, "score": score}
                | ({"distance": max(square - score, 0.0) ** 0.5} if far else {})
                for label, score in answer.top(row, top)
            ]
            judged: dict[str, Any] = {}
            if answer.probabilities is not None:
                shares = dict(zip(answer.labels, answer.probabilities[row].tolist(), strict=True))
                best = [one | {"probability": shares[one["label"]]} for one in best]
                judged["probability"] = best[0]["probability"]
            if answer.unknown is not None:
                judged["unknown"] = bool(answer.unknown[row])
            yield {"path": str(path), "label": answer.best[row], **judged, "top": best}


def view(path: Path, kind: Input) -> View:
    """A file as it is remembered."""
    from edge_agent.recent import pictures
    from edge_agent.recent.memory import View

    is_image = kind.kind == "image"
    return View(lambda: pictures.of_file(path) if is_image else b"", path.name)


def _looked(
    now: InUse, photos: dict[Path, Any], errors: dict[Path, str]
) -> dict[Path, tuple[Answer, int]]:
    """What is seen in each, as a row of an answer; of those that the bundle's graph stumbles over
    there is an error.
    """
    import numpy as np

    from protofleet.exchange.archive import BundleError

    if not photos:
        return {}
    try:
        answer = now.look(np.stack(list(photos.values())))
    except BundleError as error:
        if len(photos) == 1:
            errors |= dict.fromkeys(photos, str(error))
            return {}
        alone = [_looked(now, {path: photo}, errors) for path, photo in photos.items()]
        return {path: row for one in alone for path, row in one.items()}
    return {path: (answer, row) for row, path in enumerate(photos)}


def table(rows: list[dict[str, Any]]) -> str:
    """A line a photo."""
    lines = []
    for row in rows:
        if "error" in row:
            lines.append(printable(f"{row['path']}  {row['error']}"))
            continue
        ranking = "  ".join(_ranked(best) for best in row["top"])
        # The ranking stays: a person may know better.
        none = "unknown, nearest " if row.get("unknown") else ""
        lines.append(printable(f"{row['path']}  {none}{ranking}"))
    return "\n".join(lines)


def _ranked(best: dict[str, Any]) -> str:
    if "probability" in best:
        return f"{best['label']} ({100 * best['probability']:.1f} %)"
    kind = "distance" if "distance" in best else "score"
    return f"{best['label']} ({kind} {best[kind]:.3f})"


def from_lines(lines: Iterable[str]) -> Iterator[list[Path]]:
    """Paths as they come."""
    for line in lines:
        if line.strip():
            yield [Path(line.strip())]


def appearing(folder: Path, kind: Input) -> Iterator[list[Path]]:
    """What is in the folder, then what is new or written anew in it; a file is read once it stays
    as it is.
    """
    from edge_agent.data.arrivals import Arrivals

    arrivals = Arrivals(folder, kind)
    while True:
        fresh = arrivals.look()
        if fresh:
            yield fresh
        time.sleep(NAP)
