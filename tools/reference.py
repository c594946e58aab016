"""The reference, as Markdown, made from what it describes: commands from their own help, settings
from their dataclasses, the Python interface from its signatures. `tools/site.py` puts it on the
site; nothing of it is written by hand or kept.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterator

import click

import protofleet
from coordinator.cli import coordinator
from coordinator.config import FleetConfig
from edge_agent.cli import agent
from edge_agent.config import Config
from protofleet import registry
from protofleet.cli.main import umbrella
from protofleet.settings.fields import describe

WIDTH = 100
PROGRAMS: dict[str, click.Group] = {
    "protofleet": umbrella,
    "coordinator": coordinator,
    "edge-agent": agent,
}


def pages() -> dict[str, str]:
    """Every page of it by its path below docs/."""
    return {
        **{f"reference/{name}.md": commands(name) for name in PROGRAMS},
        "reference/fleet-toml.md": settings(
            "fleet.toml", FleetConfig, "What a coordinator is told; `coordinator init` writes it."
        ),
        "reference/agent-toml.md": settings(
            "agent.toml", Config, "What a device is told; `edge-agent init` writes it."
        ),
        "reference/methods.md": methods(),
        "reference/python.md": interface(),
    }


def commands(name: str) -> str:
    """A program's commands, each with its `--help`."""
    program = PROGRAMS[name]
    lines = [f"# `{name}`", "", "What each command's own `--help` says.", "", *_help(program, name)]
    for path, command in _below(program, name):
        lines += ["", f"## `{path}`", "", *_help(command, path)]
    return "\n".join(lines) + "\n"


def settings(title: str, config: type, sentence: str) -> str:
    """A configuration's sections, a table each."""
    places = "A flag goes before the environment (`PROTOFLEET_SECTION_NAME`), that before the file."
    lines = [f"# `{title}`", "", f"{sentence} {places}"]
    hints = typing.get_type_hints(config)
    for field in dataclasses.fields(config):
        section = hints[field.name]
        if dataclasses.is_dataclass(section):
            words = inspect.cleandoc(section.__doc__ or "")
            lines += ["", f"## `[{field.name}]`", "", words, *_table(typing.cast(type, section))]
    return "\n".join(lines) + "\n"


def methods() -> str:
    """Every method with its settings, as `protofleet methods show` says them."""
    lines = ["# Methods and their settings", "", "`--set NAME=VALUE`, or a keyword in Python."]
    for name in registry.names():
        recipe = registry.load(name)
        lines += ["", f"## `{name}`", "", f"{recipe.title[0].upper()}{recipe.title[1:]}."]
        lines += (
            _table(recipe.hyper) if dataclasses.fields(recipe.hyper) else ["", "Nothing to set."]
        )
    return "\n".join(lines) + "\n"


def interface() -> str:
    """What `import protofleet` offers."""
    lines = ["# `import protofleet`", "", "Use it by example: [From Python](../python.md)."]
    for name in protofleet.__all__:
        thing = getattr(protofleet, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            lines += [
                "",
                f"## `{name}`",
                "",
                *_signature(name, thing),
                "",
                inspect.getdoc(thing) or "",
            ]
        if inspect.isclass(thing):
            lines += _members(thing)
    for name in ("Result", "Results"):
        thing = getattr(inspect.getmodule(protofleet.simulate), name)
        lines += ["", f"## `{name}`", "", inspect.getdoc(thing) or "", *_members(thing)]
    return "\n".join(lines) + "\n"


def _below(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _below(command, f"{path} {name}")


def _help(command: click.Command, path: str) -> list[str]:
    context = click.Context(command, info_name=path, max_content_width=WIDTH, terminal_width=WIDTH)
    return ["```text", *command.get_help(context).splitlines(), "```"]


def _table(section: type) -> list[str]:
    lines = ["", "| | default | | |", "|---|---|---|---|"]
    for each in describe(section):
        default = "" if each.default is dataclasses.MISSING else _plain(each.default)
        words = (each.name, default, each.kind, each.help)
        name, default, kind, sentence = (text.replace("|", "\\|") for text in words)
        lines.append(f"| `{name}` | {default} | {kind} | {sentence} |")
    return lines


def _plain(value: object) -> str:
    """A default as it would stand in a file."""
    if value is None or value in ("", ()):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"`{value}`"


def _signature(name: str, thing: typing.Any) -> list[str]:
    signature = inspect.signature(thing)
    words = [str(each) for each in signature.parameters.values()]
    if len(f"{name}({', '.join(words)})") <= WIDTH - 20:
        return ["```text", f"{name}({', '.join(words)})", "```"]
    return ["```text", f"{name}(", *(f"    {word}," for word in words), ")", "```"]


def _members(thing: type) -> list[str]:
    lines = ["", "| | |", "|---|---|"]
    for name, member in vars(thing).items():
        call = inspect.isfunction(member)
        if name.startswith("_") or not (call or isinstance(member, property)):
            continue
        words = " ".join((inspect.getdoc(member) or "").split()).replace("|", "\\|")
        signature = "" if not call else _call(member)
        lines.append(f"| `{name}{signature}` | {words} |")
    return lines if len(lines) > 3 else []


def _call(function: typing.Any) -> str:
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    return f"({', '.join(names)})"
