"""A file under the environment under flags; what is written reads back."""

from dataclasses import dataclass

import pytest

from protofleet.errors import SettingError, UsageError
from protofleet.settings import layers
from protofleet.settings.fields import from_plain, setting


@dataclass(frozen=True)
class Section:
    name: str = setting("a", "what it is called")
    sizes: tuple[int, ...] = setting((1, 2), "how large")
    often: bool = setting(True, "again and again")
    most: int | None = setting(None, "no bound by default")


def test_the_last_layer_is_on_top_and_none_is_changed():
    document = {"a": {"x": 1, "y": 1}, "b": {"x": 1}}
    assert layers.laid(document, {"a": {"x": 2, "z": 2}}, {"a": {"x": 3}, "c": {"x": 3}}) == {
        "a": {"x": 3, "y": 1, "z": 2},
        "b": {"x": 1},
        "c": {"x": 3},
    }
    assert document == {"a": {"x": 1, "y": 1}, "b": {"x": 1}}


def test_the_environment_names_section_and_setting_and_nothing_else_counts():
    environ = {"PROTOFLEET_PART_NAME": "b", "PROTOFLEET_PART_NAMES": "c", "PROTOFLEET_OTHER": "d"}
    assert layers.from_environment({"part": Section}, environ) == {"part": {"name": "b"}}


def test_what_is_written_reads_back(tmp_path):
    section = Section('with "quotes" and ü', (3,), often=False)
    path = tmp_path / "settings.toml"
    layers.write(path, "\n".join(["[part]", *layers.as_toml(section)]), over=False)
    assert from_plain(Section, layers.read(path, "")["part"]) == section
    assert "most" not in path.read_text()  # TOML has no word for none


def test_a_file_that_is_there_is_written_over_only_if_that_is_said(tmp_path):
    path = tmp_path / "settings.toml"
    layers.write(path, "a = 1", over=False)
    with pytest.raises(UsageError, match="is already there; --force writes over it"):
        layers.write(path, "a = 2", over=False)
    layers.write(path, "a = 3", over=True)
    assert path.read_text() == "a = 3"
    with pytest.raises(UsageError, match="Not a directory"):
        layers.write(path / "below", "a = 1", over=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [("a = 3", "a: a map is due, not int"), ("[a", "not TOML"), (b"\xff", "not TOML")],
)
def test_a_file_that_is_no_settings_is_named(tmp_path, text, words):
    path = tmp_path / "settings.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingError, match=words):
        layers.read(path, "")
