"""`agent.toml`: what one device is told. Flags go before the environment, that before the file,
that before defaults.

Secrets are never in it: a broker's password comes from a file that is named here, or from the
environment.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import time
from pathlib import Path
from typing import Any, Literal

from protofleet.errors import SettingError
from protofleet.member import membership
from protofleet.settings import layers
from protofleet.settings.broker import FILES, BrokerSection
from protofleet.settings.fields import from_plain, setting
from protofleet.settings.home import DeviceHome
from protofleet.settings.page import PageSection

Window = tuple[time, time]  # of the day; one that ends before it begins goes over midnight
_WINDOW = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")


@dataclass(frozen=True)
class AgentSection:
    """Who this device is and where it keeps what it must not lose."""

    id: str = setting(
        "", "this device's name in the fleet; empty: its host name", flag="This device's name."
    )
    data_dir: str = setting(
        "agent-data",
        "where checkpoint and outbox are kept; relative to this file",
        flag="Where checkpoint and outbox are kept.",
    )
    log_format: Literal["text", "json"] = setting(
        "text", "text or json, to stderr", flag="text or json."
    )
    export_every: int = setting(
        0, "write a bundle of the newest state every so many rounds; 0: never", low=0
    )
    export_to: str = setting(
        "bundle", "where that bundle goes, a folder or a .pfb file; relative to this file"
    )
    take_bundle: bool = setting(
        True,
        "take the bundle that the coordinator froze, and send class means through its extractor",
    )


@dataclass(frozen=True)
class FleetSection:
    """Which fleet this device belongs to."""

    name: str = setting(
        "fleet",
        "the same word at the coordinator and at every device",
        flag="The fleet's name.",
        flag_name="fleet",
    )


@dataclass(frozen=True)
class BeliefSection:
    """Whose words this device takes."""

    signatures: Literal["auto", "required", "off"] = setting(
        "auto", "required: run as a member of a fleet alone; auto: as one if it joined one"
    )
    secure_sum: bool = setting(
        False, "send nothing that is learned here but under masks: take part in no other rounds"
    )


@dataclass(frozen=True)
class DataSection:
    """What this device learns from."""

    source: str = setting(
        "",
        "a folder of images by class, an .npz, a data set's name, or module:function that returns"
        " arrays",
        flag="A folder of images by class, an .npz, or a data set's name.",
        flag_name="data",
    )
    rows: str = setting(
        "", "an .npz with the indices train, validation, test into the source; empty: all of it"
    )
    seed: int = setting(
        0, "chooses what is kept for testing where the source has no split of its own", low=0
    )
    test_share: float = setting(
        0.25, "share of each class kept for testing, for a folder without a split", low=0, high=0.9
    )
    image_size: int = setting(
        0, "pixels a side when the fleet's size is not known yet; 0: 32 for a folder", low=0
    )
    backbone: str = setting("", "this device's network; empty: one that fits the inputs")
    watch_seconds: float = setting(30.0, "look for new samples this often; 0: never", low=0)


@dataclass(frozen=True)
class LimitsSection:
    """What training may take from this device."""

    windows: tuple[str, ...] = setting(
        (), 'hours of the day in which it may train, as ["22:00-06:00"]; empty: always'
    )
    threads: int = setting(
        0,
        "threads it may use at most; the fleet's contract says how many it wants; 0: no bound",
        low=0,
    )
    cpu: float = setting(1.0, "share of the training threads' time", low=0.05, high=1)
    memory_mb: int = setting(0, "memory of the training process; 0: no bound", low=0)
    min_free_mb: int = setting(200, "free disk below which it does not train", low=0)
    daily_mb: float = setting(0.0, "bytes to and from the broker in a day; 0: no bound", low=0)
    nice: int = setting(10, "how far training stands back for everything else", low=0, high=19)
    idle_seconds: float = setting(
        300.0, "the training process ends after so long without work", low=1
    )
    evaluate: bool = setting(
        True, "measure accuracy on the kept samples whenever a new state comes"
    )

    def __post_init__(self) -> None:
        parse_windows(self.windows)


@dataclass(frozen=True)
class CameraSection:
    """What this device's cameras see, and to whom it is said."""

    sources: tuple[str, ...] = setting(
        (),
        'cameras, as ["door=rtsp://10.0.0.7/stream", "http://10.0.0.8/mjpeg", "/dev/video0",'
        ' "yard=incoming/"]; empty: none',
    )
    logins: str = setting(
        "", "a file with a line NAME USER:PASSWORD for each camera that asks for one"
    )
    bundle: str = setting(
        "",
        "what pictures are classified with; empty: the fleet's, in data_dir",
        flag="A bundle's folder or .pfb file; by default the fleet's, in the device's directory.",
    )
    every: float = setting(0.5, "seconds between two looks at a camera", low=0, high=3600)
    regions: tuple[str, ...] = setting(
        (),
        'parts looked at by themselves, as ["door=0.1,0.2,0.5,0.9"] (left, top, right, bottom) or'
        ' ["yard/gate=..."] of one camera; empty: the whole picture',
    )
    motion: float = setting(
        0.01,
        "share of a region that must change for another look at it; 0: looked at always",
        low=0,
        high=1,
        flag="Share of a region that must change for another look at it (0.01); 0: look always.",
    )
    smooth: int = setting(
        5,
        "frames that an answer is made of",
        low=1,
        high=1000,
        flag="Frames that an answer is made of (5).",
    )
    hold: int = setting(
        3,
        "looks in a row that an answer must hold before it is said",
        low=1,
        high=1000,
        flag="Looks in a row that an answer must hold before it is said (3).",
    )
    ask: bool = setting(True, "keep pictures that a person may be asked about")
    fleet: bool = setting(
        False,
        "the daemon says answers on this device's own topic at the fleet's broker, signed where it"
        " is a member",
    )
    mqtt: str = setting(
        "",
        "a broker of your own that answers go to, as plain JSON; empty: none",
        flag="Say answers, as plain JSON, at this broker (mqtt://home.local).",
    )
    mqtt_credentials: str = setting(
        "",
        "a file with user name and password for it",
        flag="A file with user name and password for that broker.",
    )
    mqtt_ca: str = setting(
        "",
        "a file with the authority that signed its certificate",
        flag="A file with the authority that signed its certificate.",
    )
    topic: str = setting(
        "protofleet",
        "the topic there; the camera's name, and .REGION, come behind it",
        flag="The topic there (protofleet); the camera's name, and .REGION, come behind it.",
    )
    retain: bool = setting(True, "the broker keeps the last answer for who comes later")
    webhook: str = setting(
        "",
        "an http:// or https:// address that answers are posted to; empty: none",
        flag="Post answers, as JSON, to this address.",
    )
    webhook_token: str = setting(
        "",
        "a file with a word that is sent along as Authorization: Bearer",
        flag="A file with a word that is sent along as Authorization: Bearer.",
    )
    queue: int = setting(
        1000, "answers kept on disk for each of these while they cannot be said", low=1, high=10**6
    )
    queue_hours: float = setting(24.0, "hours after which one is too old to be said", low=0.01)


