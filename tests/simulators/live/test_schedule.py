"""The laboratory by a schedule: with everyone there it is the plain run, and what a schedule
changes it changes.
"""

import random
import threading
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import replace

import pytest
from scipy.stats import chi2

from coordinator.journal.journal import Journal
from coordinator.service.build import agreed
from coordinator.service.replay import replayed
from protofleet import registry, wire
from protofleet.budget.private import of_contract
from protofleet.exchange import learned, published
from protofleet.exchange.rollouts import TrialFigures, read_report
from protofleet.mqtt.address import Address
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from protofleet.mqtt.link.events import Arrival
from protofleet.mqtt.link.link import Link, LinkSettings
from protofleet.mqtt.topics import Topics
from protofleet.recipe import Turn
from simulators.live import fleet, schedule
from simulators.run import rounds
from simulators.run.config import BudgetOptions, LabConfig, MaskOptions, Run
from simulators.run.partitions import PartitionOptions
from simulators.run.setup import prepare


def followed(setup, plan):
    context = setup.context()
    devices = {shard.agent: setup.agent(shard, context) for shard in setup.partition.shards}
    return schedule.follow(setup.recipe, setup.contract, setup.hyper, plan, devices)


@pytest.mark.parametrize("method", ["fedproto", "fedic", "gfpl", "moon"])
def test_with_nobody_lost_it_is_the_plain_run(small_lab, method):
    setup = prepare(small_lab(method, agents=3, rounds=3))
    plan = schedule.undisturbed(setup.recipe, setup.contract, setup.hyper, setup.agents, 3)
    states = followed(setup, plan)
    assert (
        states[max(states)] == rounds.run(setup, rounds.LabOptions(), lambda row: None).state.sha256
    )


def test_who_is_missing_in_a_cut_or_trains_nothing_changes_the_outcome(small_lab):
    setup = prepare(small_lab("moon", agents=3, rounds=2))
    whole = schedule.undisturbed(setup.recipe, setup.contract, setup.hyper, setup.agents, 2)
    late = [replace(whole[0], counted=whole[0].counted[:-1]), whole[1]]
    absent = [replace(late[0], trained=late[0].trained[:-1]), whole[1]]
    found = [followed(setup, plan)[2] for plan in (whole, late, absent)]
    assert len(set(found)) == 3


PLAIN = MaskOptions()


def bounded(method, agents, epsilon, masks=PLAIN):
    run = Run(method=method, agents=agents, partition="dirichlet", rounds=2, seed=3)
    budget = BudgetOptions(epsilon=epsilon, clip=16.0)
    return prepare(LabConfig(run, PartitionOptions(alpha=0.5), masks=masks, budget=budget))


@contextmanager
def overheard(address):
    """All that is said in the fleet, by kind of topic."""
    topics, heard, over = Topics(fleet.FLEET), defaultdict(list), threading.Event()
    settings = LinkSettings(clean_start=True, session_expiry=0)
    link = Link(Address.parse(str(address)), "listener", settings, rng=random.Random(0))

    def listen():
        while not over.is_set():
            for event in link.poll(0.2):
                if isinstance(event, Arrival):
                    heard[topics.parse(event.topic).kind].append(event)
                    link.ack(event)

    link.subscribe([(f"{topics.prefix}/#", 1)])
    link.start()
    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield heard
    finally:
        over.set()
        link.wake()
        thread.join()
        link.stop(patience=1.0)


def lived(setup, folder):
    """A live run, what was said in it, the coordinator's last status, and its logs."""
    with running_broker(folder / "broker", prefer="mosquitto") as broker:
        fleet.write(setup, folder, str(broker.address))
        with overheard(broker.address) as heard, fleet.members(setup, folder) as members:
            fleet._watched(setup, folder, members, lambda row: None)
            log = folder / "logs" / f"{setup.agents[0]}.log"
            fleet_is_told = "the fleet's budget is spent: nothing more is sent"
            for _ in range(600):
                if fleet_is_told in log.read_text():
                    break
                threading.Event().wait(0.1)
            status = fleet.status_of(folder)
        assert log.read_text().count(fleet_is_told) == 1
    words = (folder / "logs" / "coordinator.log").read_text()
    assert words.count("the budget is spent: the state stays") == 1
    return heard, status


OFTEN = {"coordinator_state", "round", "shared_state", "proto", "bundle", "state", "reported"}
OTHERS = {"upload", "upload_chunk", "shared_chunk", "own_chunk", "chunk_request", "receipt"}


