"""From a plan to a service that can run: journal, identity, rules, link."""

from __future__ import annotations

import json
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from coordinator.config import FleetConfig
from coordinator.core import HEARD_EPOCH, Core, Terms
from coordinator.devices import Patience
from coordinator.errors import JournalError
from coordinator.ingestion.crew import IngesterCrew
from coordinator.ingestion.words import ONE_NAME, IngestJob, Members
from coordinator.journal.database import REFUSED, WriteClaim
from coordinator.journal.journal import Journal
from coordinator.ledger.admission import Policy
from coordinator.ledger.extractor import input_of
from coordinator.members.office import Office, is_by_invitation
from coordinator.messages import Messages
from coordinator.relay.agreement import FleetAgreement
from coordinator.relay.member import SiteMember
from coordinator.relay.reach import FleetAbove
from coordinator.relay.site import SITE, SiteRelay, SiteTerms
from coordinator.relay.uplink import Uplink
from coordinator.rounds import selection
from coordinator.rounds.machine import RoundRules, RunState
from coordinator.service import extractors, spending
from coordinator.service.blobs import BlobServer
from coordinator.service.control import Control, Request
from coordinator.service.doorkeeper import Doorkeeper
from coordinator.service.home import FleetHome
from coordinator.service.lookout import Lookout
from coordinator.service.loop import Service, ServiceDeps
from coordinator.service.seals import Seals, of_retained
from coordinator.uploads.validation import Expected
from protofleet import registry
from protofleet.budget.private import Private, of_contract
from protofleet.contract import Contract
from protofleet.errors import FusionError, SettingError
from protofleet.mqtt.address import Address
from protofleet.mqtt.blobs.descriptor import BlobLimits
from protofleet.mqtt.link.events import Publication, Will
from protofleet.mqtt.link.link import Link, LinkSettings
from protofleet.mqtt.topics import Topics
from protofleet.recipe import Recipe, Turn
from protofleet.settings.fields import from_plain, to_plain
from protofleet.trust.sequence import Numbers
from protofleet.util.files import exposed
from protofleet.util.logs import Log
from protofleet.util.systemd import Notifier
from protofleet.wire import epochs

GROUP = 512  # uploads written together at most: the broker holds delivery at so many unacknowledged
LIVES = 100  # boot ids that are remembered


@dataclass(frozen=True)
class ServeOptions:
    """How one life of a service differs from another of the same plan."""

    retry: bool = False  # keep trying where the broker refuses us
    until_done: bool = False
    epoch_above: int = 0  # of another coordinator of this fleet, to be topped
    claim: WriteClaim = REFUSED  # where another has the journal


@dataclass(frozen=True)
class SiteStanding:
    """Of a site in the fleet above: what that agreed on, and how it is reached."""

    agreement: FleetAgreement
    fleet: FleetAbove


@dataclass(frozen=True)
class Identity:
    """Who a coordinator is: the run goes on from life to life, epoch and boot id are one life's."""

    run: str
    epoch: int
    boot: str
    earlier: frozenset[str]  # boot ids of earlier lives of this journal


