"""`coordinator forget`: a device leaves for good, and everybody can see that it did."""

from __future__ import annotations

import json
from pathlib import Path

import click

from coordinator.cli.live_cmd import where
from coordinator.service.control import ask


@click.command()
@click.argument("agent")
@where
def forget(agent: str, data_dir: Path, as_json: bool) -> None:
    """Take AGENT's contributions away, under every extractor, and all else that is known of it.

    What is left is added up anew from the journal, without the device, and has to come to the same
    hash. A device that still runs contributes again: stop it first, and take its access away.
    """
    from coordinator.journal.journal import Journal
    from coordinator.service.replay import refolded

    answer = ask(data_dir, "forget", agent=agent)
    journal = Journal.read(data_dir)
    try:
        # The service goes on meanwhile: hashes are compared only if nothing came since.
        proof = refolded(journal) if journal.ledger.changes == answer["changes"] else None
        if journal.ledger.changes != answer["changes"]:
            proof = None  # meanwhile
    finally:
        journal.close()
    same = None if proof is None else proof.state.sha256 == answer["after"]
    if as_json:
        click.echo(json.dumps({**answer, "proof": same}))
        return
    click.echo(f"{agent}: {answer['contributions']} contributions taken away")
    if not answer["contributions"]:
        return
    click.echo(f"before {answer['before']}")
    click.echo(f"after  {answer['after']}")
    verdict = {
        True: "the same hash comes out of all other contributions, added up anew",
        False: "ANOTHER hash comes out of all other contributions: please report this",
        None: "others contributed meanwhile: `coordinator replay` computes the hash anew",
    }
    click.echo(verdict[same])
