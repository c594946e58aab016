"""`protofleet conformance`: a client in any language, held to what a bundle answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from export.conformance.document import Pixels

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
LINES = 20  # of differences that are named
LONGER = 320  # pixels of a photo's longer side
PHOTOS = 40  # of a folder: a conformance folder is small


@click.group()
def conformance() -> None:
    """Hold a client in any language to a bundle's answers.

    \b
    protofleet conformance write --bundle fashion.pfb --out held
    my-client held > answers.json
    protofleet conformance check held answers.json
    """


@conformance.command()
@click.option(
    "--bundle",
    required=True,
    type=click.Path(exists=True, path_type=Path),
    help="Whose answers: a folder or a file NAME.pfb.",
)
@click.option(
    "--photos",
    type=FOLDER,
    help="Photos to ask as well, at most 40; others are made up anyway.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The folder, new.")
def write(bundle: Path, photos: Path | None, out: Path) -> None:
    """Write the folder: bundle, photos, prototypes, and the answers that are due."""
    from edge_agent.inference.bundle import open_bundle
    from export.conformance import document
    from protofleet.errors import UsageError

    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty", "name another --out")
    files = document.folder(open_bundle(bundle), [] if photos is None else _pixels(photos))
    for name, data in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(data)
    asked = document.read(out)
    click.echo(
        f"{out}: {len(asked['inputs'])} inputs, {len(asked['states'])} states, "
        f"{len(asked['refused'])} to refuse, {sum(map(len, files.values())):,} bytes"
    )


@conformance.command()
@click.argument("folder", type=FOLDER)
@click.argument("answers", type=click.File("r"))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def check(folder: Path, answers: Any, as_json: bool) -> None:
    """Compare a client's answers with those that are due; exit code 1 where they differ."""
    from export.conformance.comparison import differences
    from export.conformance.document import read
    from protofleet.errors import DataError

    expected = read(folder)
    try:
        given = json.load(answers)
    except ValueError as error:
        raise DataError(f"{answers.name} is no JSON: {error}") from None
    apart = differences(given, expected)
    asked = len(expected["inputs"]) * len(expected["states"])
    if as_json:
        click.echo(json.dumps({"answers": asked, "differences": apart}, indent=1))
    elif apart:
        for line in apart[:LINES]:
            click.echo(line)
        click.echo(f"{len(apart)} differences in {asked} answers")
    else:
        click.echo(f"{asked} answers agree")
    if apart:
        raise SystemExit(1)


@conformance.command()
@click.argument("folder", type=FOLDER)
def answer(folder: Path) -> None:
    """What Python answers, in the form that `check` takes."""
    from export.conformance.document import answered

    click.echo(json.dumps(answered(folder)))


def _pixels(photos: Path) -> Iterator[Pixels]:
    from edge_agent.data import files, images

    for path in images.find([photos])[:PHOTOS]:
        yield files.picture(path, LONGER)
