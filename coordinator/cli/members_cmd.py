"""`coordinator invite`, `devices`, `revoke`, `keys`: who belongs to a fleet by invitation."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from coordinator.config import DEFAULT, Household, household
from protofleet.errors import TrustError, UsageError
from protofleet.util import files
from protofleet.util.logs import printable

if TYPE_CHECKING:
    from coordinator.members.office import Office

F = Callable[..., Any]
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
VERDICTS = {
    "here": "holds",
    "gone": "holds; its bytes are not here any more, or were not taken",
    "unsigned": "nobody signed it",
    "forged": "DOES NOT HOLD:",
}
LONGEST = 30 * 86_400  # seconds: what lies about for longer is nobody's any more


def of_fleet(command: F) -> F:
    """The options of commands on a fleet's members; they work whether the service runs or not."""

    @wraps(command)
    def with_home(config: Path | None, data_dir: Path | None, **others: Any) -> Any:
        file = DEFAULT if config is None and DEFAULT.exists() else config
        return command(home=household(file, os.environ, data_dir), **others)

    options = (
        click.option("--config", type=click.Path(path_type=Path), help="By default ./fleet.toml."),
        click.option(
            "--data-dir",
            type=click.Path(path_type=Path),
            help="The coordinator's. By default as the settings have it.",
        ),
    )
    for option in options:
        with_home = option(with_home)
    return cast(F, with_home)


@click.command()
@click.argument("name")
@click.option(
    "--class-of",
    "several",
    type=click.IntRange(1, 100_000),
    help="For so many: NAME-1, NAME-2, ...",
)
@click.option("--expires", default="1h", show_default=True, help="As 30m, 1h or 7d.")
@of_fleet
def invite(name: str, several: int | None, expires: str, home: Household) -> None:
    """Print a token with which the device NAME joins the fleet, once.

    The first invitation makes the fleet's authority and keys: from then on it goes by invitation.
    """
    from coordinator.members.office import Reach, is_by_invitation

    seconds = duration(expires)
    new = not is_by_invitation(home.data_dir)
    running = not files.free(home.data_dir)
    with_office = _opened(home)
    try:
        reach = Reach(*home.reach)
        click.echo(with_office.invite(name, several or 0, seconds, reach))
    finally:
        with_office.close()
    whom = name if several is None else f"{several} devices {name}-1 ..."
    click.echo(f"for {whom} of {home.fleet}, until {_when(time.time() + seconds)}:", err=True)
    click.echo("  edge-agent join TOKEN", err=True)
    if new and running:
        click.echo("start the coordinator again: the fleet goes by invitation now", err=True)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@of_fleet
def devices(as_json: bool, home: Household) -> None:
    """Members and open invitations: since when, until when, and who was revoked."""
    office = _existing(home)
    try:
        members, invitations = office.registry.members(), office.registry.invitations()
        used = {m.invitation for m in members}
        waiting = [
            i for i in invitations if i.expires > time.time() and (i.several or i.id not in used)
        ]
    finally:
        office.close()
    if as_json:
        rows = [
            {
                "name": m.name,
                "key": m.key.hex(),
                "joined": m.joined,
                "certificate_until": m.ends,
                "revoked": m.revoked,
            }
            for m in members
        ]
        invited = [{"name": i.name, "several": i.several, "expires": i.expires} for i in waiting]
        click.echo(json.dumps({"members": rows, "invitations": invited}, indent=1))
        return
    for member in members:
        standing = f"certificate until {_when(member.ends)}"
        if member.revoked is not None:
            standing = f"revoked {_when(member.revoked)}"
        click.echo(printable(f"{member.name:<24} joined {_when(member.joined)}  {standing}"))
    for invitation in waiting:
        names = f"{invitation.name}-*" if invitation.several else invitation.name
        click.echo(printable(f"{names:<24} invited, until {_when(invitation.expires)}"))


@click.command()
@click.argument("name")
@of_fleet
def revoke(name: str, home: Household) -> None:
    """The device NAME is no member any more: neither its signature nor its certificate counts.

    What it contributed stays; `coordinator forget` takes that away.
    """
    office = _existing(home)
    try:
        office.revoke(name)
        folder = office.folder / "broker"
    finally:
        office.close()
    click.echo(f"{name} is revoked; a broker elsewhere is to be given {folder} anew")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@of_fleet
