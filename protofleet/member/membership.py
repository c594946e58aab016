"""Which fleet this device joined, and under which name: what is in `identity/` of its data
directory.

What joining writes there takes the place of settings that nobody made: id, fleet, broker and
certificates. To read it costs a small file, and no cryptography.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from protofleet.errors import SettingError
from protofleet.settings.broker import BrokerSection
from protofleet.util.files import OWN_FILE, own_folder, write_whole

if TYPE_CHECKING:
    from protofleet.mqtt.address import Address

FOLDER = "identity"


@dataclass(frozen=True)
class FleetMember:
    """A device's place in a fleet, and where what proves it lies."""

    fleet: str
    name: str
    broker: str
    folder: Path

    @property
    def key(self) -> Path:
        """The device's own key, which never leaves."""
        return self.folder / "device.key"

    @property
    def certificate(self) -> Path:
        """What the fleet's authority signed for it."""
        return self.folder / "device.pem"

    @property
    def authority(self) -> Path:
        """Whom this device believes about who else is of the fleet."""
        return self.folder / "authority.pem"

    @property
    def ring(self) -> Path:
        """The fleet's keys, under the authority's signature."""
        return self.folder / "ring.cose"

    def listing(self, lane: int) -> Path:
        """Where a process of this lane keeps the fleet's list of bundles."""
        return self.folder / f"list-{lane}"

    @property
    def certificates(self) -> tuple[Path, Path, Path]:
        """What a connection to the broker needs: authority, certificate, key."""
        return self.authority, self.certificate, self.key


def of_folder(data_dir: Path) -> FleetMember | None:
    """The fleet that the device of this data directory joined, if it did."""
    folder = data_dir / FOLDER
    path = folder / "member.json"
    try:
        document = json.loads(path.read_text("utf-8"))
        fleet, name, broker = (document[key] for key in ("fleet", "name", "broker"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise SettingError(f"{path} is damaged", "`edge-agent join TOKEN --force` anew") from None
    return FleetMember(str(fleet), str(name), str(broker), folder)


def reached(broker: BrokerSection, folder: str, environ: Mapping[str, str]) -> Address:
    """Where a command goes beside the daemon; as the member of this data directory, if one is
    named.
    """
    if not folder:
        return broker.address(environ)
    member = of_folder(Path(folder))
    if member is None:
        raise SettingError(f"{folder}: no fleet was joined there", "`edge-agent join TOKEN`")
    address = with_certificates(broker, member).address(environ)
    return replace(address, member=Path(folder))


def with_certificates(broker: BrokerSection, member: FleetMember) -> BrokerSection:
    """With what the fleet's authority signed, where nothing else was said and the broker can ask
    for it.
    """
    if not broker.url.startswith(("mqtts:", "wss:")) or broker.ca or broker.cert or broker.key:
        return broker
    ca, cert, key = (str(path) for path in member.certificates)
    return replace(broker, ca=ca, cert=cert, key=key)


def of_address(address: Address) -> FleetMember | None:
    """Who speaks there, if anybody who joined."""
    return None if address.member is None else of_folder(address.member)


def write(member: FleetMember) -> None:
    """From now on this device is a member; everything else is there already."""
    document = asdict(member)
    del document["folder"]
    data = json.dumps(document).encode()
    write_whole(own_folder(member.folder) / "member.json", data, mode=OWN_FILE)
