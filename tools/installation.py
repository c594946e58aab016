"""What Debian is like once the packages are in: `make deb-trial`, as root, on a Debian.

`python tools/installation.py FOLDER` takes the packages and the extractor that lie in FOLDER and a
Debian of its own, made by debootstrap in FOLDER/base (once) and copied. It runs in namespaces of
its own, so whatever is mounted or left running there goes when it ends, and no service of this
machine is touched: while apt runs in the copy, policy-rc.d says no. There it installs both
packages, checks the units, starts broker, coordinator and device by start-stop-daemon, waits until
the device has a receipt for what it said and classifies with what the fleet knows, and looks whose
processes and files these are. It stops them, updates the device and takes everything away again.
What it saw is one JSON document; what is not as it should be ends it with one line.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

INSIDE = "PROTOFLEET_INSTALLATION"
SUITE, MIRROR = "bookworm", "http://deb.debian.org/debian"
BROKER, COORDINATOR, AGENT = "broker", "coordinator", "edge-agent"
PATIENCE = 300.0
STOPS_WITHIN = 10.0
LIBRARY = Path("var/lib")
EXTRACTOR = "extractor.pfb"  # the packages carry no torch, which makes one
STATES = {"protofleet-agent": "protofleet-agent", "protofleet-coordinator": "protofleet"}
FLEET = """[broker]
url = "{url}"
[serve]
fleet = "orchard"
[contract]
extractor = "extractor.pfb"
[contract.input]
kind = "image"
shape = [32, 32, 3]
"""
# Two classes of photos that a child could tell apart.
PHOTOS = """
import random, sys
from pathlib import Path
from PIL import Image
random.seed(1)
for name, colour in (("apple", (200, 40, 40)), ("plum", (70, 30, 140))):
    folder = Path(sys.argv[1]) / name
    folder.mkdir(parents=True)
    for n in range(12):
        photo = Image.new("RGB", (48, 48), tuple(c + random.randrange(-20, 20) for c in colour))
        photo.save(folder / f"{n}.png")
