"""The fleet's list of bundles: made with keys that are kept offline, and said to be the newest with
one that is not.

The rules are The Update Framework's (`protofleet.trust.listing`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from protofleet.errors import TrustError, UsageError
from protofleet.trust import keys, listing
from protofleet.util.files import OWN_FILE, own_folder, write_whole

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner
    from tuf.api.metadata import Metadata, Targets

FOLDER = "bundles"  # below `trust/`
ROOT_DAYS, TARGETS_DAYS = 3650, 365
FRESH = timedelta(days=1)  # for which a timestamp holds
EVERY = 3600.0  # seconds after which another is made


class Vault:
    """What of the list lies at the coordinator: everything but the keys of root and targets."""

    def __init__(self, trust: Path, wall: Callable[[], float]) -> None:
        self.folder, self._wall = trust / FOLDER, wall

    @property
    def exists(self) -> bool:
        """Whether bundles are listed."""
        return (self.folder / listing.ROOT).exists()

    @property
    def root(self) -> bytes:
        """What a device that joins is to believe; empty where bundles are not listed."""
        return (self.folder / listing.ROOT).read_bytes() if self.exists else b""

    def init(self, offline: Path) -> None:
        """Keys for root and targets, in a folder that is to be taken away, and an empty list."""
        from tuf.api.metadata import Metadata, Root, Targets

        if self.exists:
            raise UsageError(f"{self.folder} has a list already")
        if offline.exists() and any(offline.iterdir()):
            raise UsageError(f"{offline} is not empty", "name a new folder")
        own_folder(offline)
        own_folder(self.folder)
        signers = {role: _signer(offline / f"{role}.key") for role in ("root", "targets")}
        online = _signer(self.folder / "online.key")
        root = Root(expires=self._now + timedelta(days=ROOT_DAYS), consistent_snapshot=False)
        for role, signer in (*signers.items(), ("snapshot", online), ("timestamp", online)):
            root.add_key(signer.public_key, role)
        self._write(listing.ROOT, Metadata(root), signers["root"])
        empty = Targets(expires=self._now + timedelta(days=TARGETS_DAYS))
        self._write("targets.json", Metadata(empty), signers["targets"])

    def sign(self, offline: Path, bundles: Sequence[Path]) -> list[str]:
        """List these bundles, and no other; their sha256."""
        from tuf.api.metadata import TargetFile

        self._need()
        if not (offline / "targets.key").is_file():
            raise UsageError(f"{offline} holds no targets.key", "`coordinator keys init` made it")
        metadata, digests = self._targets(), []
        metadata.signed.targets = {}
        for bundle in bundles:
            try:
                data = bundle.read_bytes()
            except OSError as error:
                raise UsageError(f"{bundle}: {error.strerror}", "a .pfb file is due") from None
            digest = sha256(data).hexdigest()
            name = listing.target(digest)
            metadata.signed.targets[name] = TargetFile(len(data), {"sha256": digest}, name)
            digests.append(digest)
        metadata.signed.version += 1
        metadata.signed.expires = self._now + timedelta(days=TARGETS_DAYS)
        self._write("targets.json", metadata, _signer(offline / "targets.key"))
        return digests

    def publication(self) -> bytes:
        """The list as devices get it, said to be the newest until a day from now."""
        from tuf.api.metadata import Metadata, MetaFile, Snapshot, Timestamp

        self._need()
        # Versions only rise, also where the clock is set back.
        version = max(self._version() + 1, int(self._wall()))
        write_whole(self.folder / "version", str(version).encode(), mode=OWN_FILE)
        online, until = _signer(self.folder / "online.key"), self._now + FRESH
        of_targets = MetaFile(self._targets().signed.version)
        snapshot = Metadata(Snapshot(version, expires=until, meta={"targets.json": of_targets}))
        timestamp = Metadata(Timestamp(version, expires=until, snapshot_meta=MetaFile(version)))
        files = {name: (self.folder / name).read_bytes() for name in (listing.ROOT, "targets.json")}
        for name, metadata in (("snapshot.json", snapshot), ("timestamp.json", timestamp)):
            metadata.sign(online)
            files[name] = metadata.to_bytes()
        return listing.pack(files)

    @property
    def stamp(self) -> int:
        """Another number whenever a command wrote the list."""
        path = self.folder / "targets.json"
        return path.stat().st_mtime_ns if path.exists() else 0

    def _version(self) -> int:
        path = self.folder / "version"
        return int(path.read_text()) if path.exists() else 0

    def _targets(self) -> Metadata[Targets]:
        from tuf.api.metadata import Metadata

        return Metadata.from_bytes((self.folder / "targets.json").read_bytes())

    def _write(self, name: str, metadata: Metadata[Any], signer: CryptoSigner) -> None:
        metadata.sign(signer)
        write_whole(self.folder / name, metadata.to_bytes(), mode=OWN_FILE)

    def _need(self) -> None:
        if not self.exists:
            raise TrustError(f"{self.folder} has no list", "`coordinator keys init` makes one")

    @property
    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._wall(), UTC).replace(microsecond=0)


def _signer(path: Path) -> CryptoSigner:
    from importlib.util import find_spec

    if find_spec("tuf") is None:
        raise TrustError(
            "a list of bundles needs the package tuf", "pip install 'protofleet[coordinator]'"
        )
    from securesystemslib.signer import CryptoSigner

    return CryptoSigner(keys.of_file(path))
