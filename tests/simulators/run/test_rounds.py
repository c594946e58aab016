"""The laboratory: the same command ends in the same state, whatever is evaluated or compiled."""

from protofleet.contract import Numerics
from simulators.run.rounds import LabOptions, run
from simulators.run.setup import prepare


def ended(config, **how):
    return run(prepare(config), LabOptions(**how), lambda row: None)


def test_evaluating_less_often_changes_nothing_but_the_rows(small_lab):
    assert ended(small_lab(eval_every=3)).state.sha256 == ended(small_lab()).state.sha256


def test_compiled_runs_are_repeatable_too(small_lab):
    config = small_lab(numerics=Numerics(compile=True), rounds=2)
    assert ended(config).state.sha256 == ended(config).state.sha256


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
