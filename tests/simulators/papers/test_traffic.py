"""Accuracy against bytes: what is counted, and which classifier is read."""

from dataclasses import replace

from simulators.papers.traffic import TASKS, TrafficTask, curve, curves, render
from simulators.run.plots import against_bytes


def document(validation, rounds=3):
    seen = [{"prototype": 0.1 * i, "head_own_classes": 0.2 * i} for i in range(rounds)]
    rows = [
        {"up_bytes": 10, "down_bytes": 30, "accuracy": each, "validation": validation}
        for each in seen
    ]
    return {"rounds": rows, "partition": {"agents": {"a": {}, "b": {}}}}


def test_bytes_of_both_ways_add_up_for_each_device():
    seen = curve("x", document({"prototype": 0.9, "head_own_classes": 0.1, "head": 1.0}))
    assert seen.evaluator == "prototype"
    assert seen.points == ((20.0, 0.0), (40.0, 0.1), (60.0, 0.2))


def test_validation_and_not_the_test_split_chooses_the_classifier():
    assert (
        curve("x", document({"prototype": 0.1, "head_own_classes": 0.9})).evaluator
        == "head_own_classes"
    )


def test_a_method_runs_in_every_scene_and_is_found_again(small_lab, tmp_path):
    task = TrafficTask("small", "Small", small_lab(rounds=2), {"fedproto": ("lam=2",)})
    assert task.of("fedproto").settings == ("lam=2",)
    assert task.of("local").settings == ()
    for method in ("fedproto", "local"):
        task.run(method, tmp_path, 1)
    stamp = (tmp_path / "small" / "local" / "result.json").stat().st_mtime_ns
    task.run("local", tmp_path, 1)
    assert (tmp_path / "small" / "local" / "result.json").stat().st_mtime_ns == stamp
    found = curves(task, tmp_path)
    assert sorted(each.method for each in found) == ["fedproto", "local"]
    assert found[0].points[-1][1] >= found[1].points[-1][1]
    text = render(task, found)
    assert "local" in text
    assert " 0 B" in text
    assert not curves(replace(task, settings={}), tmp_path)[1:]


def test_methods_get_their_papers_settings_for_the_data():
    assert TASKS[0].of("fedmps").settings == ("alpha=1", "mu=1")
    assert {task.config.run.dataset for task in TASKS} == {"fashion-mnist", "cifar10"}


def test_the_picture_holds_a_panel_a_scene(tmp_path):
    series = {"a": [(10.0, 0.1), (20.0, 0.4)], "silent": [(0.0, 0.2), (0.0, 0.3)]}
    against_bytes({"one": series, "two": series}, tmp_path / "bytes.png")
    assert (tmp_path / "bytes.png").read_bytes().startswith(b"\x89PNG")
