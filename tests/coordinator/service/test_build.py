"""From a plan to a service: what one life hands on to the next."""

import io

from coordinator.config import ContractSection, FleetConfig, ServeSection
from coordinator.service import build
from protofleet.contract import Input
from protofleet.mqtt.address import Address
from protofleet.util.logs import Log

NOWHERE = Address.parse("mqtt://127.0.0.1:1")


def test_every_life_has_an_epoch_of_its_own_and_knows_the_boot_ids_before_it(tmp_path):
    contract = ContractSection(("a", "b"), Input("vector", (4,)), embedding=4)
    plan = FleetConfig(contract, ServeSection(fleet="orchard", data_dir=str(tmp_path / "data")))
    lives = []
    for above in (0, 0, 7):
        options = build.ServeOptions(epoch_above=above)
        with build.service(plan, NOWHERE, Log(io.StringIO()), {}, options) as service:
            lives.append((service.deps.messages, service.deps.boots))
    assert [messages.epoch for messages, _ in lives] == [1, 2, 8]
    assert len({messages.contract.run for messages, _ in lives}) == 1
    assert lives[2][1] == {lives[0][0].boot, lives[1][0].boot}