@dataclass(frozen=True)
class RecentSection:
    """What is remembered of what this device saw, for its owner to name; on this device alone."""

    pictures: int = setting(500, "pictures that wait to be named, at most", low=1)
    megabytes: int = setting(100, "what they take on the disk, at most", low=1)
    days: float = setting(30.0, "after which a picture goes that nobody named", low=0)


@dataclass(frozen=True)
class Config:
    """One device, resolved."""

    agent: AgentSection = field(default_factory=AgentSection)
    broker: BrokerSection = field(default_factory=BrokerSection)
    fleet: FleetSection = field(default_factory=FleetSection)
    trust: BeliefSection = field(default_factory=BeliefSection)
    data: DataSection = field(default_factory=DataSection)
    limits: LimitsSection = field(default_factory=LimitsSection)
    homeassistant: DeviceHome = field(default_factory=DeviceHome)
    camera: CameraSection = field(default_factory=CameraSection)
    recent: RecentSection = field(default_factory=RecentSection)
    page: PageSection = field(default_factory=PageSection)

    @property
    def id(self) -> str:
        """The device's name."""
        return self.agent.id or host_name()

    @property
    def data_dir(self) -> Path:
        """Where the device's files are."""
        return Path(self.agent.data_dir)

    @property
    def album(self) -> Path:
        """Where pictures that are named on the page become samples."""
        return Path(self.data.source) if self.data.source else self.data_dir / ALBUM


ALBUM = "photos"  # of a device whose samples are what is named on its page
PATHS = {
    "agent": ("data_dir", "export_to"),
    "broker": FILES,
    "data": ("source", "rows"),
    "camera": ("logins", "bundle", "mqtt_credentials", "mqtt_ca", "webhook_token"),
}


def host_name() -> str:
    """This machine's name as a device may be called."""
    return (
        re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname().partition(".")[0]).strip("-.")
        or "device"
    )


def load(
    path: Path | None, environ: Mapping[str, str], flags: Mapping[str, Mapping[str, Any]]
) -> Config:
    """The file (where one is given), under the environment, under the command line's flags."""
    document: layers.Sections = {}
    if path is not None:
        document = _anchored(
            layers.read(path, "`edge-agent init` writes one"), path.absolute().parent
        )
    sections = {f.name: type(getattr(Config(), f.name)) for f in fields(Config)}
    document = layers.laid(document, layers.from_environment(sections, environ), flags)
    return _with_album(_as_member(from_plain(Config, document)))