def nothing_else_is_said_of_samples(heard):
    """Whatever is said to everybody is of noised sums alone."""
    reports = [read_report(one.payload)[0] for one in heard["reported"]]
    assert all(report.figures == TrialFigures() for report in reports)
    births = [wire.decode(one.payload).body for one in heard["state"]]
    assert not any({"samples", "classes"} & birth.keys() for birth in births)
    assert {one.topic for one in heard["proto"]} <= {Topics(fleet.FLEET).proto("stable")}


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
@pytest.mark.parametrize(("method", "agents"), [("fleet", 5), ("fedproto", 2)])
def test_a_live_fleet_under_a_budget_is_the_laboratory_s_with_the_noise_of_its_journal(
    tmp_path, method, agents
):
    setup = bounded(method, agents, 200.0)
    heard, status = lived(setup, tmp_path)
    journal = Journal.read(tmp_path / "coordinator-data")
    try:
        recorded = journal.state_hashes()
        assert {one.verdict for one in replayed(journal)} == {"same"}
        state = journal.state()[1]
        assert len(journal.uploads()) == 2 * agents
        assert not list(journal.ledger.bodies())
    finally:
        journal.close()
    assert schedule.of_run(setup, tmp_path / "coordinator-data") == recorded
    # The ledger of ε is the accountant's own.
    assert status["budget"]["spent"] == setup.private.accountant.spent(2)
    assert (status["budget"]["publications_left"], status["accuracy"]) == (0, {})
    assert setup.private.accountant.spent(2) == pytest.approx(200.0)
    assert heard.keys() <= OFTEN | OTHERS
    nothing_else_is_said_of_samples(heard)
    banks = [published.read(one.payload).bank for one in heard["proto"] if one.payload]
    assert method != "fleet" or all(bank.about.by_rounds for bank in banks)
    if method == "fleet":
        head = state.shared[learned.HEAD]
        assert banks[-1].points.weight == pytest.approx(head.weight)
        assert banks[-1].about.classes == setup.contract.classes


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_a_live_fleet_under_masks_and_a_budget_is_the_laboratory_s_but_for_what_its_devices_drew(
    tmp_path, monkeypatch
):
    """Real devices, real noise: what a total has beyond the laboratory's sums of the same devices
    is whole steps of the variance that the accountant counts, and with it the hashes are equal.
    """
    setup = bounded("fleet", 5, 200.0, MaskOptions(True, dropouts=1))
    heard, status = lived(setup, tmp_path)
    found, data = {}, tmp_path / "coordinator-data"
    noise_in = schedule.noise_in

    def noting(journal):
        of_round = noise_in(journal)

        def noise(round, plain, before):
            found[round] = of_round(round, plain, before), before
            return found[round][0]

        return noise

    journal = Journal.read(data)
    try:
        recorded = journal.state_hashes()
        assert {one.verdict for one in replayed(journal)} == {"same"}
        contract, _, hyper = agreed(journal)
        kinds = {wire.unseal(journal.body(one.blob))[0].t for one in journal.uploads()}
        assert kinds == {"letter"}
        assert [journal.noise(number) for number in (1, 2)] == [None, None]
        assert not list(journal.ledger.bodies())
    finally:
        journal.close()
    monkeypatch.setattr(schedule, "noise_in", noting)
    assert schedule.of_run(setup, data) == recorded
    under = of_contract(registry.load("fleet"), contract, hyper)
    for number, (noise, before) in found.items():
        mechanism = under.stage(Turn(contract, hyper, number), before)
        for name, one in mechanism.sums.items():
            columns = noise[name].total().reshape(one.rows, one.numbers)
            values = columns[:, :-1] if one.counted else columns
            # Five added what is enough for four.
            variance = mechanism.scales(name)[0] ** 2 * 5 / 4
            squares = float((values**2).sum()) / variance
            low, high = chi2.ppf([1e-6, 1 - 1e-6], values.size)
            assert low < squares < high
    # The ledger of ε is the accountant's own.
    assert status["budget"]["spent"] == setup.private.accountant.spent(2)
    assert (status["budget"]["publications_left"], status["accuracy"]) == (0, {})
    # Nobody said an upload, and nothing else was said of samples.
    assert heard.keys() <= OFTEN | OTHERS | {"group", "box"}
    slips = [one.payload for one in heard["upload"] if wire.unseal(one.payload)[0].t == "slip"]
    assert {wire.decode(slip).body["of"] for slip in slips} <= {"letter"}
    others = [one.payload for one in heard["upload"] if one.payload not in slips]
    assert {wire.unseal(message)[0].t for message in others} == {"letter"}
    nothing_else_is_said_of_samples(heard)
    banks = [published.read(one.payload).bank for one in heard["proto"] if one.payload]
    assert banks[-1].points is not None