@contextmanager
def service(
    plan: FleetConfig,
    address: Address,
    log: Log,
    environ: Mapping[str, str],
    options: ServeOptions = ServeOptions(),
    wall: Callable[[], float] = time.time,
    above: SiteStanding | None = None,
) -> Iterator[Service]:
    """A service, its journal open and its socket listening; of a site, where there is a fleet
    `above`. `wall` only dates what is written.
    """
    recipe, topics = registry.load(plan.serve.method), Topics(plan.serve.fleet)
    plan = replace(plan, serve=replace(plan.serve, enrol=enrol_policy(plan, address)))
    journal = Journal(plan.data_dir, wall, address=plan.serve.journal, claim=options.claim)
    office = office_of(plan, wall)
    doorkeeper: Doorkeeper | None = None
    seals: Seals | None = None
    try:
        for words in _warnings(plan, recipe, address):
            log.warning(words)
        identity = _identity(journal, plan, options.epoch_above)
        file = None if above is not None else extractors.of_plan(plan, recipe, journal, log)
        contract, hyper = _agreed(plan, recipe, journal, identity.run, file, above)
        _same_run(journal, contract, recipe, hyper)
        recipe, under = _under_budget(recipe, contract, hyper)
        life = identity.epoch, identity.boot
        messages = Messages(topics, contract, recipe, hyper, *life, plan.broker.packet)
        rules = spending.until_spent(
            rules_of(plan, contract, recipe, at_site=above is not None), under, contract, hyper
        )
        terms = replace(
            terms_of(plan, contract, recipe, hyper), private=under, is_site=above is not None
        )
        core = Core(journal, rules, terms, topics, messages, log)
        if file is not None:
            core.catalogue.adopt(file, stays=under is not None)
        farewell = messages.state(RunState(), rules, online=False)
        # A clean start, as nothing is lost with what the broker queued for an earlier life: devices
        # send uploads again until they have a receipt, and births are retained.
        seals = None if office is None else seals_of(plan, office, journal, log)

        def will() -> Will:
            payload, topic = farewell.payload, farewell.topic
            return Will(topic, payload if seals is None else seals.will(topic, payload))

        settings = LinkSettings(will=will, receive_maximum=GROUP, clean_start=True)
        link = Link(address, f"{plan.serve.fleet}-coordinator", settings, rng=random.Random())
        blobs = BlobServer(
            link,
            topics,
            BlobLimits(packet=plan.broker.packet),
            plan.data_dir / "spool",
            lambda agent, round, digest, missing: messages.receipt(
                agent, round, digest, "missing", missing=tuple(missing)
            ),
            time.monotonic,
            journal.file,
        )
        if seals is not None:
            blobs.seal, core.numbers = seals.seal, seals.numbers
        core.crew = crew = _crew(plan, core, address, seals, link.wake, log)
        if office is not None:
            doorkeeper = Doorkeeper(
                office,
                topics,
                log,
                blobs.allowance,
                time.monotonic,
                partial(_refreshed, seals, crew),
            )
        relay = None if above is None else _relay(plan, above, core, log)
        requests: SimpleQueue[Request] = SimpleQueue()
        home = FleetHome(
            plan.homeassistant, topics, lambda said: _as_it_is(link, said), time.monotonic
        )
        serving = Service(
            ServiceDeps(
                link,
                core,
                blobs,
                messages,
                topics,
                log,
                Notifier(environ),
                requests,
                identity.earlier,
                Lookout(core, office, wall),
                doorkeeper,
                seals,
                home,
                options.retry,
                plan.serve.keep_rounds,
                options.until_done,
                relay,
                crew,
            )
        )
        control = Control(plan.data_dir, requests, link.wake, serving.look)
        try:
            yield serving
        finally:
            control.close()
    finally:
        if seals is not None:
            seals.close()
        if office is not None:
            office.close()
        journal.close()


def _crew(
    plan: FleetConfig,
    core: Core,
    address: Address,
    seals: Seals | None,
    wake: Callable[[], None],
    log: Log,
) -> IngesterCrew | None:
    """The processes that take uploads in, where there are to be any."""
    if plan.serve.ingest == 1:
        return None
    terms, segments = core.terms, core.journal.segments
    why = ""
    if segments is None:
        why = "the journal is on a server, and bytes of uploads are in it"
    elif core.is_ledger or terms.private is not None or core.assembly is not None:
        why = "a ledger, masked sums and a budget are one process's"
    elif seals is not None and address.cert is not None:
        why = f"the broker of a fleet by invitation: {ONE_NAME}"
    if why or segments is None:
        log.warning(f"one process takes uploads in: {why}")
        return None
    contract, recipe = terms.expected.contract, terms.expected.recipe
    settings, limits = to_plain(terms.hyper), terms.expected.limits
    members = None if seals is None else members_of(seals)
    fleet, folder = plan.serve.fleet, plan.data_dir
    job = IngestJob(0, address, fleet, contract, recipe.name, settings, limits, folder, members)
    return IngesterCrew(plan.serve.ingest, job, segments, log, wake)


def _refreshed(seals: Seals | None, crew: IngesterCrew | None) -> None:
    """A command changed the registry, or the fleet's key."""
    if seals is not None:
        seals.refresh()
        if crew is not None:
            crew.members(members_of(seals))


def members_of(seals: Seals) -> Members:
    """Whose signatures count just now."""
    return Members(dict(seals.office.keys_of_members()), seals.roster.required(""))


def _relay(plan: FleetConfig, above: SiteStanding, core: Core, log: Log) -> SiteRelay:
    """A site's half that speaks to the fleet above."""
    boot, folder, how = core.messages.boot, plan.data_dir, plan.relay
    agreement = above.agreement
    terms = SiteTerms(plan.serve.fleet, how.name, boot, agreement, folder, how.interval)
    with core.journal.commit():
        core.journal.set_meta(SITE, terms.name)
    link, spool = above.fleet.link(terms), folder / "spool-above"
    uplink = Uplink(link, terms.topics, terms.name, spool, log, time.monotonic)
    member = above.fleet.member
    standing = None if member is None else SiteMember.of(member, uplink, log)
    return SiteRelay(core, uplink, terms, log, standing)


