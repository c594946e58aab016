"""`kill -9` of sites between their devices and the fleet above, at instants of their work, while
devices change what they say: in the end the top has the state that all devices come to under one
coordinator, to the bit.
"""

from __future__ import annotations

import random
from contextlib import AbstractContextManager, ExitStack

from coordinator.core import Core
from coordinator.journal.journal import Journal
from coordinator.ledger.keeper import Keeper
from coordinator.relay import statement
from coordinator.relay.deliveries import SiteDeliveries
from coordinator.relay.site import SiteRelay
from coordinator.relay.uplink import Uplink
from coordinator.service.loop import Service
from protofleet.mqtt.broker.mosquitto import Listening
from protofleet.mqtt.broker.run import running_broker
from simulators.faults.case import Attempt, Case, breakable_broker, pause
from simulators.faults.cases.deaths import Table, draw_failpoint
from simulators.faults.crowd import DeviceSite, crowd
from simulators.faults.failpoint import STATEMENT, Failpoint
from simulators.faults.testbed import CaseProcess, Testbed, until
from simulators.faults.verdict import PromiseBroken, undisturbed
from simulators.trees.contributors import Contributor, contributors
from simulators.trees.tree import TOP, Tree, TreeShape, seeds_of, tree

SITES, DEVICES = 3, 30
PATIENCE = 120.0
# How often each happens, at least, until a site with ten devices has said its first sums.
SITE: Table = {
    Journal.commit: 14,
    STATEMENT: 120,
    Core.take: 8,
    Core.recover: 1,
    Core.follow: 1,
    Keeper.take: 10,
    Keeper._publish: 2,
    Keeper.follow: 2,
    Service._turn: 8,
    SiteRelay.look: 8,
    SiteRelay._speak: 8,
    SiteRelay._receipt: 1,
    SiteRelay._heard_word: 4,
    SiteRelay._heard_file: 1,
    SiteDeliveries.offer: 1,
    SiteDeliveries.answered: 1,
    Uplink.offer: 1,
    statement.sums: 1,
}


# The same in three rounds of three devices.
ROUNDS: Table = {
    Journal.commit: 14,
    STATEMENT: 90,
    Core.take: 8,
    Core.recover: 1,
    Core.follow_round: 3,
    Core.follow_state: 3,
    Core.pooled: 3,
    Core._open: 3,
    Core._cut: 3,
    Service._turn: 8,
    Journal.add_cut: 3,
    Journal.add_state: 4,
    SiteRelay.look: 8,
    SiteRelay._receipt: 2,
    statement.upload: 3,
}


def sites_killed(attempt: Attempt) -> str:
    """Each of three sites dies at an instant; some devices say something else then, one takes all
    of it back, and one is forgotten.
    """
    rng = attempt.rng()
    shape = TreeShape.of(SITES, DEVICES)
    words = []
    with _tree(attempt, shape) as made:
        made.start(TOP)
        devices = made.contributors()
        with contributors(devices):
            lives = {}
            for place, name in enumerate(shape.parents):
                death = draw_failpoint("coordinator", SITE, SITES * attempt.seed + place)
                lives[name] = made.start(name, death)
                words.append(str(death))
            for name, life in lives.items():
                life.dies()
                made.start(name)
            _change(devices, rng)
            _whole(made, devices)
        made.judge(devices)
    return ", ".join(words)


def sites_killed_again_and_again(attempt: Attempt) -> str:
    """One site after the other, at any moment, in one long run of changes."""
    rng, deaths = attempt.rng(), 6
    shape = TreeShape.of(SITES, DEVICES)
    with _tree(attempt, shape) as made:
        made.start(TOP)
        lives = {name: made.start(name) for name in shape.parents}
        devices = made.contributors()
        with contributors(devices):
            for _ in range(deaths):
                pause(rng.uniform(0.0, 2.0))
                _change(devices, rng)
                name = rng.choice(sorted(lives))
                lives[name].kill()
                lives[name] = made.start(name)
            _whole(made, devices)
        made.judge(devices)
    return f"{deaths} deaths"


