"""agent.toml: every setting said once, mistakes named, flags before environment before file."""

import re
from datetime import time
from itertools import pairwise
from pathlib import Path

import pytest

from edge_agent.config import Config, as_toml, from_pairs, is_open, load, parse_windows
from protofleet.errors import SettingError


def written(tmp_path, text):
    file = tmp_path / "agent.toml"
    file.write_text(text)
    return file


def test_the_file_that_init_writes_reads_back_as_the_defaults(tmp_path):
    found = load(written(tmp_path, as_toml(Config())), {}, {})
    assert found.agent.data_dir == str(tmp_path / "agent-data")  # relative to the file
    assert found.broker == Config().broker
    assert found.fleet == Config().fleet
    assert found.data == Config().data
    assert found.limits == Config().limits


def test_every_setting_in_the_written_file_has_its_words():
    lines = as_toml(Config()).splitlines()
    for before, line in pairwise(lines):
        if "=" in line and not line.startswith("#"):
            assert before.startswith("# ")
            assert len(before) > 10


def test_flags_go_before_the_environment_and_that_before_the_file(tmp_path):
    file = written(
        tmp_path, '[broker]\nurl = "mqtt://file"\n[fleet]\nname = "file"\n[agent]\nid = "file"\n'
    )
    environ = {
        "PROTOFLEET_BROKER_URL": "mqtt://environment",
        "PROTOFLEET_FLEET_NAME": "environment",
    }
    found = load(file, environ, {"broker": {"url": "mqtt://flag"}})
    assert (found.broker.url, found.fleet.name, found.agent.id) == (
        "mqtt://flag",
        "environment",
        "file",
    )


def test_the_environment_speaks_of_numbers_and_lists_too():
    found = load(
        None,
        {"PROTOFLEET_LIMITS_NICE": "5", "PROTOFLEET_LIMITS_WINDOWS": "22:00-06:00,12:00-13:00"},
        {},
    )
    assert found.limits.nice == 5
    assert found.limits.windows == ("22:00-06:00", "12:00-13:00")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[limits]\nnicee = 3", "unknown setting 'limits.nicee'; did you mean 'nice'?"),
        ("[brokr]\nurl = 'x'", "unknown setting 'brokr'; did you mean 'broker'?"),
        ("[limits]\nnice = 30", "limits.nice: 30 is not within"),
        ("[limits]\nwindows = ['late']", "limits.windows: 'late' is not of the form 22:00-06:00"),
        ("[agent\n", "not TOML"),
        ("agent = 3", "agent: a map is due"),
    ],
)
def test_a_mistake_is_named_in_one_line(tmp_path, text, words):
    with pytest.raises(SettingError, match=re.escape(words)) as found:
        load(written(tmp_path, text), {}, {})
    assert "\n" not in str(found.value)


def test_a_missing_file_says_how_to_get_one(tmp_path):
    with pytest.raises(SettingError, match="`edge-agent init` writes one"):
        load(tmp_path / "none.toml", {}, {})


def test_paths_in_the_file_are_relative_to_the_file_and_names_of_data_sets_stay_names(tmp_path):
    (tmp_path / "photos").mkdir()
    text = '[data]\nsource = "photos"\nrows = "mine.npz"\n[broker]\ncredentials = "secret"\n'
    found = load(written(tmp_path, text), {}, {})
    assert Path(found.data.source) == tmp_path / "photos"
    assert Path(found.data.rows) == tmp_path / "mine.npz"
    assert Path(found.broker.credentials) == tmp_path / "secret"
    assert load(written(tmp_path, '[data]\nsource = "digits"\n'), {}, {}).data.source == "digits"


def test_any_setting_can_be_given_as_a_pair():
    assert from_pairs(("limits.nice=5", "data.seed = 4")) == {
        "limits": {"nice": "5"},
        "data": {"seed": "4"},
    }
    with pytest.raises(SettingError, match=r"not of the form section\.name=value"):
        from_pairs(("nice=5",))


def test_windows_go_over_midnight():
    windows = parse_windows(["22:00-06:00", "12:30-13:00"])
    hours = {
        time(23): True,
        time(5, 59): True,
        time(6): False,
        time(12, 45): True,
        time(13): False,
        time(21): False,
    }
    assert {at: is_open(windows, at) for at in hours} == hours
    assert is_open((), time(3))
    assert is_open(parse_windows(["00:00-24:00"]), time(23, 59))
