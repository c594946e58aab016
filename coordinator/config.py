"""What a coordinator is told: `fleet.toml`, resolved. Flags go before the environment, that before
the file.

Secrets are never in it: a broker's password comes from a file that is named here, or from the
environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from protofleet.contract import Budget, Contract, Input, Numerics, Resize, Training, Wire
from protofleet.errors import SettingError, UsageError
from protofleet.masking.rooms import MaskTerms
from protofleet.settings import layers
from protofleet.settings.broker import FILES, BrokerSection
from protofleet.settings.fields import from_plain, setting
from protofleet.settings.home import HomeSection
from protofleet.settings.page import PageSection

if TYPE_CHECKING:
    from protofleet.recipe import Recipe

DEFAULT = Path("fleet.toml")


@dataclass(frozen=True)
class ServeSection:
    """Which fleet is served, and when its rounds open and close."""

    fleet: str = setting(
        "fleet",
        "the fleet's name, the same word at every device",
        flag="The fleet's name.",
    )
    method: str = setting("fleet", "a method of `protofleet methods`")
    data_dir: str = setting(
        "coordinator-data",
        "where the journal is kept; relative to this file",
        flag="Where the journal is kept.",
    )
    journal: str = setting(
        "",
        "a PostgreSQL database that holds the journal, as postgresql://HOST/NAME, so that another"
        " machine can take over; empty: SQLite, in data_dir",
        flag="Keep the journal in PostgreSQL, as postgresql://HOST/NAME.",
    )
    run: str = setting(
        "",
        "name of the run; empty: one is made for a new journal",
        flag="Name of the run; by default one is made up.",
    )
    rounds: int = setting(0, "rounds in all; 0: no end", low=0)
    min_agents: int = setting(1, "devices that must be there before a round opens", low=1)
    quorum: float = setting(
        0.8, "share of those asked that is enough at the deadline", low=0, high=1
    )
    round_timeout: float = setting(
        300.0,
        "seconds from a round's announcement to its deadline",
        low=0.1,
        flag="Seconds from announcement to deadline.",
    )
    every: float = setting(
        0.0,
        "seconds from one round's opening to the next, at least",
        low=0,
        flag="Seconds from one round's opening to the next, at least.",
    )
    participation: float = setting(
        1.0, "share of the devices that is asked in a round", low=0, high=1
    )
    max_staleness: int = setting(0, "rounds an upload may be late and still be fused", low=0)
    mode: Literal["sync", "async"] = setting(
        "sync",
        "async: fuse whenever `cut` uploads have come",
        flag="sync, or async: fuse whenever --cut uploads have come.",
    )
    cut: int = setting(
        5, "async: uploads that make a round", low=1, flag="async: uploads that make a round."
    )
    ingest: int = setting(
        1,
        "processes that take uploads of rounds in: more than one share a subscription, which the"
        " broker must know (MQTT 5)",
        low=1,
        high=64,
        flag="Processes that take uploads in.",
    )
    lost_after: float = setting(
        120.0,
        "seconds after which a device that was lost is neither asked nor waited for; one that was"
        " asked and says nothing is lost after two deadlines, too",
        low=0,
    )
    enrol: Literal["auto", "manual", "off"] | None = setting(
        None,
        "classes that devices enrol: let in (auto), kept until an operator admits them (manual), or"
        " refused (off); none: auto where the broker is on this machine and asks nobody who they"
        " are, else manual",
    )
    keep_rounds: int = setting(
        1000, "rounds whose bytes are kept for replay; older ones by hash only", low=1
    )
    log_format: Literal["text", "json"] = setting(
        "text", "text or json, to stderr", flag="text or json."
    )


@dataclass(frozen=True)
class ServingBroker(BrokerSection):
    """How the coordinator reaches the broker, and what it may send there."""

    cert: str = setting(
        "", "a file with this coordinator's certificate, where the broker asks for one"
    )
    packet: int = setting(
        131_072,
        "largest message; what is longer goes in pieces (hosted brokers: 128 KiB)",
        low=1024,
    )


@dataclass(frozen=True)
class RelaySection(BrokerSection):
    """Of a site (`coordinator relay`): which fleet it is a member of."""

    url: str = setting(
        "", "the broker of the fleet above, as mqtts://host:8883; empty: this is no site"
    )
    cert: str = setting("", "a file with this site's certificate, where the broker asks for one")
    name: str = setting("", "this site's name there, as [admission] sites has it there")
    interval: float = setting(
        1.0,
        "seconds from one sum of its devices to the next that it says there, at least: each is"
        " whole (3 MB of 1,280 features)",
        low=0,
    )


@dataclass(frozen=True)
class UploadLimits:
    """What no honest device exceeds, held against each upload by itself; `coordinator limits` reads
    a fleet's own off its journal.
    """

    largest: float = setting(1e5, "largest number in an upload, in size", low=0)
    norm: float = setting(1e5, "largest length of one prototype, or of a mixture's mean", low=0)
    count: int = setting(100_000_000, "most samples a device may say it has of a class", low=1)
    samples: int = setting(
        100_000_000, "most samples a device may say it has in all: what it weighs", low=1
    )
    trace: float = setting(
        1e10, "largest trace of a covariance: samples' mean squared distance to their mean", low=0
    )


@dataclass(frozen=True)
class Bounds(UploadLimits):
    """What is let in."""

    devices: int = setting(
        10_000, "most devices: beyond them a new one takes the place of one that is gone", low=1
    )
    sites: tuple[str, ...] = setting(
        (),
        "coordinators of sites, by name, which may say the sum of many devices"
        " (`coordinator relay`); none: nobody",
    )


@dataclass(frozen=True)
class LedgerSection:
    """When what devices contributed is published and counted against."""

    interval: float = setting(
        1.0,
        "seconds from one published classifier to the next, at least; and of more than a thousand"
        " devices a millisecond each",
        low=0,
    )
    settle: float = setting(
        20.0,
        "seconds without a change after which devices count how well all of it classifies",
        low=0,
    )
    asked: int = setting(50, "devices that count, on average: each fetches the whole total", low=1)


@dataclass(frozen=True)
class RolloutSection:
    """When classes are shown to a few devices before all have them."""

    versions: float = setting(
        0.0,
        "share of the devices that new versions of a ledger and of its classes are shown to first,"
        " and held to their labelled samples; 0: to all at once",
        low=0,
        high=0.5,
    )
    error: float = setting(0.1, "share of them that may find it worse", low=0, high=1)
    trigger: float = setting(0.9, "share of them that must have proved it", low=0, high=1)
    margin: float = setting(0.03, "accuracy that it may lose", low=0, high=1)
    settle: float = setting(30.0, "seconds in use before a device has proved it", low=0)
    patience: float = setting(
        600.0, "seconds that a device may take, or the whole share be away", low=1
    )


@dataclass(frozen=True)
class TrustSection:
    """Who is believed, how devices that are invited come to the fleet, and how much what is
    published may tell.
    """

    signatures: Literal["auto", "required", "accepted", "off"] = setting(
        "auto",
        "words of devices: taken with a member's signature alone (required), from others than"
        " members without one, too (accepted), or as they come (off); auto: required once a device"
        " was invited, else off",
    )
    broker: str = setting(
        "", "how devices reach the broker, in invitations; empty: as [broker] url has it"
    )
    door: str = setting(
        "",
        "where who was invited asks for a certificate; empty: the next port of an mqtts:// broker,"
        " else the broker itself",
    )
    secure_sum: bool = setting(
        False,
        "what devices send is masked, so that this coordinator learns its total and nothing else;"
        " for methods that add up, see docs/privacy.md",
    )
    dropouts: int = setting(
        1, "secure_sum: devices of a group that may be lost; with more there is no total", low=0
    )
    mask_norm: float = setting(
        MaskTerms.norm, "secure_sum: largest length of a prototype that has room", low=1e-6
    )
    mask_largest: float = setting(
        MaskTerms.largest, "secure_sum: largest number of a network that has room", low=1e-6
    )
    mask_samples: int = setting(
        MaskTerms.samples, "secure_sum: most samples of one device that have room", low=1
    )
    epsilon: float = setting(
        0.0,
        "noise on what is published, so that the whole run tells no more of one sample (method"
        " fleet) or one device (methods that send means); 0: none",
        low=0,
    )
    delta: float = setting(1e-5, "with epsilon: how likely it may tell more", low=1e-300, high=1)
    clip: float = setting(
        16.0, "with epsilon: a sample's features, or a device's means, no longer than this", low=0
    )
    publications: int = setting(
        0,
        "with epsilon, where devices train: in how many rounds it is spent, after which none opens;"
        " 0: in all of [serve] rounds",
        low=0,
    )


@dataclass(frozen=True)
class ContractSection:
    """The fleet's contract, but for the names of fleet and run; `edge-agent contract` prints it
    from data.
    """

    classes: tuple[str, ...] = ()  # none: a fleet that adds up contributions learns them of devices
    input: Input | None = None  # none: as the extractor takes it
    embedding: int = 0  # 0: as wide as the method's own backbone, else 128
    seed: int = 0
    head_hidden: tuple[int, ...] = ()
    training: Training = field(default_factory=Training)
    numerics: Numerics = field(default_factory=Numerics)
    wire: Wire = "half"
    averaging: int = 0
    common_start: bool | None = None  # none: as the method says
    pretrained: str = ""
    freeze: bool = False
    unit_embedding: bool = False
    head_relu: bool = False
    unit_logits: bool = False
    neck: tuple[int, ...] = ()
    resize: Resize = "linear"
    extractor: str = ""  # the bundle that all devices see through; none: random filters


@dataclass(frozen=True)
class FleetConfig:
    """Everything `coordinator serve` goes by."""

    contract: ContractSection = field(default_factory=ContractSection)
    serve: ServeSection = field(default_factory=ServeSection)
    broker: ServingBroker = field(default_factory=ServingBroker)
    relay: RelaySection = field(default_factory=RelaySection)
    admission: Bounds = field(default_factory=Bounds)
    ledger: LedgerSection = field(default_factory=LedgerSection)
    rollout: RolloutSection = field(default_factory=RolloutSection)
    trust: TrustSection = field(default_factory=TrustSection)
    homeassistant: HomeSection = field(default_factory=HomeSection)
    page: PageSection = field(default_factory=PageSection)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def data_dir(self) -> Path:
        """Where the journal is."""
        return Path(self.serve.data_dir)

    @property
    def masks(self) -> MaskTerms | None:
        """What devices are told of masked sums, where there are any: of what is let in and what has
        room the closer.
        """
        trust, most = self.trust, self.admission
        if not trust.secure_sum:
            return None
        norm = min(most.norm, trust.mask_norm)
        return MaskTerms(
            trust.dropouts,
            norm,
            min(most.largest, trust.mask_largest),
            min(most.samples, trust.mask_samples),
            min(most.trace, norm**2),
        )

    def contract_for(
        self,
        run: str,
        recipe: Recipe[Any],
        taken_in: Input | None = None,
        budget: Budget | None = None,
    ) -> Contract:
        """The contract as it is announced; `taken_in` is what the extractor is fed with."""
        section, traits = self.contract, recipe.traits
        freeze = section.freeze or traits.frozen
        common_start = section.common_start
        if common_start is None:
            # Devices that keep their extractor as it is can only agree on it by starting alike.
            common_start = traits.common_start or freeze
        widths = traits.widths(
            section.embedding or traits.embedding or 128,
            () if traits.frozen else section.head_hidden,
        )
        resolved = replace(
            section,
            common_start=common_start,
            freeze=freeze,
            embedding=widths.embedding,
            head_hidden=widths.head_hidden,
            neck=section.neck or widths.neck,
            head_relu=section.head_relu and not traits.frozen,
            unit_logits=section.unit_logits and not traits.frozen,
        )
        terms = {name: term for name, term in vars(resolved).items() if name != "extractor"}
        terms |= {"input": section.input or taken_in, "masks": self.masks, "budget": budget}
        return Contract(self.serve.fleet, run, **terms)


def load(
    path: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, Mapping[str, Any]],
    *,
    site: bool = False,
) -> FleetConfig:
    """The file (where one is given), under the environment, under the command line's flags. The
    contract of a `site` is not in it: that is the fleet's above.
    """
    # Recipes bring numpy, and the flags of `serve` are made from this module: help comes without.
    from protofleet import registry

    document: layers.Sections = {}
    if path is not None:
        document = layers.read(path, "`coordinator init` writes one")
        _anchor(document, path.absolute().parent)
    document = layers.laid(
        document,
        layers.from_environment(
            {"serve": ServeSection, "broker": ServingBroker, "page": PageSection}, environ
        ),
        flags,
    )
    settings = document.pop("settings", {})
    config = from_plain(FleetConfig, document)
    recipe = registry.load(config.serve.method)
    # The method's own settings are kept as they are written: their class is known by the recipe
    # only. What is wrong with them is said now all the same, and not when the service is built.
    from_plain(recipe.hyper, settings, "settings")
    if config.serve.mode == "async" and not recipe.traits.asynchronous:
        raise UsageError(f"{recipe.name} cannot fuse uploads as they come", "use --mode sync")
    if config.relay.url and not site:
        raise UsageError(f"relay.url: {path} is a site's", "`coordinator relay` serves it")
    if not site:
        _contract_is_whole(config.contract, recipe)
    if config.trust.secure_sum:
        _can_be_masked(config.serve, config.contract, recipe)
    return replace(config, settings=settings)


def _contract_is_whole(section: ContractSection, recipe: Recipe[Any]) -> None:
    """Of a file that `init` wrote a part of the contract is there, but not what it is about."""
    ledger = recipe.traits.frozen
    if section.extractor and not ledger:
        raise SettingError(
            f"contract.extractor: devices of {recipe.name} train their own",
            "method fleet adds up what they see through one; or `coordinator freeze`",
        )
    if not (section.extractor or section.input) or not (ledger or section.classes):
        raise SettingError(
            "the fleet's [contract] is not given",
            "`edge-agent contract --data SOURCE >> fleet.toml` adds one",
        )


def _can_be_masked(serve: ServeSection, section: ContractSection, recipe: Recipe[Any]) -> None:
    """What masked sums do not go with, as far as it is known without a contract."""
    from protofleet.recipe import no_rooms

    if serve.mode == "async" or serve.max_staleness:
        raise SettingError(
            "trust.secure_sum: the sums of a group are those of one round, nothing is late in it",
            'mode = "sync" and max_staleness = 0',
        )
    if recipe.traits.frozen and not section.classes:
        raise SettingError(
            "trust.secure_sum: rows of a masked sum are of classes that all devices agree on",
            "[contract] classes names them",
        )
    if recipe.rooms is no_rooms:
        raise SettingError(
            f"trust.secure_sum: {recipe.name} sends more than sums, the coordinator must see each"
            " upload",
            "another method, or no secure_sum",
        )


@dataclass(frozen=True)
class Household:
    """As much of the settings as membership takes: it is of a fleet, whatever that learns."""

    fleet: str
    data_dir: Path
    reach: tuple[str, str]  # the broker, and its door, as devices are told


def household(
    path: Path | None, environ: Mapping[str, str], data_dir: Path | None = None
) -> Household:
    """Read off the same places as everything else, without a contract."""
    sections = {"serve": ServeSection, "broker": ServingBroker, "trust": TrustSection}
    document: layers.Sections = {}
    if path is not None:
        document = layers.read(path, "`coordinator init` writes one")
        _anchor(document, path.absolute().parent)
    document = layers.laid(document, layers.from_environment(sections, environ))
    serve = from_plain(ServeSection, document.get("serve", {}), "serve")
    broker = from_plain(ServingBroker, document.get("broker", {}), "broker")
    trust = from_plain(TrustSection, document.get("trust", {}), "trust")
    url = trust.broker or broker.url
    return Household(serve.fleet, data_dir or Path(serve.data_dir), (url, trust.door or door(url)))


def page_of(path: Path | None, environ: Mapping[str, str]) -> PageSection:
    """Where the operator's page listens, whatever else is in the settings."""
    document = {} if path is None else layers.read(path, "`coordinator init` writes one")
    document = layers.laid(document, layers.from_environment({"page": PageSection}, environ))
    return from_plain(PageSection, document.get("page", {}), "page")


