"""The laboratory from Python: the same run as by its command, and what only a program can bring."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from torch import nn

import protofleet as pf
from protofleet import registry
from protofleet.errors import SettingError, UsageError
from protofleet.mistakes import RecipeError
from simulators.cli.simulate_cmd import simulate

QUICK = {"agents": 3, "rounds": 1, "progress": False}
RNG = np.random.default_rng(3)
Y = np.arange(120) % 3
X = (RNG.normal(size=(120, 6)) + 3 * np.eye(6)[Y]).astype(np.float32)


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))


def test_the_same_words_are_the_same_run_as_the_command():
    words = ["--method", "fedproto", "--agents", "3", "--rounds", "1", "--set", "lam=2", "--json"]
    document = json.loads(CliRunner().invoke(simulate, words).stdout)
    result = pf.simulate("fedproto", lam=2, **QUICK)
    assert result.state == document["state_sha256"]
    assert result.accuracy == document["final"]["accuracy"]


def test_own_arrays_network_rows_and_method():
    mine = replace(registry.load("fedproto"), name="mine")
    rows = [np.arange(i, 120, 4) for i in range(4)]
    result = pf.simulate(
        mine, (X, Y), network=Net, partition=rows, rounds=2, lr=0.1, progress=False
    )
    config = result.document["config"]
    assert (config["method"], config["partition"], config["agents"]) == ("mine", "given", 4)
    assert set(config["backbones"].values()) == {"Net"}
    assert [row["round"] for row in result.rows()] == [1, 2]
    assert result.plot().png.startswith(b"\x89PNG")
    again = pf.simulate(mine, (X, Y), network=Net, partition=rows, rounds=2, lr=0.1, progress=False)
    assert again.state == result.state


def test_what_is_brought_reaches_other_processes():
    words = {"network": Net, "agents": 3, "rounds": 1, "progress": False}
    alone = pf.simulate("fedproto", (X, Y), **words)
    assert pf.simulate("fedproto", (X, Y), workers=2, **words).state == alone.state
    with pytest.raises(UsageError, match="another process"):
        pf.simulate("fedproto", (X, Y), workers=2, **{**words, "network": lambda: nn.Linear(6, 4)})


def forgetful(turn, learner, state):
    return state["what nobody put there"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_mistake_in_a_method_is_named(workers):
    mine = replace(registry.load("fedproto"), name="mine", train=forgetful)
    with pytest.raises(RecipeError, match=r"'mine': forgetful\(\) in test_experiment.py, line"):
        pf.simulate(mine, (X, Y), network=Net, workers=workers, **QUICK)


def test_methods_and_grids_beside_each_other(tmp_path):
    words = {"network": Net(), "agents": 3, "rounds": 1}
    results = pf.compare(
        ["local", "fedproto"], (X, Y), seeds=2, baseline="local", lam=0.5, out=tmp_path, **words
    )
    assert results.names == ("local", "fedproto")
    assert all(len(each) == 2 for each in results.accuracies().values())
    assert len(results.rows()) == 4
    assert 0 <= results.p("fedproto") <= 1
    assert "paired" not in repr(results["local"])
    assert "fedproto" in results.latex()
    points = pf.sweep({"lam": [0.1, 1], "lr": [0.01]}, "fedproto", (X, Y), **words)
    assert points.names == ("lam=0.1 lr=0.01", "lam=1 lr=0.01")
    assert points["lam=0.1 lr=0.01"].document["config"]["settings"]["lam"] == 0.1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: pf.simulate(lamb=1), SettingError, "did you mean"),
        (lambda: pf.simulate(agents=0), SettingError, "agents"),
        (lambda: pf.simulate(partition="dealt"), SettingError, "partition"),
        (lambda: pf.simulate(partition=[[1, 2]]), UsageError, "bring the data"),
        (
            lambda: pf.simulate("fedproto", (X, Y), network=nn.Linear(5, 2), agents=3),
            UsageError,
            "not fit",
        ),
        (lambda: pf.simulate("fedproto", (X, Y), network=dict, agents=3), UsageError, "dict"),
        (lambda: pf.compare([], (X, Y)), UsageError, "no method"),
        (lambda: pf.sweep({"lam": []}), UsageError, "no values"),
        (lambda: pf.sweep({"seed": [1, 2]}), UsageError, "seeds=5"),
    ],
)
def test_a_slip_is_one_clear_line(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_the_names_of_the_interface():
    assert pf.__all__ == ["Client", "Recipe", "__version__", "compare", "simulate", "sweep"]
    assert all(getattr(pf, name) for name in pf.__all__)
    with pytest.raises(AttributeError, match="simulator"):
        pf.simulator  # noqa: B018