def audit(as_json: bool, home: Household) -> None:
    """Who contributed what: every signature in the journal is verified again, against the key of
    its device and the bytes that are there.
    """
    from coordinator.journal.journal import Journal
    from coordinator.service.audit import audited

    office, journal = _existing(home), Journal.read(home.data_dir)
    try:
        findings = list(audited(journal, office.registry, home.fleet))
    finally:
        journal.close()
        office.close()
    counts = {v: sum(f.verdict == v for f in findings) for v in VERDICTS}
    if as_json:
        click.echo(json.dumps([vars(finding) for finding in findings], indent=1))
    else:
        for finding in findings:
            what = f"round {finding.round}" if finding.round else "ledger"
            when = _when(finding.at) if finding.at else " " * 16
            words = f"{when}  {finding.agent:<24} {what:<10} {finding.digest[:16]}"
            click.echo(printable(f"{words}  {VERDICTS[finding.verdict]} {finding.words}".rstrip()))
        click.echo(", ".join(f"{n} {verdict}" for verdict, n in counts.items()))
    if counts["forged"]:
        raise TrustError("signatures in the journal do not hold", "was it changed by hand?")


@click.group()
def keys() -> None:
    """The fleet's own keys."""


@keys.command("init")
@click.argument("offline", type=click.Path(path_type=Path))
@of_fleet
def begin(offline: Path, home: Household) -> None:
    """Make keys for a list of bundles in the new folder OFFLINE: take it away afterwards.

    \b
    coordinator keys init /media/stick/orchard       once
    coordinator keys sign /media/stick/orchard X.pfb for each bundle that devices may run
    coordinator freeze X.pfb                         as ever
    """
    office = _existing(home)
    try:
        office.vault.init(offline)
    finally:
        office.close()
    click.echo(
        f"{offline} holds the keys of root and targets: keep it where this machine is not; until"
        " `coordinator keys sign` no bundle is listed, and devices fetch none"
    )


@keys.command()
@click.argument("offline", type=click.Path(path_type=Path))
@click.argument("bundles", nargs=-1, type=click.Path(path_type=Path))
@of_fleet
def sign(offline: Path, bundles: tuple[Path, ...], home: Household) -> None:
    """List BUNDLES, and no other, with the keys in OFFLINE: devices fetch these alone."""
    office = _existing(home)
    try:
        digests = office.vault.sign(offline, bundles)
    finally:
        office.close()
    for path, digest in zip(bundles, digests, strict=True):
        click.echo(f"{digest[:16]}  {path}")
    click.echo(f"{len(digests)} bundles are listed; devices hear of it within a second")


@keys.command()
@of_fleet
def rotate(home: Household) -> None:
    """Make a new key for the coordinator's words and announce it; the old one still signs."""
    office = _existing(home)
    try:
        ring = office.rotate()
    finally:
        office.close()
    click.echo(
        f"the new key is announced in version {ring.version} of the fleet's keys; when devices had"
        " a week to hear of it: coordinator keys retire"
    )


@keys.command()
@of_fleet
def retire(home: Household) -> None:
    """Sign with the new key from now on; the old one is nobody's."""
    office = _existing(home)
    try:
        ring = office.retire()
    finally:
        office.close()
    click.echo(f"version {ring.version} of the fleet's keys has the new one alone")


def duration(text: str) -> float:
    """`1h` in seconds."""
    match = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    seconds = 0 if match is None else int(match[1]) * UNITS[match[2]]
    if not 0 < seconds <= LONGEST:
        raise UsageError(f"--expires {text!r} is no time from 1s to 30d", "as 30m, 1h or 7d")
    return float(seconds)


def _opened(home: Household) -> Office:
    from coordinator.members.office import Office

    files.own_folder(home.data_dir)
    return Office(home.data_dir, home.fleet, time.time)


def _existing(home: Household) -> Office:
    from coordinator.members.office import is_by_invitation

    if not is_by_invitation(home.data_dir):
        raise UsageError(
            f"{home.data_dir} is of no fleet by invitation", "`coordinator invite NAME` begins one"
        )
    return _opened(home)


def _when(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M}"
