"""A candidate's files: whenever the daemon ends, what is in use is one of two whole bundles."""

import io
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from edge_agent.config import AgentSection, Config
from edge_agent.trials.candidate import Candidate
from edge_agent.updates import cache
from protofleet.exchange import archive
from protofleet.exchange.rollouts import RolloutPlan, TrialTerms, write_plan
from protofleet.util.logs import Log
from protofleet.wire import Envelope
from simulators.rollouts.variants import write_variant

NOTHING = (b"", b"state")


@pytest.fixture
def device(tmp_path):
    made = SimpleNamespace(now=0.0, started=[], reports=[], code=None, answer={})
    file = write_variant("first", tmp_path / "fleet.pfb", "f")
    cache.state_file(file).write_bytes(b"old state")
    made.old = archive.name_of(file)
    made.new = archive.name_of(write_variant("good", tmp_path / "good.pfb", "f"))

    def start(words):
        made.started.append(words)
        out, err = io.BytesIO(json.dumps(made.answer).encode()), io.BytesIO(b"error: why")
        return SimpleNamespace(
            poll=lambda: made.code, stdout=out, stderr=err, terminate=lambda: None
        )

    def life():
        config = replace(Config(), agent=AgentSection(id="a", data_dir=str(tmp_path)))
        outbound = SimpleNamespace(reported=lambda *words: made.reports.append(words[0]) or True)
        made.log = io.StringIO()
        made.it = Candidate(config, file, outbound, Log(made.log), lambda: made.now, start)
        return made.it

    made.life, made.folder, made.file = life, tmp_path, file
    life()
    return made


def planned(device, number=1, **changes):
    plan = RolloutPlan(number, device.new, "e", "open", 1.0, terms=TrialTerms(soak=5.0))
    device.it.take_plan(write_plan(replace(plan, **changes), Envelope("desired", "f")))


def look(device, times=1):
    for _ in range(times):
        device.now += 2.0
        device.it.look(archive.name_of(device.file), NOTHING, at_rest=True)
        device.it.report(archive.name_of(device.file), "r", 1, may_send=True)
    return device.it.standing.step


def test_from_a_plan_to_proof_and_back(device):
    planned(device)
    assert look(device, 2) == "trying"
    assert device.it.wants == device.new
    device.it.waiting_file(device.new).write_bytes((device.folder / "good.pfb").read_bytes())
    look(device)
    assert device.it.busy
    words = " ".join(device.started[0])
    assert f"--candidate {device.it.waiting_file(device.new)} --name {device.new}" in words
    assert "--compare --margin 0.03 --slower 2 --larger 2" in words
    device.code = 0
    device.answer = {"reason": "", "figures": {"pictures": 3, "alike": 3}}
    device.it._process.stdout = io.BytesIO(json.dumps(device.answer).encode())
    assert look(device) == "running"
    assert archive.name_of(device.file) == device.new
    assert archive.name_of(device.it.previous) == device.old
    # a new life goes on, and proves it by a start from the disk
    device.life()
    planned(device)
    assert device.it.standing.starts == 1
    assert look(device, 4) == "proven"
    assert "--candidate" not in device.started[-1]
    assert [r.step for r in device.reports] == ["trying", "running", "running", "proven"]
    assert (device.reports[-1].runs, device.reports[-1].figures.alike) == (device.new, 3)
    # what was before is in use again at once, with its state
    cache.state_file(device.file).write_bytes(b"new state")
    planned(device, phase="back")
    assert look(device) == "back"
    assert device.it.restore(device.old)
    assert archive.name_of(device.file) == device.old
    assert cache.state_file(device.file).read_bytes() == b"old state"
    assert not device.it.restore(device.new)


@pytest.mark.parametrize(
    ("code", "answer", "reason"),
    [
        (1, {"reason": "worse", "words": "12 points"}, "worse"),
        (1, {}, "crash"),
        (0, {"reason": 3, "more": 1}, "crash"),
    ],
)
def test_what_does_not_pass_is_removed(device, code, answer, reason):
    planned(device)
    look(device, 2)
    device.it.waiting_file(device.new).write_bytes(b"x")
    device.code, device.answer = code, answer
    look(device)
    assert look(device) == "refused"
    assert device.it.standing.reason == reason
    assert not device.it.waiting_file(device.new).exists()
    assert archive.name_of(device.file) == device.old
    # in this life and in the next it is not tried again
    device.life()
    planned(device)
    assert look(device, 3) == "refused"
    assert len(device.started) == 1
    # but where somebody rolls it out anew
    planned(device, 2)
    assert look(device, 2) == "trying"


def test_a_trial_that_was_killed_is_made_again(device):
    planned(device)
    look(device, 2)
    device.it.waiting_file(device.new).write_bytes(b"x")
    device.code = -9
    look(device, 4)
    assert device.it.standing.step == "trying"
    assert len(device.started) > 1


def test_a_damaged_record_begins_anew(device):
    (device.folder / "rollout.json").write_text("{]")
    device.life()
    planned(device)
    assert look(device) == "trying"


def test_who_never_had_anything_says_nothing(device):
    device.file.unlink()
    look(device)
    assert device.reports == []
