"""Invitations and members: one SQLite file beside the journal, which commands and the service write
at the same time.
"""

# Theory of operation
#
#   table          a row                                   written by
#   invitations    a token: its public key, whose name,    `coordinator invite`; gone when it is
#                  for how many, until when                replaced by another for the same name
#   members        a name: its key, and by which           the service, when a device joins
#                  invitation it came
#   keys           every key that a name ever had, for  the service, with the member
#                  signatures of then
#   certificates   what the authority signed for whom,     the service; `coordinator revoke` says
#                  and whether it was taken back           so for all of a member's
#
# A name has one member at a time. One that was revoked stays in the table until another joins under
# its name; its key stays for good, so that what it signed can be verified.
#
# A token is for so many devices. It is used up by members that name it, and not by a count of its
# own: a device whose answer was lost asks again with the same key and is the same member.
#
# SQLite's own locks keep a command and the service apart. `version` tells the service that another
# process wrote: it costs a read of one page.

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from protofleet.errors import TrustError
from protofleet.util.files import own_database, own_folder

TABLES = """
CREATE TABLE IF NOT EXISTS invitations (
    id TEXT PRIMARY KEY, key BLOB NOT NULL, name TEXT NOT NULL, several INTEGER NOT NULL,
    expires REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS members (
    name TEXT PRIMARY KEY, key BLOB NOT NULL, invitation TEXT NOT NULL, joined REAL NOT NULL,
    revoked REAL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS keys (
    name TEXT NOT NULL, key BLOB NOT NULL, joined REAL NOT NULL, PRIMARY KEY (name, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS certificates (
    serial TEXT PRIMARY KEY, name TEXT NOT NULL, ends REAL NOT NULL, revoked REAL
) WITHOUT ROWID;
"""
PATIENCE = 10.0  # seconds for another process to finish its write


@dataclass(frozen=True)
class InvitationRecord:
    """A token that was given out; `several` is 0 for one device, else how many of a class."""

    id: str
    key: bytes
    name: str
    several: int
    expires: float


@dataclass(frozen=True)
class MemberRecord:
    """A device that joined."""

    name: str
    key: bytes
    invitation: str
    joined: float
    revoked: float | None
    ends: float = 0.0  # of its newest certificate


class RegistryError(TrustError):
    """What was asked may be right, and cannot be written down just now."""

    code = "registry"


class Registry:
    """The file and its tables."""

    def __init__(self, path: Path) -> None:
        own_folder(path.parent)
        try:
            self._db = sqlite3.connect(
                own_database(path), timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(TABLES)
        except sqlite3.Error as error:
            raise TrustError(f"{path}: {error}") from error

    def close(self) -> None:
        """Give the file back."""
        self._db.close()

    @property
    def version(self) -> int:
        """Another number whenever another process wrote."""
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    @contextmanager
    def commit(self) -> Iterator[None]:
        """One transaction: all of it or nothing, and nobody else in between."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except sqlite3.Error as error:  # a full disk, or another process that holds the file
            self._roll_back()
            words = f"the registry of members cannot be written: {error}"
            raise RegistryError(words, "is the disk full?") from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def invitation(self, id: str) -> InvitationRecord | None:
        """A token, by its name."""
        row = self._db.execute("SELECT * FROM invitations WHERE id=?", (id,)).fetchone()
        return None if row is None else InvitationRecord(*row)

    def invitations(self) -> list[InvitationRecord]:
        """All that nobody replaced."""
        rows = self._db.execute("SELECT * FROM invitations ORDER BY name, id")
        return [InvitationRecord(*row) for row in rows]

    def member(self, name: str) -> MemberRecord | None:
        """A device, by its name."""
        return next((m for m in self._members("WHERE m.name=?", name)), None)

    def members(self) -> list[MemberRecord]:
        """All, revoked ones too."""
        return self._members("")

    def of_invitation(self, id: str) -> list[MemberRecord]:
        """Who came by this token."""
        return self._members("WHERE m.invitation=?", id)

    def keys(self, name: str) -> list[bytes]:
        """Every key that was this name's, the newest last."""
        rows = self._db.execute("SELECT key FROM keys WHERE name=? ORDER BY joined", (name,))
        return [bytes(key) for (key,) in rows]

    def serials(self, now: float) -> list[int]:
        """Certificates that were taken back and would be in force else."""
        sql = "SELECT serial FROM certificates WHERE revoked IS NOT NULL AND ends > ?"
        return sorted(int(serial, 16) for (serial,) in self._db.execute(sql, (now,)))

    def put_invitation(self, of: InvitationRecord) -> None:
        """In the place of those for the same name that nobody used."""
        self._db.execute(
            "DELETE FROM invitations WHERE name=? AND several=? "
            "AND id NOT IN (SELECT invitation FROM members)",
            (of.name, of.several),
        )
        self._db.execute(
            "INSERT INTO invitations VALUES (?, ?, ?, ?, ?)",
            (of.id, of.key, of.name, of.several, of.expires),
        )

    def put_member(self, of: MemberRecord) -> None:
        """Joined, under a name that nobody has."""
        self._db.execute(
            "INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?, NULL)",
            (of.name, of.key, of.invitation, of.joined),
        )
        row = of.name, of.key, of.joined
        self._db.execute("INSERT OR REPLACE INTO keys VALUES (?, ?, ?)", row)

    def put_certificate(self, serial: int, name: str, ends: float) -> None:
        """Signed for this name; the same once more changes nothing."""
        row = f"{serial:x}", name, ends
        self._db.execute("INSERT OR IGNORE INTO certificates VALUES (?, ?, ?, NULL)", row)

    def revoke(self, name: str, now: float) -> None:
        """No word of this member's counts any more, nor any of its certificates."""
        self._db.execute("UPDATE members SET revoked=? WHERE name=?", (now, name))
        self._db.execute(
            "UPDATE certificates SET revoked=? WHERE name=? AND revoked IS NULL", (now, name)
        )

    def _members(self, where: str, *values: str) -> list[MemberRecord]:
        sql = (
            "SELECT m.name, m.key, m.invitation, m.joined, m.revoked, "
            "coalesce((SELECT max(ends) FROM certificates c WHERE c.name=m.name), 0) "
            f"FROM members m {where} ORDER BY m.name"
        )
        return [MemberRecord(*row) for row in self._db.execute(sql, values)]