def _agreed(
    plan: FleetConfig,
    recipe: Recipe[Any],
    journal: Journal,
    run: str,
    file: Path | None,
    above: SiteStanding | None,
) -> tuple[Contract, Any]:
    """Contract and settings: by the plan, or the fleet's above."""
    if above is not None:
        return above.agreement.terms(plan.serve.fleet, run)
    contract = _contract(plan, recipe, journal, run, file)
    return contract, _settings(plan, contract, recipe)


def _as_it_is(link: Link, said: Publication) -> None:
    link.publish(said.topic, said.payload, qos=said.qos, retain=said.retain)


def _warnings(plan: FleetConfig, recipe: Recipe[Any], address: Address) -> Iterator[str]:
    """What is no mistake for sure."""
    ledger = recipe.traits.frozen and not plan.trust.epsilon
    idle = "it has no rounds: what is said of them means nothing here"
    no_rounds = idle if ledger and plan.serve.rounds else ""
    yield from filter(None, (exposed(plan.data_dir), address.in_the_open, no_rounds))


def _contract(
    plan: FleetConfig, recipe: Recipe[Any], journal: Journal, run: str, file: Path | None
) -> Contract:
    """As the plan has it, with a budget where it names one."""
    budget = spending.of_plan(plan, recipe, journal)
    fed = None if file is None else input_of(file)
    contract = plan.contract_for(run, recipe, fed, budget)
    if budget is None or not recipe.traits.frozen:
        return contract
    return spending.seen_through(contract, file, plan.data_dir)


def office_of(plan: FleetConfig, wall: Callable[[], float]) -> Office | None:
    """Where devices join, if the fleet goes by invitation."""
    invited, wish = is_by_invitation(plan.data_dir), plan.trust.signatures
    if invited and wish == "off":
        raise SettingError(
            "trust.signatures: off, but devices joined this fleet, and take nothing unsigned",
            "accepted lets others in beside them",
        )
    if not invited and wish == "required":
        raise SettingError(
            "trust.signatures: required, but no device was invited yet",
            "`coordinator invite NAME` begins a fleet by invitation",
        )
    if not invited:
        return None
    office = Office(plan.data_dir, plan.serve.fleet, wall)
    # With each start the lists are young again, and the broker's certificate is.
    office.write_broker_files(())
    return office


def seals_of(plan: FleetConfig, office: Office, journal: Journal, log: Log) -> Seals:
    """Signatures, as a fleet by invitation has them."""
    everyone = plan.trust.signatures != "accepted"
    numbers = Numbers(journal.signatures.heard())
    return Seals(office, numbers, log, everyone=everyone, folder=office.folder)


def reads_retained(plan: FleetConfig) -> Callable[[bytes], bytes | None]:
    """How the word of the coordinator before is read: where words are signed, the fleet's own
    alone.
    """
    office = office_of(plan, time.time)
    try:
        return of_retained(office, Topics(plan.serve.fleet).coordinator_state)
    finally:
        if office is not None:
            office.close()


def rules_of(
    plan: FleetConfig, contract: Contract, recipe: Recipe[Any], *, at_site: bool = False
) -> RoundRules:
    """When rounds open and close, by the plan; `at_site` they are the fleet's above, and at the
    deadline whatever has come is said.
    """
    serve = plan.serve
    if at_site:
        everybody = partial(selection.participants, contract, share=1.0)
        least = serve.min_agents
        return RoundRules(everybody, None, least, quorum=0.0, timeout=serve.round_timeout)
    least = 1 if contract.masks is None else contract.masks.least
    return RoundRules(
        lambda number, agents: selection.participants(
            contract, number, agents, serve.participation
        ),
        serve.rounds or None,
        max(serve.min_agents, least),
        serve.quorum,
        serve.round_timeout,
        serve.cut if serve.mode == "async" else None,
        serve.every,
        least,
    )


def _settings(plan: FleetConfig, contract: Contract, recipe: Recipe[Any]) -> Any:
    """The method's; whether sums can be masked under them is said before any device comes."""
    hyper = from_plain(recipe.hyper, plan.settings, "settings")
    if contract.masks is not None:
        masked = _under_budget(recipe, contract, hyper)[0]
        try:
            for number in (1, 2):  # a fleet with a budget says something else in its second round
                masked.layout(Turn(contract, hyper, number), {}, contract.masks.least)
        except FusionError as error:
            raise SettingError(f"trust.secure_sum: {error.words}", error.hint) from None
    return hyper


