"""Makes an environment ready to be packed: no path of the machine that built it, nothing that only
installs, modules compiled under the names that they will have, and a list of what is carried under
which licence.
"""

import compileall
import os
import py_compile
import re
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

OURS = re.compile(r"python[\d.]*|protofleet|edge-agent|coordinator")
HEAD = """What lies in {place} beside ProtoFleet, and under which licence. The texts are
in {place}/lib/python3*/site-packages, in the folders *.dist-info or in the packages' own.

"""


def main(package: Path, place: str) -> None:
    """`package` is what becomes /, `place` where the environment will lie in it."""
    environment = package / place.lstrip("/")
    (modules,) = environment.glob("lib/python3*/site-packages")
    pip = [environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "uninstall", "--quiet", "--yes", "setuptools", "pip"], check=True)
    for note in modules.glob("*.dist-info/direct_url.json"):
        note.unlink()
    for program in (environment / "bin").iterdir():
        if not OURS.fullmatch(program.name):
            program.unlink()
    settings = environment / "pyvenv.cfg"
    lines = settings.read_text().splitlines(keepends=True)
    settings.write_text("".join(line for line in lines if not line.startswith("command")))
    documents = package / "usr/share/doc" / package.name
    documents.mkdir(parents=True, exist_ok=True)
    carried = sorted(map(_line, distributions(path=[str(modules)])), key=str.lower)
    (documents / "carried.txt").write_text(HEAD.format(place=place) + "".join(carried))
    compileall.compile_dir(
        modules,
        quiet=2,
        stripdir=str(package),
        prependdir="/",
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        workers=os.cpu_count() or 1,
    )


def _line(one: Distribution) -> str:
    data = one.metadata
    classes = [c.split(" :: ")[-1] for c in data.get_all("Classifier", []) if "License ::" in c]
    text = (data.get("License") or "").strip()
    name = data.get("License-Expression") or ", ".join(classes) or text.split("\n")[0]
    return f"{one.name} {one.version}: {name}\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
