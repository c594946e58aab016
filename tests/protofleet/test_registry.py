"""Methods come from entry points, this package's and anybody's."""

import json
import subprocess
import sys

import pytest

from protofleet import registry
from protofleet.errors import UnknownMethod


def test_the_methods_of_this_package():
    assert {"local", "fedavg", "fedprox", "fedproto"} <= set(registry.names())
    assert all(registry.load(name).name == name for name in registry.names())


def test_an_unknown_method_is_answered_with_the_nearest():
    with pytest.raises(UnknownMethod, match="did you mean 'fedproto'") as caught:
        registry.load("fedprotto")
    assert caught.value.exit_code == 2


METHOD = """
from dataclasses import replace
from protofleet.methods import fedproto
from protofleet.recipe import NearestPrototype
from protofleet.parts.access import find
from protofleet.prototypes import Prototypes

def scorers(turn, me, got):
    known = find(got, "prototypes", Prototypes)
    return {} if known is None else {"prototype": NearestPrototype(known, "cosine")}

recipe = replace(fedproto.recipe, name="cosproto", title="FedProto, read by cosine", scorers=scorers)
"""


def test_a_method_from_another_package_runs_in_the_lab(tmp_path):
    (tmp_path / "cosproto.py").write_text(METHOD)
    info = tmp_path / "cosproto-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cosproto\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[protofleet.methods]\ncosproto = cosproto:recipe\n")
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from protofleet.cli import main; main()"
    words = ["simulate", "--method", "cosproto", "--agents", "3", "--rounds", "4", "--json"]
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), *words], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert result["config"]["method"] == "cosproto"
    assert result["final"]["accuracy"] > 0.5
