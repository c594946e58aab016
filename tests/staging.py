"""A whole fleet for tests: a coordinator and devices as processes, over a broker that is there."""

import subprocess
import sys

from PIL import Image

from coordinator.service.control import NotRunning, ask
from simulators.faults.invited import invite
from tests.edge_agent.scripted import ROOT, Device, until
from tests.networks import pictures

FLEET_TOML = """
[serve]
fleet = "{fleet}"
method = "{method}"
enrol = "{enrol}"
{serve}
[broker]
packet = 2048
[contract]
{contract}
[ledger]
interval = 0.1
settle = 0.5
"""


class Stage:
    """The fleet in a folder, in which `x.pfb` lies. `serve`, `contract` and `more` are lines of its
    settings, `words` more of the command's; `invited` are devices that are members of it.
    """

    def __init__(
        self,
        folder,
        port,
        more="",
        *,
        fleet="f",
        method="fleet",
        enrol="auto",
        serve="",
        contract='extractor = "x.pfb"',
        words=(),
        invited=(),
    ):
        self.folder, self.port, self.fleet, self.running = folder, port, fleet, []
        (folder / "fleet.toml").write_text(
            FLEET_TOML.format(
                fleet=fleet, method=method, enrol=enrol, serve=serve, contract=contract
            )
            + more
        )
        if invited:
            homes = {name: folder / name / "kept" for name in invited}
            invite(self.data, fleet, homes, f"mqtt://127.0.0.1:{port}")
        words = ["serve", "--config", str(folder / "fleet.toml"), *words]
        with (folder / "log").open("ab") as log:
            command = [sys.executable, "-m", "coordinator", *words]
            command += ["--broker", f"mqtt://127.0.0.1:{port}"]
            self.service = subprocess.Popen(command, stderr=log, stdout=log, cwd=ROOT)

    @property
    def data(self):
        """The coordinator's directory."""
        return self.folder / "coordinator-data"

    @property
    def log(self):
        """What the coordinator said."""
        return (self.folder / "log").read_text()

    def device(self, name, *words, **colours):
        """One that has so many photos of colours."""
        for label, (seed, count) in colours.items():
            self.photos(name, label, seed, count)
        album = self.folder / f"{name}-photos"
        album.mkdir(exist_ok=True)
        words = ("--data", str(album), "--set", "data.watch_seconds=0.2", *words)
        self.running.append(Device(self.folder, name, *words, port=self.port, fleet=self.fleet))
        return self.running[-1]

    def photos(self, name, label, seed, count):
        place = self.folder / f"{name}-photos" / label
        place.mkdir(parents=True, exist_ok=True)
        for n, image in enumerate(pictures(seed + 10 * len(name), 40)[:count]):
            Image.fromarray(image).resize((20, 24)).save(place / f"{n}.png")
        return place

    def status(self):
        try:
            return ask(self.data, "status")
        except NotRunning:
            return {"ledger": None}

    def ledger(self, **expected):
        def there():
            found = self.status()["ledger"] or {}
            return found if all(found.get(k) == v for k, v in expected.items()) else None

        return self.until(there, f"a ledger with {expected}")

    def until(self, holds, what):
        """Wait for it; in vain, everybody's last words are said."""
        try:
            return until(holds, what, 300)
        except AssertionError as error:
            logs = [f"{path}: {path.read_text()}" for path in self.folder.glob("**/log")]
            raise AssertionError("\n".join([f"{error}: {self.status()}", *logs])) from None

    def close(self):
        for device in self.running:
            device.stop()
        self.service.terminate()
        self.service.wait(20)