def line_cut(attempt: Attempt) -> str:
    """The broker above is away while devices come, change and go; a site dies meanwhile."""
    rng, shape = attempt.rng(), TreeShape.of(2, 8)
    with (
        breakable_broker(attempt) as broker,
        _tree(attempt, shape) as made,
    ):
        far = Tree(made.folder, shape, {**made.urls, TOP: broker.url}, made.processes)
        far.write()
        far.start(TOP)
        lives = {name: far.start(name) for name in shape.parents}
        devices = far.contributors()
        with contributors(devices):
            first = far.expected(seeds_of(devices))
            until(lambda: far.comes_to(first), "the first state", PATIENCE)
            broker.kill()
            _change(devices, rng)
            pause(rng.uniform(0.5, 2.0))
            name = rng.choice(sorted(lives))
            lives[name].kill()
            far.start(name)
            pause(rng.uniform(0.5, 2.0))
            broker.back()
            _whole(far, devices)
        far.judge(devices)
    return f"{name} died while the line was cut"


def sites_killed_in_rounds(attempt: Attempt) -> str:
    """Two sites with three devices each in rounds of a coordinator above; both die at an instant,
    and nobody is lost: the last state is that of six devices under one.
    """
    places = ("site-0", "site-1")
    with ExitStack() as stack:
        brokers = [
            stack.enter_context(
                running_broker(attempt.folder / name, Listening(port=0), prefer=attempt.prefer)
            )
            for name in ("above", *places)
        ]
        above, *urls = [str(broker.address) for broker in brokers]
        testbed = attempt.testbed(above, agents=6, places=places)
        coordinator = testbed.coordinator()
        devices = [
            DeviceSite(urls[n % 2], testbed.fleet, name, testbed.home(name))
            for n, name in enumerate(testbed.names)
        ]
        with crowd(devices):
            lives: dict[tuple[str, str], CaseProcess] = {}
            words = []
            for n, (name, url) in enumerate(zip(places, urls, strict=True)):
                death = draw_failpoint("coordinator", ROUNDS, 2 * attempt.seed + n)
                lives[name, url] = _site(testbed, name, url, death)
                words.append(str(death))
            # A round waits for both: each is back before the other need have died.
            while lives:
                ended = until(lambda: [at for at, life in lives.items() if life.over], "a death")
                for at in ended:
                    lives.pop(at).dies()
                    _site(testbed, *at)
            coordinator.done(PATIENCE)
    journal = Journal.read(testbed.data)
    try:
        hashes = journal.state_hashes()
    finally:
        journal.close()
    if hashes[max(hashes)] != undisturbed(testbed):
        raise PromiseBroken(f"round {max(hashes)} ended in another state than under one")
    return ", ".join(words)


def _site(testbed: Testbed, name: str, url: str, death: Failpoint | None = None) -> CaseProcess:
    """A site's coordinator, at its own broker."""
    words = ["coordinator", "relay", "--up", testbed.url, "--down", url, "--name", name]
    words += ["--fleet", testbed.fleet, "--data-dir", str(testbed.folder / name)]
    if death is not None:
        words = ["simulators.faults.failpoint", str(death), *words]
    return testbed.process(name, words)


def _tree(attempt: Attempt, shape: TreeShape) -> AbstractContextManager[Tree]:
    folder, processes = attempt.folder, attempt.processes
    return tree(folder, shape, processes, prefer=attempt.prefer, signed=attempt.signed)


def _change(devices: list[Contributor], rng: random.Random) -> None:
    """A few say something else, and one takes all of it back."""
    for one in rng.sample(devices, 3):
        one.seed = rng.randint(1, 1000)
    rng.choice(devices).seed = None


def _whole(made: Tree, devices: list[Contributor]) -> None:
    state = made.expected(seeds_of(devices))
    until(lambda: made.comes_to(state), f"the state {state[:12]} of all devices", PATIENCE)


CASES = (
    Case("sites killed", sites_killed, soak=17, brokers=("mosquitto",), signed=True),
    Case("sites killed again and again", sites_killed_again_and_again, 3, brokers=("mosquitto",)),
    Case("sites killed in rounds", sites_killed_in_rounds, soak=8, brokers=("mosquitto",)),
    Case("line of a site cut", line_cut, soak=4, brokers=("mosquitto",)),
)
