"""Frozen dataclasses as typed, named settings: described for people, read from `--set k=v`, carried
as plain documents.

A field made with `setting(default, help)` carries its own help; the dataclass is the only place a
setting is declared.
"""

# Theory of operation
#
# One class says of a setting: its name, kind, default, meaning, bounds, and its flag where that
# reads otherwise. From it are made the flags and their help (`protofleet.cli.options`), what the
# environment may say and the commented file (`layers`), `--set name=value` (`parse_pairs`), what
# `protofleet methods show` prints (`describe`), and the plain document that a contract travels as
# (`to_plain`, `from_plain`).
#
# `from_plain` reads documents of two origins by the same rules: TOML and the wire bring numbers and
# lists, a command line and the environment bring texts. So each kind takes its texts as well: "5"
# for 5, "yes" for true, "1,2" for a list, "none" where there may be none. What would be read in two
# ways is refused: 1.5 for a whole number, true for a number.
#
# Bounds and `Literal`s are checked field by field, so that an error names the place
# (`limits.nice`); what two fields have to do with each other is the class's own `__post_init__`.

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

from protofleet.errors import SettingError

T = TypeVar("T")
_TRUE, _FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}


def setting(
    default: T,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    flag: str = "",
    flag_name: str = "",
) -> T:
    """A dataclass field with its help and bounds (inclusive); `flag` is its sentence on a command
    line and `flag_name` its name there, where these are others than in a file.
    """
    metadata = {"help": help, "low": low, "high": high, "flag": flag, "flag_name": flag_name}
    field: T = dataclasses.field(default=default, metadata=metadata)
    return field


@dataclasses.dataclass(frozen=True)
class Described:
    """One setting as a person reads it."""

    name: str
    kind: str
    default: Any
    help: str


def describe(cls: type) -> list[Described]:
    """What `protofleet methods show` prints of a method's settings."""
    hints = typing.get_type_hints(cls)
    return [
        Described(f.name, _kind(hints[f.name]), f.default, f.metadata.get("help", ""))
        for f in dataclasses.fields(cls)
    ]


def parse_pairs(cls: type[T], pairs: Sequence[str]) -> T:
    """`["lam=0.5", "weighted=yes"]` as a `cls`; an unknown name is answered with the nearest known
    one.
    """
    texts: dict[str, str] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise SettingError(f"setting {pair!r} is not of the form name=value")
        texts[name.strip()] = text.strip()
    return from_plain(cls, texts)


def from_plain(cls: type[T], document: Mapping[str, Any], where: str = "") -> T:
    """A plain document (or texts from a command line) as a checked `cls`; what is absent takes its
    default.
    """
    if not isinstance(document, Mapping):
        raise SettingError(f"{where or 'document'}: a map is due, not {type(document).__name__}")
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, raw in document.items():
        place = f"{where}.{name}" if where else str(name)
        if name not in fields:
            import difflib

            near = difflib.get_close_matches(str(name), fields, 1)
            raise SettingError(
                f"unknown setting {place!r}",
                f"did you mean {near[0]!r}?" if near else f"known: {', '.join(fields)}",
            )
        values[name] = _bounded(place, _convert(place, hints[name], raw), fields[name].metadata)
    missing = [n for n, f in fields.items() if n not in values and _required(f)]
    if missing:
        raise SettingError(f"{where or cls.__name__}: {', '.join(missing)} missing")
    return cls(**values)


def to_plain(value: Any) -> Any:
    """A dataclass as a document of maps, lists, texts and numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {k: to_plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(v) for v in value]
    return value


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _bounded(place: str, value: Any, metadata: Mapping[str, Any]) -> Any:
    low, high = metadata.get("low"), metadata.get("high")
    if value is not None and (
        (low is not None and value < low) or (high is not None and value > high)
    ):
        raise SettingError(f"{place}: {value} is not within [{low}, {high}]".replace("None", "…"))
    return value


def _convert(place: str, hint: Any, raw: Any) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _optional(place, args, raw)
    if origin in (tuple, Sequence):
        return _list(place, args[0], raw)
    if origin is not None and origin is not Literal and issubclass(origin, Mapping):
        if not isinstance(raw, Mapping):
            raise SettingError(f"{place}: a map is due, not {raw!r}")
        return {str(k): _convert(f"{place}.{k}", args[1], v) for k, v in raw.items()}
    if dataclasses.is_dataclass(hint):
        return from_plain(typing.cast(type, hint), raw, place)
    return _scalar(place, hint, raw)


def _optional(place: str, kinds: tuple[Any, ...], raw: Any) -> Any:
    """A value of the first kind, or None. Settings have no other unions."""
    is_none = isinstance(raw, str) and raw.lower() in ("none", "null") and type(None) in kinds
    if raw is None or is_none:
        return None
    return _convert(place, next(kind for kind in kinds if kind is not type(None)), raw)


def _list(place: str, kind: Any, raw: Any) -> tuple[Any, ...]:
    members = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(members, Sequence):
        raise SettingError(f"{place}: a list is due, not {raw!r}")
    # An empty text is no member: "" is the empty list, and "1,2," is 1 and 2.
    return tuple(
        _convert(f"{place}[{i}]", kind, member) for i, member in enumerate(members) if member != ""
    )


def _scalar(place: str, hint: Any, raw: Any) -> Any:
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        if raw not in choices:
            raise SettingError(f"{place}: {raw!r} is not one of {', '.join(map(str, choices))}")
        return raw
    if hint is bool:
        if isinstance(raw, str) and raw.lower() in _TRUE | _FALSE:
            return raw.lower() in _TRUE
        if not isinstance(raw, bool):
            raise SettingError(f"{place}: {raw!r} is not yes or no")
        return raw
    if hint in (int, float):
        return _number(place, hint, raw)
    if hint is str and isinstance(raw, str):
        return raw
    raise SettingError(f"{place}: {raw!r} is not {_kind(hint)}")


def _number(place: str, kind: type[int] | type[float], raw: Any) -> int | float:
    try:
        if isinstance(raw, bool) or not isinstance(raw, str | int | float):
            raise ValueError
        number = kind(raw)
        # In Python True is 1 and int(1.5) is 1; in a file of settings both are mistakes.
        if not math.isfinite(number) or (not isinstance(raw, str) and number != raw):
            raise ValueError
    except (ValueError, OverflowError):
        raise SettingError(f"{place}: {raw!r} is not {_kind(kind)}") from None
    return number


def _kind(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "yes or no", str: "text"}
    if hint in names:
        return names[hint]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return " | ".join(map(str, args))
    if origin in (typing.Union, types.UnionType):
        return " or none, ".join(_kind(a) for a in args if a is not type(None)) + " (or none)"
    if origin in (tuple, Sequence):
        return f"a list of: {_kind(args[0])}"
    return getattr(hint, "__name__", str(hint))
