"""A run that was killed goes on to the state it would have ended in, in a directory of its own."""

import json
import time
from multiprocessing import get_context

import pytest

from protofleet.errors import CheckpointError
from protofleet.exchange.snapshot import unpack_state
from simulators.run import pictures
from simulators.run.rounds import LabOptions, run, run_in
from simulators.run.rundir import RunDir
from simulators.run.setup import prepare


@pytest.fixture(autouse=True)
def unpainted(monkeypatch):
    """Pictures take longer than these runs, and have tests of their own."""
    monkeypatch.setattr(pictures, "draw", lambda outcome, path: None)


def ended(config, **how):
    return run(prepare(config), LabOptions(**how), lambda row: None)


# One of each thing that a checkpoint has to bring back: weights, prototypes that a server trains,
# what devices remember, clusters, sums.
@pytest.mark.parametrize("method", ["fedavg", "fedtgp", "gfpl", "fedic", "ifca", "fleet"])
def test_a_run_that_was_cut_continues_to_the_same_state(method, small_lab, tmp_path):
    # A fleet counts whenever it exchanges, which takes long: after the cut it does so once more.
    settings = ("interval=3",) if method == "fleet" else ()
    config = small_lab(method, settings, rounds=5)
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
    config, folder = small_lab(rounds=6), tmp_path / "cut"
    process = get_context("spawn").Process(target=stuck, args=(config, folder))
    process.start()
    until = time.monotonic() + 60
    while not list(folder.glob("checkpoint-*")) and time.monotonic() < until:
        time.sleep(0.01)
    process.kill()
    process.join()
    assert not (folder / "result.json").exists()
    resumed = run_in(prepare(config), LabOptions(), lambda row: None, folder, resume=True)
    assert resumed.state.sha256 == ended(config).state.sha256


def stuck(config, folder):
    """A run that does not get past its third round."""

    def watch(row):
        time.sleep(60 * (row.round == 3))

    run_in(prepare(config), LabOptions(checkpoint_every=1), watch, folder)


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


def test_a_checkpoint_that_has_no_name_yet_is_not_read(small_lab, tmp_path):
    setup = prepare(small_lab(rounds=2))
    run_in(setup, LabOptions(checkpoint_every=1), lambda row: None, tmp_path)
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-000002"]
    # As a process leaves it that dies while it writes the checkpoint of a third round.
    unfinished = tmp_path / ".checkpoint-4711"
    unfinished.mkdir()
    (unfinished / "state.cbor").write_bytes(b"")
    assert len(RunDir(tmp_path).latest(setup).rows) == 2


def test_of_two_checkpoints_the_newer_counts_even_where_the_older_is_in_pieces(small_lab, tmp_path):
    setup = prepare(small_lab(rounds=2))
    run_in(setup, LabOptions(), lambda row: None, tmp_path)
    older = tmp_path / "checkpoint-000001"
    older.mkdir()
    (older / "rows.json").write_text("[")
    assert len(RunDir(tmp_path).latest(setup).rows) == 2


def test_only_the_very_same_run_counts_as_finished(small_lab, tmp_path):
    setup = prepare(small_lab(rounds=1))
    outcome = run_in(setup, LabOptions(), lambda row: None, tmp_path)
    assert RunDir(tmp_path).result(setup)["state_sha256"] == outcome.state.sha256
    assert RunDir(tmp_path).result(prepare(small_lab(rounds=2))) is None
    assert RunDir(tmp_path).result(prepare(small_lab(rounds=1, wire="float32"))) is None
    assert RunDir(tmp_path / "nowhere").result(setup) is None


def test_a_result_vouches_for_the_state_beside_it(small_lab, tmp_path, monkeypatch):
    def undrawable(*_):
        raise OSError("no font")

    monkeypatch.setattr(pictures, "draw", undrawable)
    with pytest.raises(OSError, match="no font"):
        run_in(prepare(small_lab(rounds=1)), LabOptions(), lambda row: None, tmp_path)
    result = json.loads((tmp_path / "result.json").read_text())
    assert unpack_state((tmp_path / "state.cbor").read_bytes()).sha256 == result["state_sha256"]


def test_an_option_that_came_later_had_its_default(small_lab, tmp_path):
    config = small_lab(rounds=2)
    run_in(prepare(config), LabOptions(), lambda row: None, tmp_path)
    file = tmp_path / "config.json"
    before = json.loads(file.read_text())
    for section, option in ((before, "averaging"), (before["partition_options"], "pairs")):
        del section[option]
    del before["contract"]["averaging"]
    del before["contract"]["training"]["augment"]
    file.write_text(json.dumps(before))
    result = json.loads((tmp_path / "result.json").read_text())
    (tmp_path / "result.json").write_text(json.dumps(result | {"config": before}))
    assert RunDir(tmp_path).result(prepare(config)) is not None
    RunDir(tmp_path).begin(prepare(config), resume=True)
    before["partition_options"]["pairs"] = "consecutive"
    file.write_text(json.dumps(before))
    with pytest.raises(CheckpointError, match="other settings"):
        RunDir(tmp_path).begin(prepare(config), resume=True)


def test_rows_of_a_checkpoint_from_before_pooled_accuracy_are_read(small_lab, tmp_path):
    config = small_lab(rounds=2)
    run_in(prepare(config), LabOptions(), lambda row: None, tmp_path)
    (rows,) = tmp_path.glob("checkpoint-*/rows.json")
    before = json.loads(rows.read_text())
    for row in before:
        del row["pooled"]
    rows.write_text(json.dumps(before))
    assert [row.pooled for row in RunDir(tmp_path).latest(prepare(config)).rows] == [{}, {}]
