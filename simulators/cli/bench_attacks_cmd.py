"""`protofleet bench attacks`: what somebody who reads an upload learns of the samples behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from simulators.cli.common import json_option, progress


@click.command()
@click.option("--data", "sets", multiple=True, default=["fashion-mnist"], show_default=True)
@click.option(
    "--attack",
    "kinds",
    multiple=True,
    type=click.Choice(["hijack", "decoder", "membership", "difference"]),
    help="One of them, repeatable; all by default.",
)
@click.option("--methods", default="", help="For hijack, as a list; by default all there are.")
@click.option("--seeds", default=1, show_default=True, help="Seeds 0, 1, … of everything.")
@click.option("--rounds", default=20, show_default=True, help="Before a method is overheard.")
@click.option("--steps", default=3000, show_default=True, help="Of a decoder for hijack.")
@click.option("--public", default=8000, show_default=True, help="Images that it learns from.")
@click.option("--images", default=40_000, show_default=True, help="For the others; half public.")
@click.option("--upload-steps", default=6000, show_default=True, help="Of their decoder.")
@click.option("--uploads", default=100, show_default=True, help="That are restored.")
@click.option(
    "--keep",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Put the figures into this file, from which the page of results takes them.",
)
@json_option
def attacks(
    sets: tuple[str, ...],
    kinds: tuple[str, ...],
    methods: str,
    seeds: int,
    keep: Path | None,
    as_json: bool,
    **amounts: int,
) -> None:
    """Attack uploads: images restored from each method's vectors (FedMPS's hijacking attack), and
    from contributions of `fleet`; members told apart; what two contributions differ by. Before and
    after what a device may hold back. Needs the real data in PROTOFLEET_DATA, but for digits.

    \b
    protofleet bench attacks --data digits --rounds 2 --steps 200 --upload-steps 500
    protofleet bench attacks --data cifar10 --attack hijack --keep docs/results/attacks.json
    """
    from simulators.attacks import attacking
    from simulators.papers import leaks

    chosen = kinds or attacking.KINDS
    options = attacking.AttackOptions(**amounts)
    attacking.check(chosen, options, seeds)
    names = attacking.named(methods)
    document: dict[str, Any] = {}

    def put(kind: str, data: str, seed: int, figures: dict[str, Any]) -> None:
        fresh = {kind: {data: {str(seed): figures}}}
        document.update(attacking.merged(document, fresh))
        if keep is not None:  # after every step: the next may take long
            attacking.keep(fresh, keep)

    on_uploads = [kind for kind in chosen if kind in attacking.ON_UPLOADS]
    for data in sets:
        for seed in range(seeds):
            if on_uploads:
                figures = attacking.on_uploads(data, on_uploads, seed, options, progress)
                put("uploads", data, seed, figures)
            if "hijack" in chosen:
                for name in names:
                    put(
                        "hijack",
                        data,
                        seed,
                        attacking.hijack(data, [name], seed, options, progress),
                    )
    click.echo("", err=True)
    click.echo(json.dumps(document, indent=1) if as_json else "\n".join(leaks.tables(document)))
