"""The house stays readable: what `tools/house.py` counts, and where a module's test lies."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from house import ROOMS, measure  # noqa: E402

# Tests of no single module, each with what it is about.
OF_NO_MODULE = {
    "tests/test_house.py": "the tree itself",
    "tests/test_imports.py": "who may import whom",
    "tests/test_dockerfile.py": "the images' steps, without an engine",
    "tests/test_examples.py": "what lies in examples/",
    "tests/test_packages.py": "Debian packages, units and compose.yaml, without building them",
    "tests/test_deploy.py": "what lies in deploy/, by a real Prometheus",
    "tests/coordinator/test_publications.py": "a budget, from an upload to what status says",
    "tests/coordinator/web/test_page_driven.py": "the operator's page, in a browser",
    "tests/edge_agent/cli/test_private_authority.py": "commands by hand through a TLS broker",
    "tests/edge_agent/daemon/test_adopt_live.py": "a ledger, all of it by processes",
    "tests/edge_agent/page/test_owner_looks.py": "the owner's page in windows of any width",
    "tests/edge_agent/page/test_owner_live.py": "the owner's page in a browser, on a live fleet",
    "tests/export/test_devices_page.py": "the listings of docs/devices.md",
    "tests/export/test_app_page.py": "from an ONNX file to answers, as docs/tutorials has it",
    "tests/test_documents.py": "what the documents show is run, or says that it is not",
    "tests/test_site.py": "the documents as a site",
    "tests/export/test_npm_package.py": "the npm package in somebody's project, and in a browser",
    "tests/export/test_other_runtimes.py": "our graphs, read by others",
    "tests/export/test_page_live.py": "a page in a browser that follows a fleet",
    "tests/simulators/live/test_masked_budget.py": "a budget under masks, from samples to a hash",
    "tests/protofleet/methods/test_every_method.py": "what holds for whatever is registered",
    "tests/protofleet/wire/test_golden.py": "bytes of every message that never change",
    "tests/protofleet/wire/test_hostile.py": "any bytes at all, through all of wire/",
}
# tests/papers/: a paper's protocol, cut short, a file a method; tests/protofleet/methods/ holds the
# methods themselves.
PROTOCOLS = "tests/papers/"
# Modules whose behaviour is held by another's test, each with why.
WITHOUT_A_TEST: dict[str, str] = {
    "simulators/faults/forger.py": "tests/simulators/faults/cases/test_forgers.py says all of it",
}


@pytest.fixture(scope="module")
def house():
    return measure(ROOT)


@pytest.mark.parametrize(
    ("figure", "least", "most"),
    [
        ("comments_percent", 4, 100),
        ("long_lines", 0, 0),
        ("vague_percent", 0, 1),
        ("classes_twice", 0, 0),
        ("modules_twice", 0, 0),
        ("many_arguments", 0, 4),
        ("full_folders", 0, 0),
        ("tested_percent", 90, 100),
    ],
)
def test_the_figures_hold(house, figure, least, most):
    assert least <= house.figures()[figure] <= most


def test_a_test_lies_where_its_module_does():
    strays = []
    for path in (ROOT / "tests").rglob("test_*.py"):
        at = path.relative_to(ROOT / "tests")
        module = ROOT / at.parent / at.name.removeprefix("test_")
        name = str(path.relative_to(ROOT))
        if not (module.exists() or name in OF_NO_MODULE or name.startswith(PROTOCOLS)):
            strays.append(name)
    assert not strays


def test_every_exception_is_one():
    assert all((ROOT / path).exists() for path in [*OF_NO_MODULE, *WITHOUT_A_TEST])


def test_a_module_without_a_test_is_listed_with_a_reason(house):
    assert set(house.untested) <= set(WITHOUT_A_TEST)


def test_every_folder_of_modules_is_a_package():
    folders = {path.parent for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]
