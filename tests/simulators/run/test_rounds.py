"""The laboratory: the same command ends in the same state, whatever the workers, interruptions or
evaluations.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from protofleet import registry
from protofleet.contract import Numerics
from protofleet.errors import CheckpointError, DataError, UsageError
from simulators.run.result import document
from simulators.run.rounds import LabOptions, run, run_in
from simulators.run.rundir import unpack_state
from simulators.run.setup import prepare


def ended(config, **how):
    return run(prepare(config), LabOptions(**how), lambda row: None)


@pytest.mark.parametrize("method", registry.names())
def test_the_same_run_ends_in_the_same_state_whatever_the_workers(method, small_lab):
    config = small_lab(method)
    one, again, two = ended(config), ended(config), ended(config, workers=2)
    assert one.state.sha256 == again.state.sha256 == two.state.sha256
    assert [row.accuracy for row in one.rows] == [row.accuracy for row in two.rows]
    assert (
        ended(replace(config, run=replace(config.run, seed=5))).state.sha256 != one.state.sha256
        or method == "local"
    )


def test_evaluating_less_often_changes_nothing_but_the_rows(small_lab):
    assert ended(small_lab(eval_every=3)).state.sha256 == ended(small_lab()).state.sha256


def test_compiled_runs_are_repeatable_too(small_lab):
    config = small_lab(numerics=Numerics(compile=True), rounds=2)
    assert ended(config).state.sha256 == ended(config).state.sha256


@pytest.mark.parametrize("method", registry.names())
def test_a_run_that_was_cut_continues_to_the_same_state(method, small_lab, tmp_path):
    config = small_lab(method, rounds=5)
    whole = ended(config)

    class Cut(Exception):
        pass

    def cut_after_four(row):
        if row.round == 4:
            raise Cut

    with pytest.raises(Cut):
        run_in(prepare(config), LabOptions(checkpoint_every=2), cut_after_four, tmp_path)
    seen = []
    resumed = run_in(
        prepare(config), LabOptions(checkpoint_every=2), seen.append, tmp_path, resume=True
    )
    assert resumed.state.sha256 == whole.state.sha256
    assert [row.accuracy for row in resumed.rows] == [row.accuracy for row in whole.rows]
    assert unpack_state((tmp_path / "state.cbor").read_bytes()).sha256 == whole.state.sha256


def test_kill_dash_nine_and_resume_ends_in_the_same_state(small_lab, tmp_path):
    words = [
        "--agents",
        "5",
        "--rounds",
        "40",
        "--alpha",
        "0.5",
        "--seed",
        "4",
        "--checkpoint-every",
        "1",
    ]
    command = [
        sys.executable,
        "-m",
        "protofleet",
        "simulate",
        *words,
        "--out",
        str(tmp_path / "cut"),
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not list((tmp_path / "cut").glob("checkpoint-*")) and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "cut" / "result.json").exists()
    cut = subprocess.run(
        [*command, "--resume", "--json"], capture_output=True, text=True, check=True
    )
    whole = subprocess.run([*command[:-2], "--json"], capture_output=True, text=True, check=True)
    assert json.loads(cut.stdout)["state_sha256"] == json.loads(whole.stdout)["state_sha256"]


def test_a_directory_with_another_run_is_left_alone(small_lab, tmp_path):
    run_in(prepare(small_lab(rounds=1)), LabOptions(), lambda row: None, tmp_path)
    with pytest.raises(CheckpointError, match="already holds a run"):
        run_in(prepare(small_lab(rounds=1)), LabOptions(), lambda row: None, tmp_path)
    with pytest.raises(CheckpointError, match="other settings"):
        run_in(
            prepare(small_lab(rounds=1, agents=4)),
            LabOptions(),
            lambda row: None,
            tmp_path,
            resume=True,
        )
    newest = max(tmp_path.glob("checkpoint-*"))
    (newest / "state.cbor").write_bytes(b"\xff")
    with pytest.raises(CheckpointError, match="cannot be read"):
        run_in(prepare(small_lab(rounds=1)), LabOptions(), lambda row: None, tmp_path, resume=True)


def test_a_finished_run_can_be_made_longer(small_lab, tmp_path):
    run_in(prepare(small_lab(rounds=2)), LabOptions(), lambda row: None, tmp_path)
    longer = run_in(
        prepare(small_lab(rounds=4)), LabOptions(), lambda row: None, tmp_path, resume=True
    )
    assert longer.state.sha256 == ended(small_lab(rounds=4)).state.sha256


def test_the_result_says_what_was_run_and_counts_real_bytes(small_lab, tmp_path):
    outcome = run_in(prepare(small_lab()), LabOptions(), lambda row: None, tmp_path)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result == json.loads(json.dumps(document(outcome)))
    assert result["schema"] == 1
    assert {
        "config",
        "rounds",
        "best",
        "final",
        "state_sha256",
        "seconds",
        "peak_rss_bytes",
        "partition",
    } <= set(result)
    held = sum(len(agent["classes"]) for agent in result["partition"]["agents"].values())
    for row in result["rounds"]:
        assert row["up_floats"] == held * result["config"]["contract"]["embedding"]
        assert 2 * row["up_floats"] < row["up_bytes"] < 2 * row["up_floats"] + 5 * 500
        assert 0 <= row["accuracy"]["prototype"] <= 1
    for name in ("curve.png", "partition.png", "embeddings.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "rounds.csv").read_text().count("\n") == 4
    assert len(result["final"]["per_agent"]) == 5
    assert set(result["final"]["per_class"]["prototype"]) == {str(i) for i in range(10)}


def test_half_precision_and_int8_cost_bytes_and_little_else(small_lab):
    rows = {
        wire: ended(small_lab(wire=wire, rounds=4)).rows[-1] for wire in ("float32", "half", "int8")
    }
    assert rows["float32"].up_bytes > 1.6 * rows["half"].up_bytes > 2.2 * rows["int8"].up_bytes
    assert (
        max(
            abs(r.accuracy["prototype"] - rows["float32"].accuracy["prototype"])
            for r in rows.values()
        )
        < 0.05
    )


def test_mixed_backbones_meet_in_one_embedding(small_lab):
    outcome = ended(small_lab(backbone="mixed"))
    assert len(set(outcome.setup.backbones.values())) > 1
    assert outcome.state.shared["prototypes"].dim == outcome.setup.contract.embedding
    with pytest.raises(UsageError, match="one backbone for all"):
        prepare(small_lab("fedavg", backbone="mixed"))


def test_a_frozen_extractor_stays_as_it_is(small_lab):
    setup = prepare(small_lab(freeze=True, common_start="yes", rounds=1))
    agent = setup.agent(setup.partition.shards[0], setup.context())
    before = {k: v.clone() for k, v in agent._lasting.weights.items()}
    agent.receive(0, {}, {})
    agent.work(1)
    changed = {
        k.partition(".")[0] for k in before if not before[k].equal(agent._lasting.weights[k])
    }
    assert changed == {"head"}


def test_data_that_does_not_suffice_is_said_in_one_line(small_lab):
    with pytest.raises(DataError) as caught:
        prepare(small_lab(partition="few-shot", agents=20))
    assert "\n" not in str(caught.value)


def test_devices_are_tested_on_their_own_samples_or_all_on_the_same(small_lab):
    config = small_lab("feddistill", rounds=1)
    setup = prepare(replace(config, run=replace(config.run, test_on="everyone")))
    union = {row for shard in setup.partition.shards for row in shard.test}
    own, everyone = ended(config).rows[-1], run(setup, LabOptions(), lambda row: None).rows[-1]
    agents = [setup.agent(shard, setup.context()) for shard in setup.partition.shards]
    assert {len(agent.data.test) for agent in agents} == {len(union)}
    assert agents[0].data.test.y.equal(agents[-1].data.test.y)
    assert own.accuracy != everyone.accuracy


def test_samples_of_others_keep_the_look_that_they_have_there(small_lab):
    config = small_lab(partition="feature-skew", agents=3, test_on="everyone")
    setup = prepare(config)
    first = setup.agent(setup.partition.shards[0], setup.context()).data.test.x
    alone = prepare(replace(config, run=replace(config.run, test_on="own")))
    each = [alone.agent(shard, alone.context()).data.test.x for shard in alone.partition.shards]
    assert first.equal(torch.cat(each))


@pytest.mark.parametrize(
    ("method", "counted"),
    [
        ("fedproto", lambda held, agents: held * 64),
        ("fedmps", lambda held, agents: held * (128 + 64) + 10 * 10),
        ("mpfedcl", lambda held, agents: agents * 2 * 10 * 64),
        ("local", lambda held, agents: 0),
    ],
)
def test_a_round_is_counted_as_the_paper_counts_it(method, counted, small_lab):
    result = document(ended(small_lab(method)))
    held = sum(len(agent["classes"]) for agent in result["partition"]["agents"].values())
    assert len(result["partition"]["agents"]) == 5
    assert {row["paper_floats"] for row in result["rounds"]} == {counted(held, 5)}
