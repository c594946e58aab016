"""From settings to a watcher with all that it needs; what is wrong with them is found here."""

from __future__ import annotations

import random
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from edge_agent.cameras import origins, regions
from edge_agent.cameras.album import FolderPlayer
from edge_agent.cameras.feeds import CameraFeed, FeedTerms
from edge_agent.cameras.origins import Origin
from edge_agent.cameras.player import Player, StreamPlayer
from edge_agent.cameras.saying.answers import SceneAnswer
from edge_agent.cameras.saying.backlog import Backlog, BacklogBounds
from edge_agent.cameras.saying.outlets import Outlet, OutletTerms, Sender
from edge_agent.cameras.saying.publishing import BrokerSender
from edge_agent.cameras.saying.webhook import WebhookSender
from edge_agent.cameras.scenes import Scene
from edge_agent.cameras.watcher import WatchCounts, Watcher, WatcherDeps
from edge_agent.config import CameraSection
from edge_agent.inference.classifier import Classifier
from edge_agent.recent.memory import Memory
from edge_agent.updates import cache
from edge_agent.updates.freshness import Freshness
from edge_agent.updates.uses import AnswerCount
from protofleet.errors import SettingError
from protofleet.mqtt.link.link import Link, LinkSettings
from protofleet.mqtt.link.reconnect import jittered
from protofleet.settings.broker import BrokerSection
from protofleet.util.files import Locked, lock
from protofleet.util.logs import Log

COUNTED_EVERY = 30.0  # seconds: a still scene writes no more often than that
Say = Callable[[SceneAnswer], None]


@dataclass(frozen=True)
class WatchPlan:
    """What is watched, with what, and to whom else it is said."""

    camera: CameraSection
    bundle: Path
    say: Say  # called for everything, in the watching thread
    senders: Mapping[str, Sender]  # by what they are called in the log
    each_frame: bool = False


def senders_of(
    section: CameraSection, environ: Mapping[str, str], log: Log
) -> Mapping[str, Sender]:
    """The ways to say answers that are set."""
    senders: dict[str, Sender] = {}
    if section.webhook:
        token = Path(section.webhook_token) if section.webhook_token else None
        # The path of such an address is often the only secret that it has.
        senders[f"webhook at {urlsplit(section.webhook).hostname}"] = WebhookSender(
            section.webhook, token
        )
    if section.mqtt:
        broker = BrokerSection(section.mqtt, section.mqtt_credentials, section.mqtt_ca)
        # What the environment says of a broker is of the fleet's.
        address = broker.address({})
        if address.in_the_open:
            log.warning(address.in_the_open)
        settings = LinkSettings(clean_start=True, session_expiry=0)
        link = Link(address, f"watch-{secrets.token_hex(6)}", settings, rng=random.Random())
        sender = BrokerSender(link, section.topic, retain=section.retain, log=log)
        senders[f"broker {address}"] = sender
    return senders


def opened(origin: Origin) -> Player:
    """Its frames from now on."""
    if origin.kind == "folder":
        return FolderPlayer(Path(origin.address))
    return StreamPlayer(origin)


@contextmanager
def watching(
    plan: WatchPlan,
    classifier: Classifier,
    log: Log | None = None,
) -> Iterator[Watcher]:
    """A watcher that is ready to run; what it could not say is kept when the block ends."""
    log, section = log or Log(sys.stderr), plan.camera
    cameras = origins.cameras_of(section)
    parts = regions.parse(section.regions, [camera.name for camera in cameras])
    bell, fresh = threading.Event(), Freshness(plan.bundle)
    terms = FeedTerms(section.every, opened, jittered(random.Random()), log)
    uses = AnswerCount(plan.bundle)
    fresh.settle(classifier, uses)

    with ExitStack() as stack:
        memory = Memory(plan.bundle) if section.ask else None
        if memory is not None:
            stack.callback(memory.save)
        counted_at, looks = time.monotonic(), 0

        def refresh(counts: WatchCounts) -> None:
            nonlocal counted_at, looks
            # A daemon beside it keeps the same files up to date, and a person may enrol a class.
            if fresh.changed():
                fresh.settle(classifier, uses)
            if counts.looks > looks:
                uses.answered(classifier.bundle.digest, counts.looks - looks)
                looks = counts.looks
            if memory is not None and time.monotonic() - counted_at > COUNTED_EVERY:
                counted_at = time.monotonic()
                memory.sights.frames(counts.frames, dropped=counts.frames - counts.looks)

        outlets = _outlets(plan, log, stack)

        def say(answer: SceneAnswer) -> None:
            plan.say(answer)
            if answer.kind != "frame":
                for outlet in outlets:
                    outlet.put(answer)

        deps = WatcherDeps(say, log, memory, refresh, plan.each_frame)
        scenes = {
            name: [Scene(part, section.motion, section.smooth, section.hold) for part in own]
            for name, own in parts.items()
        }
        feeds = [CameraFeed(camera, terms, bell) for camera in cameras]
        yield Watcher(classifier, feeds, scenes, deps, bell)


def _outlets(plan: WatchPlan, log: Log, stack: ExitStack) -> list[Outlet]:
    if not plan.senders:
        return []
    folder = cache.answers_folder(plan.bundle)
    try:
        stack.enter_context(lock(folder))
    except Locked as error:
        raise SettingError(
            f"{folder} is in use by another process ({error.holder})",
            "one at a time says what is seen with a bundle",
        ) from None
    except OSError as error:
        raise SettingError(f"{folder}: {error.strerror}") from None
    bounds = BacklogBounds(plan.camera.queue, 3600 * plan.camera.queue_hours)
    outlets = []
    for what, sender in plan.senders.items():
        # By its kind and not its address: what waits for one goes to the one that replaces it.
        backlog = Backlog(folder / f"{what.partition(' ')[0]}.db", bounds)
        outlet = Outlet(OutletTerms(what, sender, backlog, log))
        outlet.start()
        stack.callback(outlet.stop)
        outlets.append(outlet)
    return outlets
