"""`coordinator classes` and `coordinator freeze`: what the fleet's devices know, by name."""

from __future__ import annotations

import json
import zipfile
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import click

from coordinator.cli.live_cmd import where
from coordinator.control import ask
from protofleet.errors import DataError


@click.group()
def classes() -> None:
    """The classes that devices tell apart: list, admit, rename, remove, go back."""


@classes.command(name="list")
@where
def show(data_dir: Path, as_json: bool) -> None:
    """Every class, those that wait, and every earlier version."""
    _said(ask(data_dir, "classes", what="list"), as_json)


@classes.command()
@click.argument("name")
@where
def admit(name: str, data_dir: Path, as_json: bool) -> None:
    """Let a class in that waits (policy manual)."""
    _said(ask(data_dir, "classes", what="admit", name=name), as_json)


@classes.command()
@click.argument("name")
@where
def remove(name: str, data_dir: Path, as_json: bool) -> None:
    """Take a class off every following device."""
    _said(ask(data_dir, "classes", what="remove", name=name), as_json)


@classes.command()
@click.argument("name")
@click.argument("to")
@where
def rename(name: str, to: str, data_dir: Path, as_json: bool) -> None:
    """Call a class something else, on every following device."""
    _said(ask(data_dir, "classes", what="rename", name=name, to=to), as_json)


@classes.command()
@click.argument("version", type=int)
@where
def back(version: int, data_dir: Path, as_json: bool) -> None:
    """Go back to an earlier version; the versions since stay in the list."""
    _said(ask(data_dir, "classes", what="back", version=version), as_json)


@click.command()
@click.argument("bundle", type=click.Path(exists=True, path_type=Path))
@where
def freeze(bundle: Path, data_dir: Path, as_json: bool) -> None:
    """From now on publish BUNDLE's prototypes and take new classes of its extractor, whatever the run goes on to learn.

    Every device that classifies with this bundle then has one lineage; `classes back 0` returns to the run's own.
    """
    try:
        if bundle.is_dir():
            manifest, prototypes = (bundle / "manifest.json").read_bytes(), (bundle / "prototypes.cbor").read_bytes()
        else:
            with zipfile.ZipFile(bundle) as packed:
                manifest, prototypes = packed.read("manifest.json"), packed.read("prototypes.cbor")
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{bundle}: not a bundle ({error})", "`protofleet export` writes one") from None
    digest = sha256(manifest).hexdigest()
    found = ask(data_dir, "classes", what="freeze", prototypes=b64encode(prototypes).decode(), bundle=digest)
    _said(found, as_json)


def _said(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    click.echo(f"lineage {found['lineage'] or 'none yet'}, new classes: {found['policy']}")
    if found["summaries"]:
        click.echo(f"means of {found['summaries']} devices")
    for row in found["classes"]:
        note = "enrolled" if row["enrolled"] else "" if row["rows"] else "not known yet"
        click.echo(f"  {row['name']:<24} {row['rows']:>3} prototypes  {note}".rstrip())
    for name in found["waiting"]:
        click.echo(f"  {name:<24} waits: coordinator classes admit {name!r}")
    for row in found["versions"]:
        click.echo(f"version {row['version']}: {row['why']}")
