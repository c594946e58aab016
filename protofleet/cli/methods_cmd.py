"""`protofleet methods`: what is installed, and what each can be told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from protofleet import registry
from protofleet.errors import FleetError
from protofleet.recipe import Recipe
from protofleet.settings.fields import describe


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.pass_context
def methods(ctx: click.Context, as_json: bool) -> None:
    """List the installed methods.

    \b
    protofleet methods
    protofleet methods show fedproto
    """
    if ctx.invoked_subcommand is not None:
        return
    recipes = list(_there())
    if as_json:
        click.echo(json.dumps([{"name": r.name, "title": r.title} for r in recipes], indent=1))
        return
    width = max(len(r.name) for r in recipes)
    for recipe in recipes:
        click.echo(f"{recipe.name:<{width}}  {recipe.title}")


def _there() -> Iterator[Recipe[Any]]:
    """All that can be loaded; one of another package that cannot is told, and stops no other."""
    for name in registry.names():
        try:
            yield registry.load(name)
        except FleetError as error:
            click.echo(f"warning: {error}", err=True)


@methods.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def show(name: str, as_json: bool) -> None:
    """A method's settings, for --set NAME=VALUE."""
    recipe = registry.load(name)
    settings = describe(recipe.hyper)
    traits = {
        "mixed backbones": recipe.traits.mixed_backbones,
        "common initial weights": recipe.traits.common_start,
        "asynchronous": recipe.traits.asynchronous,
    }
    if as_json:
        rows = [
            {"name": s.name, "kind": s.kind, "default": s.default, "help": s.help} for s in settings
        ]
        click.echo(
            json.dumps(
                {"name": recipe.name, "title": recipe.title, "settings": rows, "traits": traits},
                indent=1,
            )
        )
        return
    click.echo(f"{recipe.name}: {recipe.title}")
    click.echo(
        "  " + ", ".join(f"{what}: {'yes' if has else 'no'}" for what, has in traits.items())
    )
    for s in settings:
        click.echo(f"  --set {s.name}={s.default}  ({s.kind})  {s.help}")
    if not settings:
        click.echo("  nothing to set")
