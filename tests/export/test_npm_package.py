"""The npm package in somebody's project: packed, installed into an empty folder, its types read by
`tsc --strict`, built by Vite, and run in Chromium beside a live fleet and in Node.
"""

import gzip
import json
import re
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path

import numpy as np
import pytest

from edge_agent.inference.classifier import Classifier
from export import page
from export.writer import Wanted, contents_of, export, write
from protofleet import wire
from protofleet.contract import Input
from protofleet.exchange import published
from protofleet.exchange.published import About, Bank
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.mosquitto import Listening
from protofleet.mqtt.broker.run import running_broker
from tests.bundles import device, other_bank
from tests.coordinator.made import packed_bundle
from tests.export.browser import CHROMIUM, answer, visited
from tests.serving import coordinator, frozen

ROOT = Path(__file__).parents[2]
PACKAGE, SITE = ROOT / "export" / "web", Path(__file__).parent / "web" / "site"
TOOLS = "typescript@7.0.2", "vite@8.3.8", "@types/node@24.10.1"
N = 40
LEAST = (20, 19)  # the Node.js that Vite wants


def node_version():
    if shutil.which("node") is None or shutil.which("npm") is None:
        return (0,)
    run = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    return tuple(int(part) for part in run.stdout.strip("v\n").split("."))


pytestmark = pytest.mark.skipif(
    node_version() < LEAST, reason="Node.js 20.19 or later, or npm, is not installed"
)