def _with_album(config: Config) -> Config:
    """Where there is a page a device may begin without a sample."""
    if config.data.source or not config.page.listen:
        return config
    return replace(config, data=replace(config.data, source=str(config.album)))


def _as_member(config: Config) -> Config:
    """With what a device that joined a fleet was given, in the place of defaults."""
    member = membership.of_folder(config.data_dir)
    if member is None:
        return config
    default = Config()
    for what, setting_of, ours in (
        ("agent.id", config.agent.id, member.name),
        ("fleet.name", config.fleet.name, member.fleet),
    ):
        if setting_of not in ("", default.fleet.name, ours):
            raise SettingError(
                f"{what}: {setting_of!r}, but this device joined as {member.name} of"
                f" {member.fleet}",
                "another data_dir is another device",
            )
    broker = config.broker
    if broker.url == default.broker.url:
        broker = replace(broker, url=member.broker)
    broker = membership.with_certificates(broker, member)
    return replace(
        config,
        agent=replace(config.agent, id=member.name),
        fleet=replace(config.fleet, name=member.fleet),
        broker=broker,
    )


def from_pairs(pairs: tuple[str, ...]) -> layers.Sections:
    """`limits.nice=5` from a command line."""
    sections: layers.Sections = {}
    for pair in pairs:
        path, equals, text = pair.partition("=")
        section, dot, name = path.strip().partition(".")
        if not equals or not dot:
            raise SettingError(f"setting {pair!r} is not of the form section.name=value")
        sections.setdefault(section, {})[name] = text.strip()
    return sections


def as_toml(config: Config) -> str:
    """A commented `agent.toml` that reads back as this configuration."""
    lines = [
        "# What this device is told. `edge-agent config check` reads it and says what it found."
    ]
    for section in fields(config):
        settings = getattr(config, section.name)
        lines += ["", f"[{section.name}]  # {type(settings).__doc__}", *layers.as_toml(settings)]
    return "\n".join(lines) + "\n"


def need_source(config: Config) -> Config:
    """The configuration, if it says what to learn from."""
    if not config.data.source:
        raise SettingError(
            "data.source is not set", "name a folder, an .npz or a data set: --data, or agent.toml"
        )
    return config


def _anchored(document: layers.Sections, folder: Path) -> layers.Sections:
    """Paths in the file are relative to the file."""
    for section, names in PATHS.items():
        settings = document.get(section, {})
        for name in names:
            text = settings.get(name)
            if isinstance(text, str) and text:
                beside = folder / Path(text).expanduser()
                # A data set's name is no path: it becomes one only where something stands there.
                if name != "source" or beside.exists():
                    settings[name] = str(beside)
    cameras = document.get("camera", {}).get("sources")
    if isinstance(cameras, list):
        document["camera"]["sources"] = [_anchored_folder(text, folder) for text in cameras]
    # The defaults of these two are relative to the file as well, and not to where it is read.
    agent, defaults = document.setdefault("agent", {}), Config().agent
    agent.setdefault("data_dir", str(folder / defaults.data_dir))
    agent.setdefault("export_to", str(folder / defaults.export_to))
    return document


def _anchored_folder(text: Any, folder: Path) -> Any:
    """A camera that is a folder, beside the file; what is an address stays one."""
    if not isinstance(text, str) or "://" in text:
        return text
    name, equals, path = text.rpartition("=")
    beside = folder / Path(path).expanduser()
    return f"{name}{equals}{beside}" if path and beside.is_dir() else text


def with_id(config: Config) -> Config:
    """The configuration with the device's name filled in."""
    return replace(config, agent=replace(config.agent, id=config.id))


def parse_windows(texts: Sequence[str]) -> tuple[Window, ...]:
    """`["22:00-06:00"]` as pairs of times."""
    return tuple(_window(text) for text in texts)


def is_open(windows: Sequence[Window], now: time) -> bool:
    """Whether training may begin now; without windows always. A window may go over midnight."""
    return not windows or any(
        start <= now < end if start < end else now >= start or now < end for start, end in windows
    )


def _window(text: str) -> Window:
    match = _WINDOW.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError
        hour, minute, end_hour, end_minute = map(int, match.groups())
        # People write the end of a day as 24:00; `time` knows it as the next one's beginning only.
        return time(hour, minute), time(0 if end_hour == 24 else end_hour, end_minute)
    except ValueError:
        raise SettingError(f"limits.windows: {text!r} is not of the form 22:00-06:00") from None
