"""A small fleet to be tried: its settings are the coordinator's own, its processes' ends are told
apart.
"""

import subprocess
import sys

import pytest

from coordinator import config
from simulators.faults import testbed as trial
from simulators.faults.testbed import CaseProcess, Stuck, until


def test_its_settings_are_read_by_the_coordinator(tmp_path):
    testbed = trial.Testbed(tmp_path, "mqtt://127.0.0.1:4711", agents=4, serve={"quorum": 0.5})
    testbed.write()
    settings = config.load(tmp_path / "fleet.toml", {}, {})
    assert (settings.serve.fleet, settings.serve.min_agents) == ("trial", 4)
    assert (settings.serve.rounds, settings.serve.quorum) == (3, 0.5)
    assert settings.broker.url == testbed.url


def test_every_device_has_a_directory_of_its_own(tmp_path):
    sites = trial.Testbed(tmp_path, "mqtt://h:1").sites("mqtt://proxy:2", keepalive=2)
    assert len({site.folder for site in sites}) == len({site.agent for site in sites}) == 3
    assert {(site.url, site.keepalive) for site in sites} == {("mqtt://proxy:2", 2)}


@pytest.fixture
def process(tmp_path):
    """A process that does this, and says so in its log."""

    def start(code):
        log = tmp_path / "log"
        with log.open("ab") as words:
            command = [sys.executable, "-c", code]
            return CaseProcess("it", subprocess.Popen(command, stdout=words, stderr=words), log)

    return start


def test_an_end_in_good_order_is_done_and_no_death(process):
    victim = process("pass")
    victim.done()
    with pytest.raises(Stuck, match="ended with 0 before the instant"):
        victim.dies()


def test_a_failure_is_told_with_its_last_words(process):
    with pytest.raises(Stuck, match="it ended with 3: so there"):
        process("print('so there', flush=True); raise SystemExit(3)").done()


def test_a_death_by_kill_is_what_was_asked_for(process):
    victim = process("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert victim.dies()
    assert victim.killed


def test_one_that_does_not_end_is_ended(process):
    victim = process("import time; time.sleep(60)")
    with pytest.raises(Stuck, match="does not end"):
        victim.ended(0.1)
    assert victim.killed


def test_one_that_is_stopped_may_end_in_good_order(process):
    victim = process(
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(5));"
        "print('ready', flush=True); time.sleep(60)"
    )
    until(victim.log.read_text, "the first word")
    assert victim.stop() == 5


def test_waiting_ends_with_what_was_waited_for():
    answers = iter([None, 0, "there"])
    assert until(lambda: next(answers), "an answer") == "there"
    with pytest.raises(Stuck, match="still waiting for rain"):
        until(lambda: False, "rain", patience=0.05)