"""


def main(folder: Path) -> None:
    again = [sys.executable, __file__, str(folder)]
    match os.environ.get(INSIDE):
        case None:
            namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
            done = subprocess.run(
                [*namespaces, *again], env=os.environ | {INSIDE: "1"}, check=False
            )
            sys.exit(done.returncode)
        case "1":
            sys.exit(_first(again))
        case _:
            trial = Trial(_machine(folder), folder / EXTRACTOR)
            print(json.dumps(trial.run(sorted(folder.glob("*.deb"))), indent=1))


def _first(words: list[str]) -> int:
    """As the first process of these namespaces: daemons become its children, and one that ended
    and is not waited for would look alive.
    """
    child = subprocess.Popen(words, env=os.environ | {INSIDE: "2"}).pid
    while True:
        ended, status = os.wait()
        if ended == child:
            return os.waitstatus_to_exitcode(status)


def _machine(folder: Path) -> Path:
    """A fresh Debian."""
    base, root = folder / "base", folder / "root"
    if not base.exists():
        words = ["debootstrap", "--variant=minbase", SUITE, str(folder / "base.part"), MIRROR]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        (folder / "base.part").rename(base)
    if root.exists():
        shutil.rmtree(root)
    subprocess.run(["cp", "--archive", "--reflink=auto", base, root], check=True)
    subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    return root


class Trial:
    """One run, and what it saw."""

    def __init__(self, root: Path, extractor: Path) -> None:
        self.root, self.extractor = root, extractor

    def run(self, packages: list[Path]) -> dict[str, Any]:
        seen: dict[str, Any] = {"installed": self.install(packages)}
        seen["units"] = self.units()
        self.configure()
        url = f"mqtt://127.0.0.1:{(port := _free())}"
        programs = {
            BROKER: ("protofleet-coordinator", f"protofleet broker --embedded --port {port}"),
            COORDINATOR: ("protofleet-coordinator", _command("coordinator", self.root)),
            AGENT: ("protofleet-agent", _command("edge-agent", self.root)),
        }
        self.write("etc/protofleet/fleet.toml", FLEET.format(url=url))
        shutil.copy(self.extractor, self.root / "etc/protofleet" / EXTRACTOR)
        init = "edge-agent init /etc/protofleet/agent.toml --id camera-07 --fleet orchard"
        self.inside(f"{init} --broker {url} --data /srv/photos")
        seen["started_seconds"] = {
            name: self.start(name, user, command) for name, (user, command) in programs.items()
        }
        seen["status"] = self.contributed()
        seen["answer"] = self.classified()
        seen["memory_mb"] = {name: self.memory(name) for name in programs}
        seen["users"] = {name: self.user(name) for name in programs}
        seen["modes"] = {user: self.modes(user) for user in STATES}
        seen["stopped_seconds"] = {name: self.stop(name) for name in (AGENT, COORDINATOR, BROKER)}
        seen["left"] = self.purge(packages)
        return seen

    def inside(self, command: str, user: str = "root") -> str:
        """What it prints; whatever goes wrong is the end."""
        words = ["chroot", self.root, "setpriv", f"--reuid={user}", f"--regid={user}"]
        plain = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            [*words, "--init-groups", "sh", "-c", command],
            env={**plain, "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def write(self, place: str, text: str) -> None:
        (self.root / place).write_text(text)

    def install(self, packages: list[Path]) -> dict[str, Any]:
        (self.root / "debs").mkdir()
        for package in packages:
            shutil.copy(package, self.root / "debs")
        apt = "apt-get -qq install -y --no-install-recommends"
        self.inside(f"apt-get -qq update; {apt} systemd")  # whose targets the units name
        before = time.monotonic()
        self.inside(f"{apt} /debs/*.deb")
        _must(not self.processes(), "the installation starts nothing")
        enabled = list((self.root / "etc/systemd/system").glob("*.wants/*"))
        _must(
            not [n for n in enabled if n.name in ("edge-agent.service", "coordinator.service")],
            "the installation enables no unit",
        )
        return {
            "seconds": round(time.monotonic() - before, 1),
            "mb": {name: self.size(f"opt/protofleet/{name}") for name in ("agent", "coordinator")},
        }

    def size(self, place: str) -> int:
        words = ["du", "--summarize", "--block-size=1M", self.root / place]
        return int(subprocess.check_output(words, text=True).split()[0])

    def units(self) -> str:
        names = [f"{name}.service" for name in ("edge-agent", "coordinator")]
        done = subprocess.run(
            ["systemd-analyze", "verify", f"--root={self.root}", "--man=no", *names],
            capture_output=True,
            text=True,
            check=False,
        )
        said = (done.stdout + done.stderr).splitlines()
        _must(
            not said and not done.returncode, f"systemd-analyze verify has nothing to say: {said}"
        )
        return "verified"

    def configure(self) -> None:
        self.write("tmp/photos.py", PHOTOS)
        self.inside("/opt/protofleet/agent/bin/python /tmp/photos.py /srv/photos")

    def start(self, name: str, user: str, command: str) -> float:
        """By start-stop-daemon, which waits for the word READY as systemd does."""
        program, _, words = command.partition(" ")
        state = f"/var/lib/{STATES[user]}"
        ready = "" if name == BROKER else "--notify-await --notify-timeout 120"
        before = time.monotonic()
        self.inside(
            f"start-stop-daemon --start --background {ready}"
            f" --make-pidfile --pidfile /run/{name}.pid --output /var/log/{name}.log"
            f" --chuid {user} --chdir {state}"
            f" --startas $(readlink -f $(command -v {program})) -- {words}"
        )
        if name == BROKER:
            port = int(command.rsplit(" ", 1)[1])
            _eventually(lambda: _listens(port), "the broker listens")
        return round(time.monotonic() - before, 1)

    def contributed(self) -> dict[str, Any]:
        """Once the coordinator has what the device says."""
        ask = "edge-agent status --config /etc/protofleet/agent.toml --json --data-dir"

        def taken() -> dict[str, Any] | None:
            status = json.loads(self.inside(f"{ask} /var/lib/protofleet-agent", "protofleet-agent"))
            ledger = status["ledger"]
            return status if "own" in ledger["taken"] else None

        _eventually((self.root / LIBRARY / "protofleet-agent/status.json").exists, "a status")
        status = _eventually(taken, "a receipt for what the device says")
        return {name: status[name] for name in ("doing", "samples", "classes")}

    def classified(self) -> dict[str, Any]:
        bundle = self.root / LIBRARY / "protofleet-agent/fleet.pfb"
        _eventually(bundle.exists, "the fleet's bundle")
        words = "--bundle /var/lib/protofleet-agent/fleet.pfb --json /srv/photos/plum/3.png"
        answer = json.loads(self.inside(f"edge-agent infer {words}", "protofleet-agent"))
        _must("plum" in json.dumps(answer), f"a plum is a plum: {answer}")
        return answer

    def processes(self) -> list[int]:
        """Those that run in the copy, but for this one's."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if (entry / "root").readlink() == self.root.resolve():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def process(self, name: str) -> int:
        return int((self.root / f"run/{name}.pid").read_text())

    def memory(self, name: str) -> int:
        lines = (self.root / f"proc/{self.process(name)}/status").read_text().splitlines()
        (kilobytes,) = (line.split()[1] for line in lines if line.startswith("VmRSS"))
        return round(int(kilobytes) / 1000)

    def user(self, name: str) -> str:
        owner = (self.root / f"proc/{self.process(name)}").stat().st_uid
        names = {
            int(line.split(":")[2]): line.split(":")[0]
            for line in (self.root / "etc/passwd").read_text().splitlines()
        }
        user = names[owner]
        _must(user in STATES, f"{name} runs as a user of its own, not as {user}")
        return user

    def modes(self, user: str) -> dict[str, int]:
        """How many files there are, all of them their user's and nobody else's to read."""
        state = self.root / LIBRARY / STATES[user]
        uid = state.stat().st_uid
        places = [state, *state.rglob("*")]
        for place in places:
            status = place.lstat()
            mode = stat.S_IMODE(status.st_mode)
            wanted = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600
            _must(mode == wanted and status.st_uid == uid, f"{place}: {mode:o} of {status.st_uid}")
        return {
            "folders": sum(p.is_dir() for p in places),
            "files": sum(p.is_file() for p in places),
        }

    def stop(self, name: str) -> float:
        before = time.monotonic()
        self.inside(f"start-stop-daemon --stop --pidfile /run/{name}.pid --retry TERM/60")
        taken = time.monotonic() - before
        _must(taken < STOPS_WITHIN, f"{name} stops within {STOPS_WITHIN:.0f} s, not {taken:.1f}")
        return round(taken, 1)

    def purge(self, packages: list[Path]) -> list[str]:
        """What is left of them: the folder with the settings that were written by hand."""
        self.inside("apt-get -qq reinstall -y /debs/protofleet-agent*.deb")
        kept = (self.root / LIBRARY / "protofleet-agent/agent.db").exists()
        _must(kept, "an update leaves the device its files")
        self.inside("apt-get -qq purge -y protofleet-agent protofleet-coordinator")
        left = [
            str(place.relative_to(self.root))
            for pattern in (
                "opt/protofleet*",
                "var/lib/protofleet*",
                "etc/protofleet/*",
                "lib/systemd/system/edge-agent*",
                "usr/bin/edge-agent",
            )
            for place in self.root.glob(pattern)
        ]
        names = ("agent.toml", "fleet.toml", EXTRACTOR)
        written = {f"etc/protofleet/{name}" for name in names}
        _must(set(left) <= written, f"nothing of the packages is left: {left}")
        return left


def _command(name: str, root: Path) -> str:
    """What the unit says."""
    unit = (root / f"lib/systemd/system/{name}.service").read_text()
    (line,) = (line for line in unit.splitlines() if line.startswith("ExecStart="))
    state = STATES["protofleet-agent" if name == AGENT else "protofleet-coordinator"]
    return line.removeprefix("ExecStart=").replace("${STATE_DIRECTORY}", f"/var/lib/{state}")


def _free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def _eventually(ask: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (answer := ask()):
        _must(time.monotonic() < deadline, f"in time: {what}")
        time.sleep(0.5)
    return answer


def _must(holds: bool, what: str) -> None:
    if not holds:
        sys.exit(f"it does not hold that {what}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
