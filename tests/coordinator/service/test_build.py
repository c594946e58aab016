"""From a plan to a service: what one life hands on to the next."""

import io
import json
import time
from dataclasses import replace

import numpy as np
import pytest

from coordinator.config import (
    Bounds,
    ContractSection,
    FleetConfig,
    ServeSection,
    TrustSection,
)
from coordinator.errors import JournalError
from coordinator.journal.journal import Journal
from coordinator.service import build
from protofleet.contract import Input
from protofleet.errors import SettingError
from protofleet.exchange.published import About, Bank
from protofleet.mqtt.address import Address
from protofleet.util.logs import Log
from protofleet.values.prototypes import Prototypes
from protofleet.wire import epochs
from tests.coordinator.made import packed_bundle

NOWHERE = Address.parse("mqtt://127.0.0.1:1")


@pytest.fixture
def plan(tmp_path):
    contract = ContractSection(("a", "b"), Input("vector", (4,)), embedding=4)
    serve = ServeSection(fleet="orchard", method="fedproto", data_dir=str(tmp_path / "data"))
    return FleetConfig(contract, serve)


def test_every_life_has_an_epoch_of_its_own_and_knows_the_boot_ids_before_it(plan):
    lives = []
    for above in (0, 0, 7):
        options = build.ServeOptions(epoch_above=above)
        with build.service(plan, NOWHERE, Log(io.StringIO()), {}, options) as service:
            lives.append((service.deps.messages, service.deps.boots))
    assert [messages.epoch for messages, _ in lives] == [1, 2, 8]
    assert len({messages.contract.run for messages, _ in lives}) == 1
    assert lives[2][1] == {lives[0][0].boot, lives[1][0].boot}


def noted(plan, **values):
    journal = Journal(plan.data_dir, lambda: 0.0)
    with journal.commit():
        for key, value in values.items():
            journal.set_meta(key.replace("_", " "), str(value))
    journal.close()


def epoch_of_the_next_life(plan, **options):
    with build.service(
        plan, NOWHERE, Log(io.StringIO()), {}, build.ServeOptions(**options)
    ) as service:
        return service.deps.messages.epoch


def test_a_journal_with_an_epoch_that_no_message_can_have_starts_again(plan):
    noted(plan, epoch=2**63 + 1)
    epoch = epoch_of_the_next_life(plan)
    assert epochs.is_credible(epoch, 5)
    assert epoch_of_the_next_life(plan) == epoch + 1


def test_a_new_life_goes_above_what_devices_follow_and_never_further_than_they_believe(plan):
    noted(plan, epoch=5, heard_epoch=900)
    assert epoch_of_the_next_life(plan) == 901
    assert epoch_of_the_next_life(plan, epoch_above=2**63 - 1) == 901 + epochs.JUMP


def test_of_many_lives_the_newest_are_remembered(tmp_path, plan):
    boots = [f"{number:016x}" for number in range(build.LIVES, 0, -1)]  # the newest is the smallest
    journal = Journal(tmp_path / "data", lambda: 0.0)
    with journal.commit():
        journal.set_meta("boots", " ".join(boots))
    journal.close()
    for _ in range(2):
        with build.service(plan, NOWHERE, Log(io.StringIO()), {}) as service:
            remembered = service.deps.boots
    assert boots[-1] in remembered
    assert boots[0] not in remembered


def test_a_run_goes_on_only_as_it_began(tmp_path, plan):
    with build.service(plan, NOWHERE, Log(io.StringIO()), {}):
        pass
    other = replace(plan, contract=replace(plan.contract, embedding=8))
    with (
        pytest.raises(JournalError, match=r"another contract\.embedding"),
        build.service(other, NOWHERE, Log(io.StringIO()), {}),
    ):
        pass
    journal = Journal.read(tmp_path / "data")
    assert build.agreed(journal)[0].embedding == 4
    journal.close()


def test_a_directory_holds_one_run(plan):
    with build.service(plan, NOWHERE, Log(io.StringIO()), {}):
        pass
    renamed = replace(plan, serve=replace(plan.serve, run="another"))
    with (
        pytest.raises(JournalError, match="not 'another'"),
        build.service(renamed, NOWHERE, Log(io.StringIO()), {}),
    ):
        pass


