"""Command-line options made from a dataclass of settings: names, kinds, defaults and help are said
once.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import click

from protofleet.settings.fields import from_plain
from protofleet.settings.layers import Sections

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def options_of(cls: type, *, leave_out: tuple[str, ...] = ()) -> Callable[[F], F]:
    """One option per field of the dataclass; `lr_decay` becomes `--lr-decay`."""

    def add(command: F) -> F:
        hints = typing.get_type_hints(cls)
        for field in reversed(dataclasses.fields(cls)):
            if field.name not in leave_out:
                command = _option(
                    field.name, hints[field.name], field.default, field.metadata.get("help", "")
                )(command)
        return command

    return add


def settings_of(cls: type[T], values: dict[str, Any]) -> T:
    """Take the values of this dataclass's options out of a command's keywords, checked."""
    names = [f.name for f in dataclasses.fields(cls) if f.name in values]  # type: ignore[arg-type]
    return from_plain(cls, {name: values.pop(name) for name in names})


@dataclasses.dataclass(frozen=True)
class SettingFlags:
    """Options for some settings of a service's configuration: `paths` are `section.name`, in the
    order of the help text.

    They carry texts, which are checked together with the file and the environment that they lie
    over: a mistake is refused in the same words wherever it was made.
    """

    config: type
    paths: tuple[str, ...]

    def __call__(self, command: F) -> F:
        """The command with its options."""
        for path in reversed(self.paths):
            field, name = self._setting(path)
            help = field.metadata["help"]
            words = field.metadata["flag"] or f"{help[0].upper()}{help[1:]}."
            flag = "--" + name.replace("_", "-")
            command = click.option(flag, name, default=None, help=words)(command)
        return command

    def layer(self, values: Mapping[str, Any]) -> Sections:
        """What a command was called with, as sections of settings."""
        sections: Sections = {}
        for path in self.paths:
            field, name = self._setting(path)
            if values.get(name) is not None:
                sections.setdefault(path.partition(".")[0], {})[field.name] = values[name]
        return sections

    def _setting(self, path: str) -> tuple[dataclasses.Field[Any], str]:
        """The field behind a path, and its option's name."""
        section, _, name = path.partition(".")
        section_class = typing.get_type_hints(self.config)[section]
        field = next(f for f in dataclasses.fields(section_class) if f.name == name)
        return field, field.metadata["flag_name"] or name


def _option(name: str, hint: Any, default: Any, help: str) -> Callable[[F], F]:
    flag = "--" + name.replace("_", "-")
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        hint = next(a for a in args if a is not type(None))
        origin, args = typing.get_origin(hint), typing.get_args(hint)
    show = default is not None and default != ""
    common: dict[str, Any] = {"default": default, "help": help, "show_default": show}
    if hint is bool:
        return click.option(f"{flag}/--no-{flag[2:]}", name, **common)
    kind: Any = click.Choice(list(args)) if origin is Literal else hint
    return click.option(flag, name, type=kind, **common)
