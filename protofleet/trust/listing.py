"""Which bundles a device may run: a list by the rules of The Update Framework, in one message.

What The Update Framework says about keys, versions and dates, python-tuf holds; here is only how
its files travel, and where they are kept.
"""

# Theory of operation
#
# A bundle is a program. The fleet's key, which signs all words, lies on a machine that is always
# online; who takes it could have every device run another program. So what may be run is listed
# under keys that lie elsewhere (https://theupdateframework.github.io/specification/latest/):
#
#   role        signed with                  says
#   root        a key that is kept offline   which keys the other roles have
#   targets     a key that is kept offline   which bundles there are: sha256 and length
#   snapshot    the coordinator's own        which list is the newest
#   timestamp   the coordinator's own        the same, and that it is so today
#
#   attack                               what meets it
#   another bundle                       it is not in the list
#   another list, other keys             signatures of targets and root
#   an old list                          versions, which are remembered and only rise
#   no newer list (freezing)             the timestamp is for a day, and made anew each hour
#   a list that nobody stands by still   dates of targets and root
#
# One retained message has all files, a few kilobytes. A device believes the root that it was given
# when it joined, or, if the fleet had no list then, the first that its fleet's key shows it; and
# from then on what that root leads to. Without a list bundles are what the fleet's key says.
#
# A list is held to the dates again whenever a bundle is about to be fetched. What runs goes on
# running: a device that hears nothing for weeks takes nothing new, and loses nothing.

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from protofleet.errors import TrustError, WireError
from protofleet.util.files import OWN_FILE, own_folder, write_whole
from protofleet.wire import strict
from protofleet.wire.limits import Limits

if TYPE_CHECKING:
    from tuf.api.metadata import TargetFile

LIMITS = Limits(message=100_000, items=600)
ROOT = "1.root.json"
BASE = "list:/"  # where python-tuf believes to fetch from


def pack(files: Mapping[str, bytes]) -> bytes:
    """The files of a list, as they travel."""
    return strict.dump(dict(files), LIMITS, "listing")


def unpack(payload: bytes) -> dict[str, bytes]:
    """The files of a list that came."""
    try:
        files = strict.load(payload, LIMITS, "listing")
    except WireError as error:
        raise TrustError(error.words) from None
    if not isinstance(files, dict) or not all(isinstance(f, bytes) for f in files.values()):
        raise TrustError("listing: no files")
    return files


def target(digest: str) -> str:
    """The name of a bundle in the list."""
    return f"{digest}.pfb"


class BundleList:
    """The newest list of a device's fleet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, payload: bytes) -> None:
        """A list that the fleet says is the newest; `TrustError` if it is not, and the one before
        stays.
        """
        files = unpack(payload)
        own_folder(self._folder)
        pinned = self._folder / "pinned.json"
        first = pinned.read_bytes() if pinned.exists() else files.get(ROOT, b"")
        self._checked(files, first)
        if not pinned.exists():
            write_whole(pinned, first, mode=OWN_FILE)
        write_whole(self._folder / "newest.cbor", payload, mode=OWN_FILE)

    def pin(self, root: bytes) -> None:
        """The root that this device was given when it joined; one that it has stays."""
        if root and not (self._folder / "pinned.json").exists():
            write_whole(own_folder(self._folder) / "pinned.json", root, mode=OWN_FILE)

    def check(self, digest: str, size: int) -> None:
        """Whether a bundle may be fetched; `TrustError` if the fleet's list says no, or is old."""
        newest = self._folder / "newest.cbor"
        if not newest.exists():
            if (self._folder / "pinned.json").exists():
                raise TrustError(f"bundle {digest[:16]}: the fleet's list has not come yet")
            return
        files = unpack(newest.read_bytes())
        entry = self._checked(files, (self._folder / "pinned.json").read_bytes(), target(digest))
        if entry is None:
            raise TrustError(f"bundle {digest[:16]}: the fleet's list does not have it")
        if entry.hashes.get("sha256") != digest or entry.length != size:
            raise TrustError(f"bundle {digest[:16]}: the fleet's list has another of that name")

    def _checked(
        self, files: Mapping[str, bytes], first: bytes, name: str | None = None
    ) -> TargetFile | None:
        """Through all of python-tuf's checks, as of now; the entry of this name, if one is due."""
        from tuf.api.exceptions import DownloadError, RepositoryError
        from tuf.ngclient import Updater

        try:
            updater = Updater(
                str(self._folder / "metadata"), BASE, fetcher=_given(files), bootstrap=first
            )
            updater.refresh()
            return None if name is None else updater.get_targetinfo(name)
        except (RepositoryError, DownloadError, ValueError, OSError) as error:
            words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise TrustError(f"listing: {words}") from None


def _given(files: Mapping[str, bytes]) -> Any:
    """What python-tuf fetches from: the files of one message."""
    from tuf.api.exceptions import DownloadHTTPError
    from tuf.ngclient import FetcherInterface

    class Given(FetcherInterface):
        def _fetch(self, url: str) -> Iterator[bytes]:
            data = files.get(url.removeprefix(BASE))
            if data is None:
                raise DownloadHTTPError("not in the message", 404)
            return iter([data])

    return Given()
