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


def jumping(scene: Attempt) -> str:
    """Coordinator and devices ask the time, and it is another year at every call."""
    rng = scene.rng()
    with scene.broker() as broker:
        stage = scene.stage(str(broker.address), rounds=4)
        settings = config.load(stage.folder / "fleet.toml", {}, {})
        failed: list[str] = []

        def serve() -> None:
            try:
                with (stage.folder / "coordinator.log").open("w") as words:
                    wall = _leaping(rng)
                    with build.service(
                        settings, Address.parse(broker_url), Log(words), {}, once=True, wall=wall
                    ) as service:
                        service.run()
            except Exception:
                failed.append(traceback.format_exc())

        broker_url = str(broker.address)
        with crowd(
            stage.places(now=lambda: datetime.now() + timedelta(seconds=rng.uniform(-YEAR, YEAR)))
        ):
            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            thread.join(60)
        if thread.is_alive() or failed:
            raise PromiseBroken(
                f"the coordinator does not get along with a jumping clock: {failed or 'it goes on and on'}"
            )
    judge(stage)
    return "a year either way at every look"


def _leaping(rng: random.Random) -> Callable[[], float]:
    return lambda: time.time() + rng.uniform(-YEAR, YEAR)


CASES = (Case("clocks jump", jumping, soak=2),)
