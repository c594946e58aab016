"""A server of PostgreSQL for tests: reached by its socket alone, and back after its death."""

import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from simulators.databases import server
from simulators.databases.server import ServerError


def test_it_listens_nowhere_and_runs_as_nobody_who_is_somebody(postgres):
    assert postgres.ask("postgres", "SHOW listen_addresses") == [("",)]
    assert postgres.folder.stat().st_mode & 0o077 == 0
    pid = int((postgres.folder / "data" / "postmaster.pid").read_text().split()[0])
    assert Path(f"/proc/{pid}").stat().st_uid == postgres.folder.stat().st_uid
    assert postgres.folder.stat().st_uid != 0 or os.geteuid() != 0


def test_what_was_committed_outlives_it(postgres):
    name = urlsplit(postgres.database()).path[1:]
    postgres.ask(name, "CREATE TABLE t AS SELECT 7 AS x")
    postgres.kill()
    postgres.start()
    assert postgres.ask(name, "SELECT x FROM t") == [(7,)]


def test_who_has_none_is_told_what_to_do(monkeypatch):
    monkeypatch.setattr(server.shutil, "which", lambda name: None)
    monkeypatch.setattr(server, "LIKELY", ())
    with pytest.raises(ServerError, match="make system"):
        server.programs()
    assert not server.startable()