def enrol_policy(plan: FleetConfig, address: Address) -> Policy:
    """What was said of classes that devices enrol; else they wait for an operator, unless all
    devices are ours: then the broker is on this machine, and asks nobody who they are.
    """
    if plan.trust.epsilon:
        return plan.serve.enrol or "off"
    return plan.serve.enrol or ("manual" if address.shared else "auto")


def terms_of(plan: FleetConfig, contract: Contract, recipe: Recipe[Any], hyper: Any) -> Terms:
    """What uploads must fit, by the plan."""
    serve = plan.serve
    sites = plan.admission.sites
    expected = Expected(serve.fleet, contract.run, recipe, contract, plan.admission, sites)
    return Terms(
        expected,
        hyper,
        serve.max_staleness,
        serve.participation >= 1,
        Patience(serve.lost_after, max(serve.lost_after, 2 * serve.round_timeout)),
        serve.enrol or "manual",
        plan.admission.devices,
        plan.ledger,
        plan.rollout,
    )


def agreed(journal: Journal) -> tuple[Contract, Recipe[Any], Any]:
    """What the journal's run was agreed to be."""
    text = journal.meta("agreement")
    if text is None:
        raise JournalError(f"{journal.directory} holds no run yet")
    agreement = json.loads(text)
    recipe = registry.load(agreement["method"])
    hyper = from_plain(recipe.hyper, agreement["settings"])
    contract = from_plain(Contract, agreement["contract"])
    return contract, _under_budget(recipe, contract, hyper)[0], hyper


def _under_budget(
    recipe: Recipe[Any], contract: Contract, hyper: Any
) -> tuple[Recipe[Any], Private | None]:
    """The method as this contract has it."""
    under = of_contract(recipe, contract, hyper)
    return (recipe, None) if under is None else (under.recipe, under)


def _identity(journal: Journal, plan: FleetConfig, epoch_above: int) -> Identity:
    """This life's, written down before anyone hears of it."""
    run = journal.meta("run") or plan.serve.run or f"run-{secrets.token_hex(4)}"
    if plan.serve.run and plan.serve.run != run:
        raise JournalError(
            f"{plan.data_dir} holds run {run!r}, not {plan.serve.run!r}",
            "name another data directory",
        )
    # A life of its own each time: writes of the last one may be lost, and devices then send again
    # what it receipted.
    heard = int(journal.meta(HEARD_EPOCH) or 0)
    epoch = epochs.following(int(journal.meta("epoch") or 0), max(epoch_above, heard))
    earlier = (journal.meta("boots") or "").split()
    boot = secrets.token_hex(8)
    with journal.commit():
        journal.set_meta("run", run)
        journal.set_meta("epoch", str(epoch))
        journal.set_meta("boots", " ".join([*earlier[1 - LIVES :], boot]))
    return Identity(run, epoch, boot, frozenset(earlier))


def _same_run(journal: Journal, contract: Contract, recipe: Recipe[Any], hyper: Any) -> None:
    """A run goes on only as it began: everything that changes bits is held to."""
    now = {"method": recipe.name, "settings": to_plain(hyper), "contract": contract.announced()}
    text = journal.meta("agreement")
    if text is None:
        with journal.commit():
            journal.set_meta("agreement", json.dumps(now, sort_keys=True))
            journal.set_meta("toolchain", json.dumps(_toolchain(), sort_keys=True))
        return
    # Through JSON and back, as the agreement went: tuples are lists there.
    before, now = json.loads(text), json.loads(json.dumps(now))
    # A setting that the method got since the run began had its default then.
    if before["method"] == now["method"]:
        before["settings"] = {**to_plain(recipe.hyper()), **before["settings"]}
    changed = [name for name in ("method", "settings") if before[name] != now[name]]
    old, new = before["contract"], now["contract"]
    names = [*new, *(name for name in old if name not in new)]
    changed += [f"contract.{name}" for name in names if old.get(name) != new.get(name)]
    if changed:
        raise JournalError(
            f"{journal.directory} holds a run with another {', '.join(changed)}",
            "go on as it began, or name another data directory",
        )


def _toolchain() -> dict[str, str]:
    import platform

    import numpy as np

    import protofleet

    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "protofleet": protofleet.__version__,
    }
