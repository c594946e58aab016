"""Between fleet and broker: connections cut, routes lost for longer than the keep-alive, unfaithful
delivery.
"""

from __future__ import annotations

from protofleet.mqtt.broker.run import running_broker
from simulators.faults.case import Attempt, Case, after, pause
from simulators.faults.crowd import crowd
from simulators.faults.proxy import Proxy, Way
from simulators.faults.relay import DeliveryFaults, relay
from simulators.faults.verdict import judge

KEEPALIVE = 2  # seconds, of the devices; a broker gives up on them after one and a half times that


def cuts(attempt: Attempt) -> str:
    """All connections are reset, again and again."""
    rng = attempt.rng()
    with attempt.broker() as broker, Proxy(broker.address.port) as proxy:
        testbed = attempt.testbed(f"mqtt://127.0.0.1:{proxy.port}", rounds=5)
        with crowd(testbed.sites()):
            coordinator = testbed.coordinator()
            after(testbed, 1)
            cut = 0
            while coordinator.process.poll() is None and cut < 6:
                proxy.cut()
                cut += 1
                # Shorter and longer than it takes to come back: some cuts hit a connection that is
                # being made.
                pause(rng.uniform(0.05, 2.5))
            coordinator.done()
    judge(testbed)
    return f"{cut} cuts"


def devices_cut_off(attempt: Attempt) -> str:
    """The devices' route is lost, both ways or one, for longer than their keep-alive."""
    rng = attempt.rng()
    lost: list[tuple[Way, ...]] = [("up", "down"), ("up",), ("down",)]
    count, ways = rng.randint(0, 8), rng.choice(lost)
    with attempt.broker() as broker, Proxy(broker.address.port) as proxy:
        testbed = attempt.testbed(str(broker.address), rounds=4)
        with crowd(testbed.sites(f"mqtt://127.0.0.1:{proxy.port}", keepalive=KEEPALIVE)):
            coordinator = testbed.coordinator()
            after(testbed, count)
            proxy.silence(*ways)
            pause(2.5 * KEEPALIVE)
            proxy.heal()
            coordinator.done()
    judge(testbed)
    return f"{' and '.join(ways)} silent after {count} uploads"


def one_device_cut_off(attempt: Attempt) -> str:
    """One device of three is out of reach while rounds go on without it; what it trained is
    delivered late.
    """
    rng = attempt.rng()
    count = rng.randint(1, 6)
    with attempt.broker() as broker, Proxy(broker.address.port) as proxy:
        how = {
            "quorum": 0.6,
            "round_timeout": 0.8,
            "max_staleness": rng.choice([0, 2]),
            "lost_after": 1.0,
        }
        testbed = attempt.testbed(str(broker.address), rounds=7, serve={**how, "min_agents": 2})
        near, far = (
            testbed.sites()[1:],
            testbed.sites(f"mqtt://127.0.0.1:{proxy.port}", keepalive=KEEPALIVE)[:1],
        )
        with crowd([*near, *far]):
            coordinator = testbed.coordinator()
            after(testbed, count)
            proxy.silence()
            pause(2.5 * KEEPALIVE)
            proxy.heal()
            coordinator.done()
            pause(1.0)
    judge(testbed, whole=False)
    return f"after {count} uploads, staleness {how['max_staleness']}"


def coordinator_cut_off(attempt: Attempt) -> str:
    """The coordinator's route is lost for longer than its keep-alive: its will is published, and it
    comes back.
    """
    count = attempt.rng().randint(1, 8)
    with attempt.broker() as broker, Proxy(broker.address.port) as proxy:
        testbed = attempt.testbed(f"mqtt://127.0.0.1:{proxy.port}", rounds=4)
        with crowd(testbed.sites(str(broker.address))):
            coordinator = testbed.coordinator()
            after(testbed, count)
            proxy.silence()
            # Longer than one and a half times the coordinator's keep-alive of 30 seconds, which
            # cannot be set: that is when the broker publishes its will.
            pause(50.0)
            proxy.heal()
            coordinator.done()
    judge(testbed)
    return f"50 s after {count} uploads"


def unfaithful(attempt: Attempt) -> str:
    """Deliveries repeated, delayed and swapped in both directions, receipts and reports lost."""
    rng = attempt.rng()
    with (
        attempt.broker() as there,
        running_broker(attempt.folder / "second", prefer=attempt.prefer) as here,
    ):
        testbed = attempt.testbed(str(there.address), rounds=5)
        how = DeliveryFaults()
        with (
            relay(testbed.fleet, there.address, here.address, how, rng) as carrier,
            crowd(testbed.sites(str(here.address))),
        ):
            testbed.coordinator().done()
            pause(1.0)
    judge(testbed)
    return f"{carrier.carried} carried, {carrier.repeated} of them again"


CASES = (
    Case("connections cut", cuts, soak=6, signed=True),
    Case("devices cut off", devices_cut_off, soak=8, signed=True),
    Case("one device cut off", one_device_cut_off, soak=6, signed=True),
    Case("coordinator cut off", coordinator_cut_off, soak=2, signed=True),
    Case("unfaithful delivery", unfaithful, soak=12, signed=True),
)
