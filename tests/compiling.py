"""The C++ client of `examples/clients`, compiled against onnxruntime: headers of Debian's package,
the library of npm's; fetched once, compiled once a source, and kept in pytest's cache.
"""

import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from export import page as npm

CLIENTS = Path(__file__).parents[1] / "examples" / "clients"
LIBRARY = "onnxruntime-node", "1.30.0"
HEADERS = "libonnxruntime-dev"
RELEASE = "trixie"  # of Debian, the first that has them
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
INSIDE = "bin/napi-v6/linux/x64/libonnxruntime.so.1"
JSON = Path("/usr/include/nlohmann/json.hpp")


@pytest.fixture(scope="session")
def conformance_cpp(request):
    """The program that answers a conformance folder."""
    if shutil.which("g++") is None or not JSON.exists():
        pytest.skip("no g++, or no nlohmann-json3-dev")
    kept = Path(request.config.cache.mkdir("onnxruntime"))
    try:
        library, headers = _library(kept), _headers(kept)
    except (npm.PackageMissing, OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no onnxruntime to compile with: {error}")
    sources = sorted((CLIENTS / "cpp").iterdir())
    name = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    program = kept / f"conformance-{name}"
    if not program.exists():
        command = ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror"]
        command += ["-isystem", str(headers), str(CLIENTS / "cpp" / "conformance.cpp")]
        command += [str(library), "-pthread", f"-Wl,-rpath,{library.parent}"]
        new = program.with_suffix(".new")
        subprocess.run([*command, "-o", str(new)], check=True, timeout=300)
        new.rename(program)
    return program


def _library(kept):
    library = kept / Path(INSIDE).name
    if not library.exists():
        package = npm.fetched(*LIBRARY, kept / ".npm")
        shutil.copyfile(package / INSIDE, library)
        shutil.rmtree(kept / ".npm")
    return library


def _headers(kept):
    """From where this machine's apt has its Debian packages, in lists of our own."""
    headers = kept / "headers"
    if not headers.exists():
        apt, new = kept / ".apt", kept / ".headers"
        (apt / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        line = f"deb [signed-by={KEYS}] {_mirror()} {RELEASE} main\n"
        (apt / "sources.list").write_text(line)
        options = [f"Dir::Etc::sourcelist={apt}/sources.list", "Dir::Etc::sourceparts=-"]
        options += [
            f"Dir::State::lists={apt}/lists",
            f"Dir::Cache={apt}",
            "APT::Sandbox::User=root",
        ]
        how = [word for option in options for word in ("-o", option)]
        for command in (["update"], ["download", HEADERS]):
            subprocess.run(
                ["apt-get", "-qq", *how, *command],
                cwd=apt,
                check=True,
                timeout=300,
                capture_output=True,
            )
        (package,) = apt.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", package, new], check=True, timeout=60)
        (new / "usr" / "include" / "onnxruntime").rename(headers)
        shutil.rmtree(apt)
        shutil.rmtree(new)
    return headers


def _mirror():
    words = ["apt-get", "indextargets", "--format", "$(SITE) $(REPO_URI)", "Created-By: Packages"]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    addresses = [line.split()[-1] for line in said.splitlines() if "debian" in line]
    plain = [address for address in addresses if "security" not in address]
    if not plain:
        raise OSError("apt knows no Debian")
    return plain[0]
