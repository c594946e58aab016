"""`coordinator freeze`: one extractor for the whole fleet, rolled out, and the means of every
device through it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import click

from coordinator.cli.classes_cmd import echo_classes
from coordinator.cli.live_cmd import where
from coordinator.service.control import ask
from protofleet.errors import DataError, UsageError
from protofleet.exchange import archive
from protofleet.util.files import new_file
from protofleet.util.processes import without_secrets

NAP = 0.2
WEIGHTS = (".pt", ".pth")


@click.command()
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option("--backbone", help="Where SOURCE is a file of weights: whose they are.")
@click.option(
    "--data",
    help="And what its first prototypes are means of: a folder, an .npz or a data set's name.",
)
@click.option(
    "--wait", default=0.0, show_default=True, help="Seconds to wait for the devices' class means."
)
@where
def freeze(
    source: Path, backbone: str | None, data: str | None, wait: float, data_dir: Path, as_json: bool
) -> None:
    """Make SOURCE's extractor the whole fleet's, whatever the run goes on to learn.

    SOURCE is a bundle (a folder or a .pfb file), or what `protofleet export` takes: a run's
    directory, one of its checkpoints, or a file of pretrained weights (.pt) with --backbone and
    --data. The bundle is announced on the channel; devices fetch it, test it, and send their class
    means through it, which become the fleet's prototypes. `coordinator classes back` returns to an
    earlier version.
    """
    weights = source.suffix in WEIGHTS
    if weights != bool(backbone) or weights != bool(data):
        raise UsageError(
            "--backbone and --data go with a file of weights (.pt, .pth), and with nothing else"
        )
    how = (
        ["--weights", source, "--backbone", backbone, "--data", data]
        if weights
        else ["--freeze", "--from", source]
    )
    with bundle_file(source, data_dir, how) as file:
        listing = ask(data_dir, "classes", what="freeze", file=str(file.resolve()))
    end = time.monotonic() + wait
    while wait and listing["awaited"] and time.monotonic() < end:
        time.sleep(NAP)
        listing = ask(data_dir, "classes", what="list")
    echo_classes(listing, as_json)


@contextmanager
def bundle_file(source: Path, data_dir: Path, how: Sequence[object]) -> Iterator[Path]:
    """The bundle as one file in the coordinator's own directory, which is all that it may be
    allowed to read.
    """
    fleet = ask(data_dir, "status")["fleet"]  # and nothing is written where nobody is
    file = data_dir / f"frozen-{token_hex(4)}{archive.SUFFIX}"
    try:
        if source.suffix in WEIGHTS or (
            source.is_dir() and not (source / archive.MANIFEST).exists()
        ):
            export(source, [*how, "--fleet", fleet, "--out", file])
        else:
            with new_file(file) as out:
                out.write(archive.packed_bytes(source))
        yield file
    except OSError as error:
        raise DataError(f"{data_dir} cannot be written: {error.strerror}") from None
    finally:
        file.unlink(missing_ok=True)


def export(source: Path, how: Sequence[object]) -> None:
    """An extractor as a bundle, by the export room's own command: a coordinator has no torch."""
    words = [sys.executable, "-m", "protofleet", "export", *map(str, how)]
    environ = without_secrets(os.environ)
    run = subprocess.run(words, capture_output=True, text=True, check=False, env=environ)
    if run.returncode:
        # The command's own line without its prefix and code: this error adds its own.
        last = (run.stderr.strip() or "error: no word why").splitlines()[-1]
        why = re.sub(r"^error: | \([a-z-]+\)$", "", last)
        raise DataError(f"{source} is no bundle and cannot be exported: {why}")
