"""Between fleet and broker: connections cut, routes lost for longer than the keep-alive, unfaithful
delivery.
"""

from __future__ import annotations

from protofleet.mqtt.broker.run import running_broker
from simulators.faults.case import Attempt, Case, after, pause
from simulators.faults.crowd import crowd
from simulators.faults.proxy import Proxy, Way
from simulators.faults.relay import Mischief, relay
from simulators.faults.verdict import judge

KEEPALIVE = 2  # seconds, of the devices; a broker gives up on them after one and a half times that


def cuts(scene: Attempt) -> str:
    """All connections are reset, again and again."""
    rng = scene.rng()
    with scene.broker() as broker, Proxy(broker.address.port) as proxy:
        stage = scene.stage(f"mqtt://127.0.0.1:{proxy.port}", rounds=5)
        with crowd(stage.places()):
            actor = stage.coordinator()
            after(stage, 1)
            cut = 0
            while actor.process.poll() is None and cut < 6:
                proxy.cut()
                cut += 1
                pause(rng.uniform(0.05, 2.5))
            actor.done()
    judge(stage)
    return f"{cut} cuts"


def devices_cut_off(scene: Attempt) -> str:
    """The devices' route is lost, both ways or one, for longer than their keep-alive."""
    rng = scene.rng()
    lost: list[tuple[Way, ...]] = [("up", "down"), ("up",), ("down",)]
    count, ways = rng.randint(0, 8), rng.choice(lost)
    with scene.broker() as broker, Proxy(broker.address.port) as proxy:
        stage = scene.stage(str(broker.address), rounds=4)
        with crowd(stage.places(f"mqtt://127.0.0.1:{proxy.port}", keepalive=KEEPALIVE)):
            actor = stage.coordinator()
            after(stage, count)
            proxy.silence(*ways)
            pause(2.5 * KEEPALIVE)
            proxy.heal()
            actor.done()
    judge(stage)
    return f"{' and '.join(ways)} silent after {count} uploads"


def one_device_cut_off(scene: Attempt) -> str:
    """One device of three is out of reach while rounds go on without it; what it trained is
    delivered late.
    """
    rng = scene.rng()
    count = rng.randint(1, 6)
    with scene.broker() as broker, Proxy(broker.address.port) as proxy:
        how = {
            "quorum": 0.6,
            "round_timeout": 0.8,
            "max_staleness": rng.choice([0, 2]),
            "lost_after": 1.0,
        }
        stage = scene.stage(str(broker.address), rounds=7, serve={**how, "min_agents": 2})
        near, far = (
            stage.places()[1:],
            stage.places(f"mqtt://127.0.0.1:{proxy.port}", keepalive=KEEPALIVE)[:1],
        )
        with crowd([*near, *far]):
            actor = stage.coordinator()
            after(stage, count)
            proxy.silence()
            pause(2.5 * KEEPALIVE)
            proxy.heal()
            actor.done()
            pause(1.0)
    judge(stage, whole=False)
    return f"after {count} uploads, staleness {how['max_staleness']}"


def coordinator_cut_off(scene: Attempt) -> str:
    """The coordinator's route is lost for longer than its keep-alive: its will is published, and it
    comes back.
    """
    count = scene.rng().randint(1, 8)
    with scene.broker() as broker, Proxy(broker.address.port) as proxy:
        stage = scene.stage(f"mqtt://127.0.0.1:{proxy.port}", rounds=4)
        with crowd(stage.places(str(broker.address))):
            actor = stage.coordinator()
            after(stage, count)
            proxy.silence()
            pause(50.0)
            proxy.heal()
            actor.done()
    judge(stage)
    return f"50 s after {count} uploads"


def unfaithful(scene: Attempt) -> str:
    """Deliveries repeated, delayed and swapped in both directions, receipts and reports lost."""
    rng = scene.rng()
    with (
        scene.broker() as there,
        running_broker(scene.folder / "second", prefer=scene.prefer) as here,
    ):
        stage = scene.stage(str(there.address), rounds=5)
        how = Mischief()
        with (
            relay(stage.fleet, there.address, here.address, how, rng) as postman,
            crowd(stage.places(str(here.address))),
        ):
            stage.coordinator().done()
            pause(1.0)
    judge(stage)
    return f"{postman.carried} carried, {postman.repeated} of them again"


CASES = (
    Case("connections cut", cuts, soak=6),
    Case("devices cut off", devices_cut_off, soak=8),
    Case("one device cut off", one_device_cut_off, soak=6),
    Case("coordinator cut off", coordinator_cut_off, soak=2),
    Case("unfaithful delivery", unfaithful, soak=12),
)