def ran(*command, cwd):
    run = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def tarball(tmp_path_factory):
    out = tmp_path_factory.mktemp("packed")
    name = ran("npm", "pack", str(PACKAGE), "--silent", "--pack-destination", str(out), cwd=out)
    return out / name.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def project(tarball, tmp_path_factory, request):
    """An empty folder with the package and its tools; what npm fetches is kept in pytest's
    cache.
    """
    folder = tmp_path_factory.mktemp("project")
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    kept = Path(request.config.cache.mkdir("npm")) / "registry"
    others = [f"{name}@{version}" for name, (version, _) in page.PACKAGES.items()]
    command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    command += [f"--cache={kept}", str(tarball), *others, *TOOLS]
    run = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=600
    )
    if run.returncode:
        pytest.skip(f"npm could not bring the tools: {' '.join(run.stderr.split())[:200]}")
    for path in SITE.iterdir():
        shutil.copy(path, folder / path.name)
    return folder


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Two extractors of one fleet, as `.pfb`, and samples for both."""
    folder = tmp_path_factory.mktemp("bundles")
    kind = Input("image", (28, 28, 1), (0.4,), (0.3,))
    exported = []
    for name, embedding in (("a", 20), ("b", 12)):
        source = device("cnn-mnist", kind=kind, embedding=embedding)
        exported.append(export(source, Wanted(by="prototype", freeze=True)))
        write(exported[-1], folder / f"{name}.pfb")
    x = np.random.default_rng(1).integers(0, 256, (N, 28, 28, 1), dtype=np.uint8)
    x[: N // 2] = source.check.x[: N // 2]
    x[-3:] = np.array([0, 255, 128])[:, None, None, None]  # like nothing of these
    (folder / "samples.bin").write_bytes(x.tobytes())
    return folder, exported[0], x


def agrees(answers, due):
    assert [one["label"] for one in answers] == due.best
    assert [one["unknown"] for one in answers] == due.unknown.tolist()
    apart = np.abs(np.array([one["scores"] for one in answers]) - due.scores).max()
    assert apart <= 1e-5 * np.abs(due.scores).max()


def names_of(text):
    return set(re.findall(r"^export (?:class|function) (\w+)", text, re.M))


def test_what_is_packed_is_what_the_entry_needs_and_its_types_name_what_it_exports(tarball):
    with tarfile.open(tarball) as archive:
        files = {name.removeprefix("package/") for name in archive.getnames()}
    needed = {f"{module}.mjs" for module in page.MODULES} - {"app.mjs"}
    others = {"package.json", "LICENSE", "README.md", "pack.mjs", "protofleet.d.mts"}
    assert files == needed | others
    own = json.loads((PACKAGE / "package.json").read_text())
    assert (
        own["version"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    )
    assert (PACKAGE / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    words = "import('./protofleet.mjs').then((all) => console.log(Object.keys(all).join(' ')))"
    exported = ran("node", "-e", words, cwd=PACKAGE).split()
    assert set(exported) == names_of((PACKAGE / "protofleet.d.mts").read_text())


def test_programs_are_typed_strictly_and_one_of_node_reads_a_pfb(project, bundles):
    folder, _, x = bundles
    texts = (ROOT / "docs" / "devices.md").read_text(), (PACKAGE / "README.md").read_text()
    listings = [one for text in texts for one in re.findall(r"```ts\n(.*?)```", text, re.S)]
    assert len(listings) >= 2
    for i, listing in enumerate(listings):
        (project / f"listing-{i}.ts").write_text(listing)
    ran("npx", "tsc", "-p", "tsconfig.json", cwd=project)
    ran("npx", "tsc", "-p", "tsconfig.node.json", cwd=project)
    # onnxruntime's own types need a browser's library; ours do not.
    alone = ("--noEmit", "--strict", "--lib", "es2023", "--ignoreConfig")
    ran("npx", "tsc", *alone, "node_modules/protofleet/protofleet.d.mts", cwd=project)
    command = ["node", "out/node.js", str(folder / "b.pfb"), str(folder / "samples.bin"), str(N)]
    found = json.loads(ran(*command, cwd=project))
    classifier = Classifier(folder / "b.pfb", unknown=True)
    assert found["bundle"] == classifier.bundle.digest
    agrees(found["answers"], classifier.look(x))


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_a_site_classifies_swaps_follows_a_live_fleet_and_exchanges_its_bundle(
    project, bundles, tmp_path
):
    folder, exported, x = bundles
    first, second = (Classifier(folder / f"{name}.pfb", unknown=True) for name in "ab")
    own = first.loaded.bank
    swapped, small = other_bank(own, seed=2), other_bank(own, seed=3, rows=2)
    envelope = wire.Envelope("global", "f", "r", round=9)
    out = built(project)
    (out / "bundle").mkdir()
    for name, data in contents_of(exported).items():
        (out / "bundle" / name).write_bytes(data)
    (out / "swap.cbor").write_bytes(published.write(swapped, envelope, "float32"))
    shutil.copy(folder / "samples.bin", out)
    with (
        running_broker(
            tmp_path / "broker", Listening(port=0, ws_port=0), prefer="mosquitto"
        ) as broker,
        coordinator(str(broker.address), tmp_path / "c", 4096),
    ):
        frozen(tmp_path / "c", packed_bundle(tmp_path / "small.pfb", small))
        address = f"index.html?n={N}&broker={broker.ws_address}"
        with visited(out, address, tmp_path / "profile") as answers:
            classified, at_once = answer(answers), answer(answers)
            followed = answer(answers)
            frozen(tmp_path / "c", folder / "b.pfb")
            words, exchanged = answer(answers), answer(answers)
            foreign = Bank(About("extractor:other", own.about.classes), own.points)
            frozen(tmp_path / "c", packed_bundle(tmp_path / "foreign.pfb", foreign))
            refusals = [answer(answers), answer(answers)]
            frozen(tmp_path / "c", folder / "a.pfb")
            back = answer(answers)

    steps = [classified, at_once, followed, words, exchanged, *refusals, back]
    assert [one["step"] for one in steps] == [
        *("classified", "swapped", "followed", "words", "followed", "words", "words", "followed")
    ]
    assert None in [one["label"] for one in classified["answers"]]
    assert len({one["label"] for one in classified["answers"]}) > 1
    due = {}
    for classifier, bank, step, precision in (
        (first, own, classified, None),
        (first, swapped, at_once, "float32"),
        (first, small, followed, "half"),
        (second, second.loaded.bank, exchanged, "half"),
        (first, own, back, "half"),
    ):
        # As it travelled: a fleet's precision is half.
        message = published.write(bank, envelope, precision or "float32")
        state = step["answers"][0]["state"]
        classifier.use(published.read(message).bank, state)
        due[state] = classifier.look(x)
        agrees(step["answers"], due[state])
        assert step["bundle"] == classifier.bundle.digest
    # Another extractor: its bundle came in chunks, was tried, and is in use with its own classes.
    assert words["words"].startswith("these prototypes are of extractor:")
    assert exchanged["fetched"] == (folder / "b.pfb").stat().st_size
    assert refusals[1]["words"].startswith("the fleet's bundle cannot be used")
    assert refusals[1]["bundle"] == second.bundle.digest
    assert back["fetched"] == 0  # the site came with it
    # Who classified all the while saw one of these whole, and never a mixture.
    assert len({one["state"] for one in back["steady"]}) >= 4
    for one in back["steady"]:
        expected = due[one["state"]]
        assert one["label"] == expected.best[0]
        assert np.allclose(one["scores"], expected.scores[0], rtol=1e-4, atol=1e-4)
    held(out, classified)


def built(project):
    """The site, and the machine code packed beside it."""
    ran("npx", "vite", "build", "--logLevel", "warn", cwd=project)
    words = ran("npx", "protofleet-wasm", "dist", cwd=project)
    assert re.match(r"dist/ort-wasm-simd-threaded.wasm.gz: \d+ bytes of \d+", words)
    return project / "dist"


def held(out, classified):
    """What a visitor waits for: a small script, then the runtime, packed; mqtt only to follow."""
    scripts = {
        path.name: len(gzip.compress(path.read_bytes(), 9)) for path in out.glob("assets/*.js")
    }
    (entry,) = re.findall(r'src="/assets/([^"]+)"', (out / "index.html").read_text())
    assert scripts[entry] < 30_000
    assert set(classified["before"]) == {f"/assets/{entry}"}
    after = classified["after"]
    assert not [name for name in after if name.endswith(".wasm")]
    assert sum(after.values()) < 5_000_000
    assert after["/ort-wasm-simd-threaded.wasm.gz"] < 4_000_000
    largest = max(scripts, key=scripts.get)
    assert f"/assets/{largest}" not in after  # mqtt.js, larger than all of ours
