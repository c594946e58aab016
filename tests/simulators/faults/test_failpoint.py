"""A program dies at its failpoint that was chosen, and not before."""

import sqlite3
import subprocess
import sys

import pytest

from edge_agent.store import Store
from protofleet.errors import UsageError
from simulators.faults.failpoint import ANY, STATEMENT, Failpoint, condemn, resolve, watch


def test_a_failpoint_is_written_as_it_is_read():
    text = "coordinator.journal.journal:Journal.commit:leave:7"
    assert str(Failpoint.parse(text)) == text


@pytest.mark.parametrize("text", ["", "a:b:c:1", "a:b:enter:x", "a:b:enter"])
def test_what_is_no_failpoint_is_said(text):
    with pytest.raises(UsageError):
        Failpoint.parse(text)


@pytest.mark.parametrize(
    ("failpoint", "code"),
    [("coordinator.config:as_toml:enter:1", -9), ("coordinator.config:as_toml:enter:2", 0)],
)
def test_it_dies_when_the_function_is_entered_so_often(tmp_path, failpoint, code):
    path = tmp_path / "fleet.toml"
    command = [
        sys.executable,
        "-m",
        "simulators.faults.failpoint",
        failpoint,
        "coordinator",
        "init",
        str(path),
    ]
    assert subprocess.run(command, check=False, capture_output=True).returncode == code
    assert path.exists() == (code == 0)


@pytest.mark.parametrize(
    "text",
    [
        "coordinator.core:Core._fused:enter:1",  # a misspelt function
        "coordinator.cores:Core._fuse:enter:1",  # a misspelt module
        "coordinator.core:Core:enter:1",  # a class is never entered
        "coordinator.core:Core._fuse.inner:enter:1",
    ],
)
def test_a_name_that_stands_for_no_function_is_refused_before_the_program_starts(text, tmp_path):
    path = tmp_path / "fleet.toml"
    with pytest.raises(UsageError, match="is no instant"):
        resolve(Failpoint.parse(text))
    command = [
        sys.executable,
        "-m",
        "simulators.faults.failpoint",
        text,
        "coordinator",
        "init",
        str(path),
    ]
    assert subprocess.run(command, check=False, capture_output=True).returncode not in (0, -9)
    assert not path.exists()


def counted(failpoint, work):
    """How often the failpoint would have killed the program while this is done."""
    deaths = []
    hook = watch(failpoint, lambda: deaths.append(failpoint))
    sys.setprofile(hook)
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(deaths)


def open_and_close(folder):
    store = Store(folder)
    store.note(boot="b")
    store.close()


@pytest.mark.parametrize("edge", ["enter", "leave"])
def test_it_strikes_at_the_n_th_time_and_once(tmp_path, edge):
    def work():
        for number in range(3):
            open_and_close(tmp_path / str(number))

    for number, struck in ((1, 1), (3, 1), (4, 0)):
        assert counted(Failpoint.of(Store.note, edge, number), work) == struck


def test_a_function_of_the_same_name_elsewhere_is_not_meant(tmp_path):
    class Other:
        def note(self):
            pass

    assert counted(Failpoint.of(Store.note, "enter", 1), Other().note) == 0


def test_leaving_by_an_exception_counts(tmp_path):
    def fail():
        with pytest.raises(Exception, match="no such file"):
            Store(tmp_path, create=False)

    assert counted(Failpoint.of(Store.__init__, "leave", 1), fail) == 1


def test_any_function_and_any_statement_are_those_of_the_package_alone(tmp_path):
    def elsewhere():
        sqlite3.connect(":memory:").execute("SELECT 1")

    for name in (ANY, STATEMENT):
        failpoint = Failpoint("edge_agent", name, "enter", 1)
        assert counted(failpoint, elsewhere) == 0
        assert counted(failpoint, lambda: open_and_close(tmp_path)) == 1


def test_what_a_program_starts_dies_at_a_failpoint_too_each_process_at_its_own(tmp_path):
    here = [sys.executable, "-m", "protofleet"]
    deaths = [Failpoint("protofleet.cli", ANY, "enter", number) for number in (1, 2)]
    words = condemn(tmp_path / "deaths", "protofleet", deaths)
    codes = [
        subprocess.run([*words, *here, "--version"], check=False, capture_output=True).returncode
        for _ in range(3)
    ]
    assert codes == [-9, -9, 0]
    assert len(list((tmp_path / "deaths").glob("*.taken"))) == 2
