"""`coordinator freeze`: one extractor for the whole fleet, rolled out, and what every device says
of its samples through it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import click

from coordinator.cli.classes_cmd import echo_classes
from coordinator.cli.live_cmd import where
from coordinator.service import extractors
from coordinator.service.control import ask
from protofleet.errors import DataError, FleetError, UsageError
from protofleet.exchange import archive
from protofleet.util.files import new_file

NAP = 0.2
NAMED = 10  # devices, with what is known of each
NETWORKS = (".pt", ".pth", ".onnx")


@click.command()
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--wait", default=0.0, show_default=True, help="Seconds to wait for the devices' contributions."
)
@click.option(
    "--if-better",
    is_flag=True,
    help="Only if the bundle's own fleet counted better than this one under the extractor that "
    "it has (method grow).",
)
@where
def freeze(source: Path, wait: float, if_better: bool, data_dir: Path, as_json: bool) -> None:
    """Make SOURCE's extractor the whole fleet's, whatever the run goes on to learn.

    SOURCE is a bundle (a folder or a .pfb file; `protofleet extractor` makes one of any network),
    or what `protofleet export` takes: a run's directory or one of its checkpoints. The bundle is
    announced on the channel; devices fetch it, test it, and contribute what they see through it,
    which adds up to the fleet's classifier. `coordinator classes back` returns to an earlier one.

    This is a rollout of one group, the whole fleet: where most devices refuse the bundle, all go
    back to what they had. `coordinator rollout start` brings it to a few devices first.
    """
    if source.suffix in NETWORKS:
        raise UsageError(
            f"{source} is no bundle", "`protofleet extractor` makes one of weights or an ONNX file"
        )
    with bundle_file(source, data_dir) as file:
        arguments = {"file": str(file.resolve()), "if_better": if_better}
        listing = ask(data_dir, "classes", what="freeze", **arguments)
    end, refusals = time.monotonic() + wait, dict[str, str]()
    while wait and listing["awaited"] and time.monotonic() < end:
        time.sleep(NAP)
        refusals = _refusals(ask(data_dir, "rollout", what="status"))
        listing = ask(data_dir, "classes", what="list")
        if set(listing["awaited"]) <= refusals.keys():
            break
    echo_classes(listing, as_json)
    if refusals:
        words = "; ".join(f"{agent}: {why}" for agent, why in list(refusals.items())[:NAMED])
        raise FleetError(f"{len(refusals)} devices do not take it: {words}")
    if wait and listing["awaited"]:
        raise FleetError(_why_not(listing["awaited"], ask(data_dir, "agents")["agents"]))


def _why_not(awaited: list[str], rows: list[dict[str, Any]]) -> str:
    """Who contributed nothing, and what is known of it."""
    by_name = {row["agent"]: row for row in rows}
    words = []
    for agent in awaited[:NAMED]:
        row = by_name.get(agent, {})
        reasons = row.get("refused"), row.get("notice")
        reason = next(filter(None, reasons), "silent" if row.get("gone") else "nothing yet")
        words.append(f"{agent}: {reason}")
    more = [f"and {len(awaited) - NAMED} more"] * (len(awaited) > NAMED)
    return f"{len(awaited)} devices did not contribute in time: {'; '.join([*words, *more])}"


def _refusals(document: dict[str, Any]) -> dict[str, str]:
    """Who does not take what was rolled out last, and why; the whole, where it went back."""
    fallen = {d["agent"]: d["words"] for d in document["devices"] if d["is"] == "failed"}
    return fallen if document["rollout"] else {}


@contextmanager
def bundle_file(source: Path, data_dir: Path) -> Iterator[Path]:
    """The bundle as one file in the coordinator's own directory, which is all that it may be
    allowed to read.
    """
    ask(data_dir, "status")  # nothing is written where nobody is
    file = data_dir / f"frozen-{token_hex(4)}{archive.SUFFIX}"
    try:
        if source.is_dir() and not (source / archive.MANIFEST).exists():
            extractors.export(source, file)
        else:
            with new_file(file) as out:
                out.write(archive.packed_bytes(source))
        yield file
    except OSError as error:
        raise DataError(f"{data_dir} cannot be written: {error.strerror}") from None
    finally:
        file.unlink(missing_ok=True)
