"""The web client: a folder of static files that any web server can give out, with nothing from
elsewhere.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from edge_agent.inference.bundle import CALIBRATION, DRIFT
from protofleet.errors import FleetError, UsageError
from protofleet.exchange.archive import MANIFEST, MODEL, PROTOTYPES, SELFTEST

MODULES = (
    "app",
    "protofleet",
    "classifier",
    "engine",
    "inputs",
    "bundle",
    "graph",
    "published",
    "certainty",
    "enrolment",
    "exchange",
    "follow",
    "camera",
    "runtime",
    "cbor",
    "npz",
    "zipped",
    "resize",
    "sha256",
)
RUNTIME, MACHINE_CODE = "ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm.gz"
OWN = ("index.html", *(f"{module}.mjs" for module in MODULES))
# What of each npm package goes beside the page, and what it is called there (.mjs: some servers
# know no better type). What ends in .gz is packed: four fifths of a page are machine code, few
# servers compress it, and a browser unpacks it in a tenth of a second.
PACKAGES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "onnxruntime-web": (
        "1.30.0",
        {
            "dist/ort.wasm.bundle.min.mjs": RUNTIME,
            "dist/ort-wasm-simd-threaded.wasm": MACHINE_CODE,
        },
    ),
    "mqtt": ("5.16.0", {"dist/mqtt.esm.js": "mqtt.esm.mjs", "LICENSE.md": "LICENSE.mqtt"}),
}


class PackageMissing(FleetError):
    """A file of an npm package that could not be had."""

    code = "npm"


def write(bundle: Mapping[str, bytes], out: Path, node_modules: Path | None) -> list[str]:
    """The page with the bundle in it; packages from `node_modules`, else from npm."""
    # A folder of ours is written over; anything else in it is somebody's.
    if out.exists() and any(out.iterdir()) and not (out / "protofleet.mjs").exists():
        raise UsageError(f"{out} is not empty and holds no page", "name another --web")
    (out / "bundle").mkdir(parents=True, exist_ok=True)
    for name in OWN:
        (out / name).write_bytes((resources.files("export") / "web" / name).read_bytes())
    for name in (MANIFEST, MODEL, PROTOTYPES, SELFTEST, CALIBRATION, DRIFT):
        (out / "bundle" / name).unlink(missing_ok=True)
        if name in bundle:
            (out / "bundle" / name).write_bytes(bundle[name])
    with tempfile.TemporaryDirectory() as scratch:
        for package, (version, files) in PACKAGES.items():
            where = (
                node_modules / package if node_modules else fetched(package, version, Path(scratch))
            )
            for source, name in files.items():
                if not (where / source).exists():
                    if name.startswith("LICENSE"):
                        continue
                    raise PackageMissing(
                        f"{where / source} is missing", f"npm install {package}@{version}"
                    )
                if name.endswith(".gz"):
                    (out / name).write_bytes(packed(where / source))
                else:
                    shutil.copyfile(where / source, out / name)
    return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())


def packed(file: Path) -> bytes:
    """A file as gzip has it, or what lies packed beside it; the same file gives the same bytes."""
    beside = file.with_name(f"{file.name}.gz")
    return beside.read_bytes() if beside.exists() else gzip.compress(file.read_bytes(), 9, mtime=0)


def fetched(package: str, version: str, scratch: Path) -> Path:
    """An npm package, unpacked in a folder; none of its scripts is run."""
    scratch.mkdir(parents=True, exist_ok=True)
    # `pack` and not `install`: no dependencies, no lock file, and no script of the package runs.
    command = ["npm", "pack", f"{package}@{version}", "--ignore-scripts", "--silent"]
    command += ["--pack-destination", str(scratch)]
    hint = "install Node.js, or name a folder of packages with --node-modules"
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, cwd=scratch
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PackageMissing(
            f"npm could not bring {package} ({type(error).__name__})", hint
        ) from None
    packed = next(scratch.glob(f"{package}-*.tgz"), None)
    if run.returncode or packed is None:
        raise PackageMissing(
            f"npm could not bring {package} ({' '.join(run.stderr.split())[:120]})", hint
        )
    with tarfile.open(packed) as archive:
        archive.extractall(scratch / package, filter="data")
    return scratch / package / "package"
