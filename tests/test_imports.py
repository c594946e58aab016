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
# Inside a room: a package (or a module at the room's root) imports only what stands before it.
# Those of one line do not know each other.
ORDER = {
    "protofleet": (
        ("errors", "util"),
        ("values", "mqtt", "metrics"),
        ("settings", "wire", "mqtt.link"),
        ("masking",),
        ("contract", "mqtt.blobs", "mqtt.broker", "pages", "trust"),
        ("statistics", "member"),
        ("exchange",),
        ("recipe", "toolbox"),
        ("methods", "registry", "scoring", "budget", "homeassistant", "mistakes"),
        ("cli",),
    ),
    "edge_agent": (
        ("config", "records", "protocol", "networks", "inference"),
        ("store", "data", "training", "updates"),
        ("worker", "contributing", "cameras.saying"),
        ("recent", "client"),
        ("cameras",),
        ("trials",),
        ("daemon", "page"),
        ("metrics",),
        ("cli",),
    ),
    "coordinator": (
        ("errors", "config", "alerts", "shelves"),
        ("devices", "rounds", "members"),
        ("journal",),
        ("messages",),
        ("uploads",),
        ("ingestion",),
        ("ledger",),
        ("rollouts",),
        ("core",),
        ("relay",),
        ("service",),
        ("metrics",),
        ("web",),
        ("cli",),
    ),
    "export": (
        ("forms", "trial", "feeding", "reading", "mobile", "page"),
        ("source", "graph", "verify", "onnx_source", "torch_source"),
        ("quantise", "extractor", "contents"),
        ("agent", "writer", "conformance"),
        ("cli",),
    ),
    "simulators": (
        ("run",),
        ("live", "papers", "rogues", "cluster"),
        ("faults", "photos", "speed", "streams"),
        ("attacks", "trees", "scale"),
        ("faults.cases", "experiment"),
        ("attacks", "rollouts", "throngs"),
        ("faults.cases",),
        ("cli",),
    ),
}


def imported(path: Path) -> set[str]:
    """Dotted names of everything of ours that a module imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.partition(".")[0] in ALLOWED}


def unit(dotted: str) -> str:
    """The package that holds a module, without the room; a module at the room's root is its own."""
    room, *parts = dotted.split(".")
    folder = [n for n in range(len(parts), 0, -1) if (ROOT / room / Path(*parts[:n])).is_dir()]
    return ".".join(parts[: folder[0]] if folder else parts[:1])


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_a_room_imports_only_the_rooms_it_may(room):
    for path in (ROOT / room).rglob("*.py"):
        strangers = {name.partition(".")[0] for name in imported(path)} - ALLOWED[room] - {room}
        assert not strangers, f"{path.relative_to(ROOT)} imports {strangers}"


@pytest.mark.parametrize("room", sorted(ORDER))
def test_a_package_imports_only_what_stands_before_it_in_its_room(room):
    place = {name: n for n, line in enumerate(ORDER[room]) for name in line}
    for path in (ROOT / room).rglob("*.py"):
        here = unit(".".join(path.relative_to(ROOT).with_suffix("").parts))
        if here in ("__init__", "__main__"):
            continue
        assert here in place, f"{here} has no place in the order of {room}"
        for name in imported(path):
            there = unit(name)
            if name.startswith(f"{room}.") and there not in ("", here) and there in place:
                assert place[there] < place[here], f"{path.relative_to(ROOT)} imports {name}"


def loaded_by(statement: str) -> set[str]:
    told = "print(' '.join(sorted({m.partition('.')[0] for m in sys.modules})))"
    code = f"{statement}\nimport sys; {told}"
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
    "cryptography",
    "opendp",
    "starlette",
    "uvicorn",
    "av",
}


def test_the_core_costs_numpy_only():
    assert not loaded_by("import protofleet") & HEAVY
    core = "from protofleet import wire, recipe, registry"
    core += "; from protofleet.values import prototypes, nearest"
    assert not loaded_by(core) & HEAVY


def test_every_recipe_can_be_read_and_fused_without_torch():
    load = "from protofleet import registry\nfor name in registry.names(): registry.load(name)\n"
    load += "import coordinator.uploads.fuse"
    assert not loaded_by(load) & HEAVY


@pytest.mark.parametrize("command", ["protofleet.cli", "edge_agent.cli", "coordinator.cli"])
def test_a_command_line_answers_before_it_loads_anything_heavy(command):
    assert not loaded_by(f"import {command}") & HEAVY


def test_a_device_that_classifies_follows_and_enrols_needs_no_torch():
    every = "from edge_agent.updates import cache, listener, enrolment"
    every += "; from edge_agent.data import images; import edge_agent.inference.classifier"
    assert not loaded_by(every) & (HEAVY | {"PIL", "export"})


def test_a_service_knows_nothing_of_what_serves_its_page():
    every = "import protofleet.pages.child, protofleet.pages.passkey, protofleet.pages.visitors"
    assert not loaded_by(every) & HEAVY


def test_a_device_that_contributes_needs_no_torch_before_or_after_its_bundle():
    every = "import edge_agent.daemon.start, edge_agent.worker.runner"
    every += "; from edge_agent.contributing import statement; from edge_agent.data import labelled"
    assert not loaded_by(every) & (HEAVY - {"paho"} | {"PIL", "export"})


def test_a_training_process_needs_no_compiler_and_its_digits_no_scikit_learn():
    every = "from edge_agent.training.context import settle; from edge_agent.data.sets import load"
    every += "; from protofleet.contract import Numerics; import edge_agent.training.agent"
    every += "; settle(Numerics()); load('digits', data_dir=None)"
    # Torch's compiler cannot be without sympy.
    assert not loaded_by(every) & (HEAVY - {"torch"} | {"sympy"})


def test_the_link_costs_no_client_before_it_is_used():
    every = "from protofleet.mqtt.link import link; from protofleet.mqtt.blobs import sender"
    every += "; from protofleet.mqtt.broker import run; import protofleet.cli.broker_cmd"
    assert not loaded_by(every) & (HEAVY | {"amqtt"})
