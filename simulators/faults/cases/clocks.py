"""Wall clocks that jump: nothing that is decided depends on them."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections.abc import Callable
from datetime import datetime, timedelta

from coordinator import config
from coordinator.service import build
from protofleet.mqtt.address import Address
from protofleet.util.logs import Log
from simulators.faults.case import Attempt, Case
from simulators.faults.crowd import crowd
from simulators.faults.verdict import PromiseBroken, judge

YEAR = 365 * 86400.0


def jumping(attempt: Attempt) -> str:
    """Coordinator and devices ask the time, and it is another year at every call."""
    rng = attempt.rng()
    with attempt.broker() as broker:
        testbed = attempt.testbed(str(broker.address), rounds=4)
        settings = config.load(testbed.folder / "fleet.toml", {}, {})
        failed: list[str] = []

        def serve() -> None:
            try:
                with (testbed.folder / "coordinator.log").open("w") as words:
                    # The wall clock alone: waiting goes by the monotonic one, which does not jump.
                    wall = _leaping(rng)
                    with build.service(
                        settings,
                        Address.parse(broker_url),
                        Log(words),
                        {},
                        build.ServeOptions(until_done=True),
                        wall,
                    ) as service:
                        service.run()
            except Exception:
                failed.append(traceback.format_exc())

        broker_url = str(broker.address)
        with crowd(
            testbed.sites(now=lambda: datetime.now() + timedelta(seconds=rng.uniform(-YEAR, YEAR)))
        ):
            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            thread.join(60)
        if thread.is_alive() or failed:
            raise PromiseBroken(
                "the coordinator does not get along with a jumping clock: "
                f"{failed or 'it goes on and on'}"
            )
    judge(testbed)
    return "a year either way at every look"


def _leaping(rng: random.Random) -> Callable[[], float]:
    return lambda: time.time() + rng.uniform(-YEAR, YEAR)


CASES = (Case("clocks jump", jumping, soak=2, signed=True),)
