"""Who may import whom, and what an import may cost."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALLOWED = {
    "protofleet": set(),
    "edge_agent": {"protofleet"},
    "coordinator": {"protofleet"},
    "export": {"protofleet", "edge_agent"},
    "simulators": {"protofleet", "edge_agent", "coordinator", "export"},
}
OURS = set(ALLOWED)


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_a_room_imports_only_the_rooms_it_may(room):
    for path in (ROOT / room).rglob("*.py"):
        strangers = (imported(path) & OURS) - ALLOWED[room] - {room}
        assert not strangers, f"{path.relative_to(ROOT)} imports {strangers}"


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys; print(' '.join(sorted({{m.partition('.')[0] for m in sys.modules}})))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(run.stdout.split())


HEAVY = {
    "torch",
    "torchvision",
    "onnxruntime",
    "onnx",
    "paho",
    "sklearn",
    "scipy",
    "matplotlib",
    "rich",
}


def test_the_core_costs_numpy_only():
    assert not loaded_by("import protofleet") & HEAVY
    core = "from protofleet import wire, recipe, registry; from protofleet.values import prototypes, nearest"
    assert not loaded_by(core) & HEAVY


def test_every_recipe_can_be_read_and_fused_without_torch():
    load = "from protofleet import registry\nfor name in registry.names(): registry.load(name)\n"
    load += "import coordinator.uploads.fuse"
    assert not loaded_by(load) & HEAVY


@pytest.mark.parametrize("command", ["protofleet.cli", "edge_agent.cli", "coordinator.cli"])
def test_a_command_line_answers_before_it_loads_anything_heavy(command):
    assert not loaded_by(f"import {command}") & HEAVY


def test_a_device_that_classifies_follows_and_enrols_needs_no_torch():
    every = "from edge_agent.updates import cache, listener, enrolment; from edge_agent.data import images"
    every += "; import edge_agent.inference.classifier"
    assert not loaded_by(every) & (HEAVY | {"PIL", "export"})


def test_the_link_costs_no_client_before_it_is_used():
    every = "from protofleet.mqtt.link import link; from protofleet.mqtt.blobs import sender"
    every += "; from protofleet.mqtt.broker import run; import protofleet.cli.broker_cmd"
    assert not loaded_by(every) & (HEAVY | {"amqtt"})