def door(url: str) -> str:
    """Where who has no certificate asks, if nobody says: at a broker of ours the next port."""
    parts = urlsplit(url)
    if parts.scheme != "mqtts":
        return url
    port = (parts.port or 8883) + 1
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"mqtts://{host}:{port}"


def data_dir_of(path: Path) -> Path:
    """Where this file's coordinator keeps its journal, whatever else is in the file."""
    document = layers.read(path, "`coordinator init` writes one")
    _anchor(document, path.absolute().parent)
    return Path(document["serve"]["data_dir"])


def _anchor(document: layers.Sections, folder: Path) -> None:
    """Paths in the file are relative to the file."""
    serve = document.setdefault("serve", {})
    place = serve.get("data_dir", ServeSection.data_dir)
    if not isinstance(place, str):
        raise SettingError(f"serve.data_dir: {place!r} is not text")
    serve["data_dir"] = str(folder / place)
    for section in (document.get("broker", {}), document.get("relay", {})):
        for name in FILES:
            if isinstance(section.get(name), str) and section[name]:
                section[name] = str(folder / section[name])
    contract = document.get("contract", {})
    if isinstance(contract.get("extractor"), str) and contract["extractor"]:
        contract["extractor"] = str(folder / contract["extractor"])


def as_toml(limits: UploadLimits | None = None) -> str:
    """A commented `fleet.toml` with every default, or with limits that are known. No `[contract]`:
    TOML has a section once, and `edge-agent contract` writes it.
    """
    lines = [
        "# What a coordinator goes by. [contract] and [contract.input] are not in it yet:",
        "#   edge-agent contract --data SOURCE >> fleet.toml",
        "# adds them; three more settings may stand in [contract]:",
        '#   extractor = "X.pfb"  # of method fleet: what all devices see through, made by',
        "#                           # `protofleet extractor`; without it: random filters",
        "#   embedding = 0  # size of what devices exchange; 0: the method's own, else 128",
        "#   seed = 0  # everything random comes from it",
    ]
    sections = {
        "serve": ServeSection(),
        "broker": ServingBroker(),
        "relay": RelaySection(),
        "contract.training": Training(),
        "admission": Bounds() if limits is None else Bounds(**vars(limits)),
        "ledger": LedgerSection(),
        "rollout": RolloutSection(),
        "trust": TrustSection(),
        "homeassistant": HomeSection(),
        "page": PageSection(),
    }
    for name, section in sections.items():
        lines += ["", f"[{name}]", *layers.as_toml(section)]
    return "\n".join(
        [*lines, "", "[settings]  # of the method: `protofleet methods show NAME`", ""]
    )