def test_the_extractor_that_the_settings_name_is_the_fleets_from_the_start(tmp_path, plan):
    """And stays what an operator made it since, until the settings name another one."""
    names = Bank(About("extractor:one", ()), Prototypes([], np.zeros((0, 5))))
    kind = {"kind": "image", "shape": [8, 8, 1]}
    first = packed_bundle(tmp_path / "one.pfb", names, input=kind)
    plan = replace(plan, serve=replace(plan.serve, method="fleet"))
    plan = replace(plan, contract=ContractSection(extractor=str(first)))

    def lineage(choose=None, plan=plan):
        with build.service(plan, NOWHERE, Log(io.StringIO()), {}) as service:
            core = service.deps.core
            core.recover(0.0)
            assert core.messages.contract.input == Input("image", (8, 8, 1))
            assert core.is_ledger
            if choose is not None:
                core.classes("freeze", {"file": str(choose)}, 1.0)
            return core.keeper.version.lineage

    assert lineage() == "extractor:one"
    others = [Bank(About(f"extractor:{n}", ()), names.points) for n in ("two", "three")]
    two, three = (
        packed_bundle(tmp_path / f"{bank.about.lineage[10:]}.pfb", bank, input=kind)
        for bank in others
    )
    assert lineage(two) == "extractor:two"
    assert lineage() == "extractor:two"
    changed = replace(plan, contract=ContractSection(extractor=str(three)))
    assert lineage(plan=changed) == "extractor:three"


def test_a_run_from_before_a_setting_goes_on_and_one_with_another_does_not(tmp_path, plan):
    plan = replace(plan, serve=replace(plan.serve, method="fedavg"))
    with build.service(plan, NOWHERE, Log(io.StringIO()), {}):
        pass
    journal = Journal(tmp_path / "data", lambda: 0.0)
    agreement = json.loads(journal.meta("agreement"))
    assert "unit_embedding" not in agreement["contract"]  # at its default
    del agreement["settings"]["weighted"]
    with journal.commit():
        journal.set_meta("agreement", json.dumps(agreement))
    journal.close()
    with build.service(plan, NOWHERE, Log(io.StringIO()), {}):
        pass
    scaled = replace(plan, contract=replace(plan.contract, unit_embedding=True))
    plain_mean = replace(plan, settings={"weighted": False})
    for other, words in ((scaled, "another contract.unit_embedding"), (plain_mean, "settings")):
        with (
            pytest.raises(JournalError, match=words),
            build.service(other, NOWHERE, Log(io.StringIO()), {}),
        ):
            pass


@pytest.mark.parametrize(
    ("url", "policy"),
    [
        ("mqtt://127.0.0.1:1", "auto"),
        ("mqtt://coordinator:secret@127.0.0.1:1", "manual"),
        ("mqtt://192.0.2.7:1", "manual"),
        ("mqtts://coordinator:secret@b.example:1", "manual"),
    ],
)
def test_classes_of_devices_wait_for_an_operator_unless_all_devices_are_ours(plan, url, policy):
    with build.service(plan, Address.parse(url), Log(io.StringIO()), {}) as service:
        assert service.deps.core.catalogue.policy == policy
    wish = replace(plan, serve=replace(plan.serve, enrol="off"))
    assert build.enrol_policy(wish, Address.parse(url)) == "off"


def test_a_password_in_the_open_is_warned_of_in_one_line(plan):
    for url, lines in (("mqtt://c:s3cr3t@192.0.2.7:1", 1), ("mqtt://c:s3cr3t@127.0.0.1:1", 0)):
        log = io.StringIO()
        with build.service(plan, Address.parse(url), Log(log), {}):
            pass
        assert log.getvalue().count("goes over the network as it is") == lines
        assert "s3cr3t" not in log.getvalue()


def test_the_bounds_of_uploads_hold_for_classes_too(plan):
    plan = replace(plan, admission=Bounds(norm=7.0))
    with build.service(plan, NOWHERE, Log(io.StringIO()), {}) as service:
        assert service.deps.core.catalogue.limits.norm == 7.0


@pytest.mark.parametrize(
    ("wish", "invited", "words"),
    [("off", True, "take nothing unsigned"), ("required", False, "no device was invited")],
)
def test_signatures_are_not_wished_away(tmp_path, wish, invited, words):
    plan = FleetConfig(
        serve=ServeSection(data_dir=str(tmp_path)), trust=TrustSection(signatures=wish)
    )
    if invited:
        build.Office(tmp_path, "fleet", time.time).close()
    with pytest.raises(SettingError, match=words):
        build.office_of(plan, time.time)
