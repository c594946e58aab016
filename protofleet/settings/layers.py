"""A service's settings: a TOML file of sections, under the environment, under the command line's
flags.
"""

# Theory of operation
#
# A setting may be said in four places, and the one that is nearer to the call wins:
#
#     flag  >  PROTOFLEET_<SECTION>_<NAME>  >  file  >  the dataclass's default
#
# Each place is read into the same plain form, texts by section and name; they are laid over each
# other, and only the outcome is checked, once, by `fields.from_plain`. So a mistake is refused in
# the same words wherever it was made, and a wrong value in a file does no harm under a flag that
# replaces it. Defaults are no layer: what nobody said is absent, and the dataclass fills it in.
#
# Paths are the exception to "texts": in a file they are relative to the file, on a command line and
# in the environment to where the command was called. Who reads a file makes them whole before
# anything is laid over them.

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from protofleet.errors import SettingError, UsageError

Sections = dict[str, dict[str, Any]]


def read(path: Path, hint: str) -> Sections:
    """The file's sections; everything in it stands in one."""
    try:
        document = tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingError(f"{path}: {os.strerror(error.errno or 0)}", hint) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: not TOML ({' '.join(str(error).split())})") from None
    for name, section in document.items():
        if not isinstance(section, dict):
            words = f"{path}: {name}: a map is due, not {type(section).__name__}"
            raise SettingError(words, "settings go below a line like [broker]")
    return document


def write(path: Path, text: str, *, over: bool) -> None:
    """A new file of settings; `over` one that is there only if that is said."""
    try:
        with path.open("w" if over else "x") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} is already there", "--force writes over it") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def as_toml(section: Any) -> list[str]:
    """Every setting of a section as the lines of a file, its meaning above it. TOML has no word for
    none: such a setting is left out.
    """
    lines = []
    for field in fields(section):
        value = getattr(section, field.name)
        if value is not None:
            lines += [f"# {field.metadata['help']}", f"{field.name} = {_toml(value)}"]
    return lines


def from_environment(sections: Mapping[str, type], environ: Mapping[str, str]) -> Sections:
    """`PROTOFLEET_BROKER_URL` is `[broker] url`, and so for every setting of these sections."""
    # Asked for by name and not searched for: other words begin alike (PROTOFLEET_DATA,
    # PROTOFLEET_MQTT_PASSWORD), and a password is no setting.
    texts: Sections = {}
    for section, cls in sections.items():
        for field in fields(cls):
            text = environ.get(f"PROTOFLEET_{section}_{field.name}".upper())
            if text is not None:
                texts.setdefault(section, {})[field.name] = text
    return texts


def laid(document: Sections, *layers: Mapping[str, Mapping[str, Any]]) -> Sections:
    """The document with each layer over it, the last on top."""
    whole = {section: dict(values) for section, values in document.items()}
    for layer in layers:
        for section, values in layer.items():
            whole.setdefault(section, {}).update(values)
    return whole


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(member) for member in value) + "]"
    return json.dumps(value, ensure_ascii=False)  # texts and numbers are written alike in both
