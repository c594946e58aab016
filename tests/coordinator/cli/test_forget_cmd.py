"""`coordinator forget` takes a device away and proves it by adding up what is left."""

import json

import pytest
from click.testing import CliRunner

from coordinator.cli import coordinator, forget_cmd
from protofleet.errors import FleetError
from tests.contributing import arrived, message
from tests.coordinator.made import agreed, birth, ledger


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A ledger of two devices, and a service that answers at once."""
    made = agreed(ledger(tmp_path))
    made.take([arrived(a, message(a, ["plum", "owl"], n)) for n, a in enumerate("ab")], 1.0)
    monkeypatch.setattr(forget_cmd, "ask", lambda at, what, agent: vars(made.forget(agent, 2.0)[0]))
    return made


def call(folder, *words):
    return CliRunner().invoke(coordinator, ["forget", *words, "--data-dir", str(folder)])


def test_hashes_before_and_after_are_shown_and_what_is_left_comes_to_the_same(tmp_path, made):
    before = made.state.sha256
    lines = call(tmp_path, "b").stdout.splitlines()
    assert lines[:3] == [
        "b: 1 contributions taken away",
        f"before {before}",
        f"after  {made.state.sha256}",
    ]
    assert lines[3].startswith("the same hash comes out")
    document = json.loads(call(tmp_path, "a", "--json").stdout)
    assert (document["proof"], document["contributions"]) == (True, 1)
    assert made.keeper.ledger.entries == {}


def test_what_came_meanwhile_is_no_proof_of_anything(tmp_path, made, monkeypatch):
    def ask(folder, what, agent):
        answer = vars(made.forget(agent, 2.0)[0])
        made.take([arrived("c", message("c", ["plum"]))], 3.0)
        return answer

    monkeypatch.setattr(forget_cmd, "ask", ask)
    assert "others contributed meanwhile" in call(tmp_path, "b").stdout


def test_a_device_that_contributed_nothing_is_forgotten_without_a_proof(tmp_path, made):
    made.take([birth("d")], 2.0)
    assert call(tmp_path, "d").stdout == "d: 0 contributions taken away\n"
    assert "d" not in made.devices


def test_nobody_of_that_name_is_one_clear_line(tmp_path, made):
    with pytest.raises(FleetError, match="there is no device 'nobody'"):
        made.forget("nobody", 2.0)
