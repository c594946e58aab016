"""A PostgreSQL server of our own: in a folder of its own, behind a socket that only its user and
root can reach, and never the system's.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from protofleet.errors import FleetError

# The programs refuse to run as root: then they run as the user that the system's package made, or
# as nobody. Their folder lies where that user may go, which a test's own folder is not, and its
# name is short, as a socket's must be. No address is listened on.
#
# What is promised of disks is the server's affair, and is not tried here: nothing waits for them.
# A server that was killed finds all that it had committed in the memory of the machine.

USER = "protofleet"
PATIENCE = 60.0  # seconds
SETTINGS = (
    "listen_addresses=",
    "unix_socket_permissions=0700",
    "fsync=off",
    "full_page_writes=off",
    "shared_buffers=16MB",
    "max_connections=50",
    "autovacuum=off",
)
LIKELY = ("/usr/lib/postgresql", "/usr/local/lib/postgresql", "/opt/homebrew/opt")


class ServerError(FleetError):
    """No server can be started here."""

    code = "database"


class PostgresServer:
    """One server; it may be killed and come back."""

    def __init__(self, folder: Path, user: str | None) -> None:
        self.folder, self._user = folder, user
        self._programs = programs()
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-U", USER, "--auth-local=trust", "--auth-host=reject", "--no-sync")

    def start(self) -> None:
        """Come up, or up again."""
        words = self._command("postgres")
        for setting in (*SETTINGS, f"unix_socket_directories={self.folder}"):
            words += ["-c", setting]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                words, cwd=self.folder, stdout=log, stderr=log, **self._who
            )
        until = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                words_of_it = (self.folder / "server.log").read_text()[-300:]
                raise ServerError(f"PostgreSQL does not start: {' '.join(words_of_it.split())}")
            time.sleep(0.05)

    def kill(self) -> None:
        """All its processes end at once; it recovers when it is back."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def database(self) -> str:
        """The address of a new one."""
        name = f"fleet{next(self._numbers)}"
        self.ask("postgres", f"CREATE DATABASE {name}")
        return self.address(name)

    def address(self, name: str) -> str:
        """Of a database here."""
        return f"postgresql://{USER}@/{name}?host={self.folder}"

    def ask(self, name: str, statement: str) -> list[tuple[object, ...]]:
        """What a statement comes to there."""
        import psycopg

        with psycopg.connect(self.address(name), autocommit=True, connect_timeout=5) as session:
            done = session.execute(statement.encode())
            return done.fetchall() if done.description else []

    def _answers(self) -> bool:
        import psycopg

        try:
            return self.ask("postgres", "SELECT 1") == [(1,)]
        except psycopg.OperationalError:
            return False

    @property
    def _who(self) -> dict[str, Any]:
        """Whose processes they are, in words of `subprocess`."""
        return {} if self._user is None else {"user": self._user, "extra_groups": []}

    def _command(self, program: str) -> list[str]:
        return [str(self._programs / program), "-D", str(self.folder / "data")]

    def _run(self, program: str, *words: str) -> None:
        command = [*self._command(program), *words]
        done = subprocess.run(
            command, check=False, cwd=self.folder, capture_output=True, **self._who
        )
        if done.returncode:
            raise ServerError(f"{program}: {' '.join(done.stderr.decode().split())[:300]}")


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A server for as long as the block lasts; nothing of it is left."""
    user = _other_than_root()
    folder = Path(mkdtemp(prefix="pfpg-", dir="/tmp"))
    try:
        if user is not None:
            shutil.chown(folder, user)
        server = PostgresServer(folder, user)
        try:
            server.start()
            yield server
        finally:
            server.kill()  # nothing of it is to be kept
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def programs() -> Path:
    """The folder of the newest that is installed."""
    folders = [Path(os.path.realpath(found)).parent] if (found := shutil.which("postgres")) else []
    for likely in LIKELY:
        folders += sorted(Path(likely).glob("*/bin"), key=_version, reverse=True)
    for folder in folders:
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    raise ServerError("PostgreSQL's server is not installed", "`make system` installs it")


def startable() -> bool:
    """Whether one can be started here."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return False
    try:
        programs()
    except ServerError:
        return False
    return True


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in folder.parent.name.split(".") if part.isdigit())


def _other_than_root() -> str | None:
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
