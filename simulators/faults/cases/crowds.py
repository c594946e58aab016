"""Too many at once: two hundred devices in one moment, and a client that sends garbage as fast as
the line takes it.
"""

from __future__ import annotations

import random
import threading

from protofleet import wire
from protofleet.errors import LinkBusy
from protofleet.mqtt.address import Address
from protofleet.mqtt.link.link import Link, LinkSettings
from protofleet.mqtt.topics import Topics
from simulators.faults.case import Attempt, Case
from simulators.faults.crowd import crowd
from simulators.faults.fake_agent import prototypes
from simulators.faults.proxy import Proxy
from simulators.faults.testbed import RUN, Testbed, until
from simulators.faults.verdict import PromiseBroken, judge


def two_hundred(attempt: Attempt) -> str:
    """All are refused until all are there, and then let in together."""
    with attempt.broker() as broker, Proxy(broker.address.port) as proxy:
        # The embedded broker is Python and takes seconds for what mosquitto does in one.
        many = 200 if attempt.prefer == "mosquitto" else 60
        testbed = attempt.testbed(str(broker.address), agents=many, rounds=2)
        proxy.refuse()
        coordinator = testbed.coordinator()
        with crowd(testbed.sites(f"mqtt://127.0.0.1:{proxy.port}")):
            proxy.heal()
            coordinator.done(300)
    judge(testbed)
    return f"{many} devices"


def garbage(attempt: Attempt) -> str:
    """A rogue device floods its own topics, with noise and with uploads that were honest before a
    bit was flipped.
    """
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=6)
        rogue = Rogue(broker.address, testbed, attempt.rng())
        with crowd(testbed.sites()):
            rogue.start()
            try:
                coordinator = testbed.coordinator()
                until(
                    lambda: rogue.sent > 2000 or coordinator.process.poll() is not None,
                    "2,000 pieces of garbage",
                )
                coordinator.done()
            finally:
                rogue.stop()
        log = coordinator.log.read_text()
    judge(testbed)
    if "Traceback" in log:
        raise PromiseBroken("the coordinator's log holds a traceback")
    return f"{rogue.sent} messages"


# Enough for minutes of garbage; without a bound a stuck coordinator would fill the broker.
MOST = 20_000


class Rogue:
    """Sends until it is stopped."""

    def __init__(self, address: Address, testbed: Testbed, rng: random.Random) -> None:
        self._link = Link(address, "rogue", LinkSettings(clean_start=True, queue_most=500), rng=rng)
        self._topics, self._testbed, self._rng = Topics(testbed.fleet), testbed, rng
        self._thread = threading.Thread(target=self._run, name="rogue", daemon=True)
        self._stopping = False
        self.sent = 0

    def start(self) -> None:
        """Begin."""
        self._link.start()
        self._thread.start()

    def stop(self) -> None:
        """End, without waiting for what was not delivered."""
        self._stopping = True
        self._thread.join(10)
        self._link.stop(patience=0.1)

    def _run(self) -> None:
        honest = self._honest()
        while not self._stopping and self.sent < MOST:
            topic, payload = self._something(honest)
            try:
                self._link.publish(topic, payload, qos=self._rng.choice([0, 1, 1]))
                self.sent += 1
            except LinkBusy:
                self._link.poll(0.002)
            # Without a look now and then acknowledgements would pile up unread, and the flood would
            # end.
            if self.sent % 100 == 0:
                self._link.poll(0)

    def _something(self, honest: bytes) -> tuple[str, bytes]:
        rng, topics = self._rng, self._topics
        digest = rng.randbytes(32).hex()
        topic = rng.choice(
            [
                topics.upload("rogue", rng.randint(0, 9)),
                topics.state("rogue"),
                topics.report("rogue"),
                topics.chunk_request("rogue"),
                topics.upload_chunk("rogue", digest, rng.randint(0, 9)),
                f"{topics.prefix}/d/rogue/ack",
                topics.upload("rogue", 10**12),
                f"{topics.prefix}/d/rogue/up/-1",
                f"{topics.prefix}/d/rogue/up/x",
            ]
        )
        if rng.random() < 0.5:
            return topic, rng.randbytes(rng.choice([0, 1, 40, 3000]))
        flipped = bytearray(honest)
        for _ in range(rng.randint(0, 3)):
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        return topic, bytes(flipped)

    def _honest(self) -> bytes:
        """What a device of this fleet would send in round 1, if it were one that was asked."""
        import numpy as np

        from coordinator.uploads.fuse import start_state
        from protofleet import registry
        from protofleet.recipe import Turn

        contract, recipe = self._testbed.contract(), registry.load("fedproto")
        base = start_state(recipe, Turn(contract, recipe.hyper(), 0)).base
        envelope = wire.Envelope(
            t="upload",
            fleet=self._testbed.fleet,
            run=RUN,
            epoch=1,
            agent="stranger",
            boot="0" * 16,
            seq=1,
            round=1,
            method="fedproto",
            base=base,
        )
        return wire.encode(
            envelope, prototypes(contract)(np.random.default_rng(1)), precision=contract.wire
        )


CASES = (
    Case("two hundred at once", two_hundred, soak=2),
    Case("garbage at line rate", garbage, soak=4),
)
