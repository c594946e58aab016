"""As whom a site reaches the fleet above."""

from dataclasses import replace

import pytest

from coordinator.config import FleetConfig, RelaySection, ServeSection, TrustSection
from coordinator.relay import reach
from coordinator.relay.agreement import FleetAgreement
from protofleet.errors import UsageError
from protofleet.member import membership
from protofleet.member.membership import FleetMember
from tests.coordinator.made import CONTRACT


def plan(folder, **relay):
    serve = ServeSection(fleet="own", method="fedproto", data_dir=str(folder))
    return FleetConfig(serve=serve, relay=RelaySection(**relay))


def test_by_its_settings(tmp_path):
    settled, member = reach.settled(plan(tmp_path, url="mqtt://head", name="north"))
    assert (settled.relay.url, settled.relay.name, member) == ("mqtt://head", "north", None)
    assert settled.serve.fleet == "own"


def test_method_is_the_fleets_and_where_devices_train_so_is_the_run(tmp_path):
    own = plan(tmp_path, url="mqtt://head", name="north")
    of_ledger = reach.agreed(own, FleetAgreement("fleet", {}, CONTRACT))
    assert (of_ledger.serve.method, of_ledger.serve.run) == ("fleet", "")
    of_rounds = reach.agreed(own, FleetAgreement("fedproto", {}, CONTRACT))
    assert (of_rounds.serve.method, of_rounds.serve.run) == ("fedproto", "r1")


def test_by_what_it_joined(tmp_path):
    folder = tmp_path / membership.FOLDER
    membership.write(FleetMember("theirs", "north", "mqtts://head:8883", folder))
    settled, member = reach.settled(plan(tmp_path))
    assert (settled.relay.url, settled.relay.name) == ("mqtts://head:8883", "north")
    assert (settled.serve.fleet, member.name) == ("theirs", "north")
    settled, _ = reach.settled(plan(tmp_path, url="mqtts://other"))
    assert settled.relay.url == "mqtts://other"
    with pytest.raises(UsageError, match="joined the fleet above as north"):
        reach.settled(plan(tmp_path, name="south"))


def test_what_is_missing_or_does_not_fit_is_one_line(tmp_path):
    with pytest.raises(UsageError, match="which fleet is above is not said"):
        reach.settled(plan(tmp_path, name="north"))
    with pytest.raises(UsageError, match="this site has no name"):
        reach.settled(plan(tmp_path, url="mqtt://head"))
    masked = replace(
        plan(tmp_path, url="mqtt://head", name="north"), trust=TrustSection(secure_sum=True)
    )
    with pytest.raises(UsageError, match="masks and budgets are the fleet's above"):
        reach.settled(masked)
