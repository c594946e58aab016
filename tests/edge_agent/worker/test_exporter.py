"""A bundle with every so many rounds, and never two exports at once."""

import pytest

from edge_agent.config import DataSection, LimitsSection
from edge_agent.worker import exporter
from edge_agent.worker.exporter import Exporter
from edge_agent.worker.ipc import Job


class Started:
    """A process that runs until it is told to end."""

    def __init__(self, command, **how):
        self.command, self.ended = command, None

    def poll(self):
        return self.ended


@pytest.fixture
def started(monkeypatch):
    processes = []

    def start(command, **how):
        processes.append(Started(command, **how))
        return processes[-1]

    monkeypatch.setattr(exporter.subprocess, "Popen", start)
    return processes


def job(tmp_path, every):
    data = DataSection("digits", rows="rows.npz", seed=4)
    return Job("camera", tmp_path, "b" * 16, data, None, LimitsSection(), every, tmp_path / "b")


def test_only_every_so_many_rounds_and_each_once(tmp_path, started):
    regular = Exporter(job(tmp_path, 3))
    for round in (0, 1, 2, 3, 3, 4, 5):
        regular.due(round)
        for process in started:
            process.ended = 0
    assert len(started) == 1
    regular.due(6)
    assert len(started) == 2


def test_none_at_all_unless_the_owner_wants_them(tmp_path, started):
    for round in range(10):
        Exporter(job(tmp_path, 0)).due(round)
    assert started == []


def test_one_that_still_runs_is_left_to_finish_and_the_next_round_has_its_turn(tmp_path, started):
    each = Exporter(job(tmp_path, 1))
    each.due(1)
    each.due(2)
    assert len(started) == 1
    started[0].ended = 0
    each.due(2)
    assert len(started) == 2


def test_the_call_names_every_setting_that_it_depends_on(tmp_path):
    words = Exporter(job(tmp_path, 1)).command()
    options = dict(zip(words[4::2], words[5::2], strict=True))
    assert options["--id"] == "camera"
    assert (options["--data-dir"], options["--out"]) == (str(tmp_path), str(tmp_path / "b"))
    settings = {words[i + 1] for i, word in enumerate(words) if word == "--set"}
    assert {"data.source=digits", "data.rows=rows.npz", "data.seed=4"} <= settings
