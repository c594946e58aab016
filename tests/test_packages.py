"""What can be told of the Debian packages, of the units and of compose.yaml without building or
starting anything; `make deb` and `make deb-trial` do that.
"""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from coordinator import config as coordinators
from edge_agent import config as agents

ROOT = Path(__file__).parents[1]
DEBIAN = ROOT / "deploy" / "debian"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = {"protofleet-agent": "edge-agent", "protofleet-coordinator": "coordinator"}
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())


def unit(name):
    """What a unit says of each word, the last where there are several."""
    lines = (ROOT / "deploy" / f"{name}.service").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))


def stanzas(text):
    """Those of a control file."""
    for stanza in text.strip().split("\n\n"):
        yield dict(re.findall(r"^([\w-]+): (.+)$", stanza, re.M))


@pytest.mark.parametrize("name", PACKAGES.values())
def test_systemd_has_nothing_to_say_against_a_unit(name, tmp_path):
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    text = (ROOT / "deploy" / f"{name}.service").read_text()
    # It looks whether the program is there, which no machine but a device's has.
    (tmp_path / f"{name}.service").write_text(re.sub(r"(?m)^(ExecStart=)\S+", r"\1/bin/true", text))
    words = [program, "verify", "--man=no", str(tmp_path / f"{name}.service")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize(("package", "name"), PACKAGES.items())
def test_a_unit_runs_what_its_package_installs_as_the_user_that_it_makes(package, name):
    says = unit(name)
    links = dict(line.split() for line in (DEBIAN / f"{package}.links").read_text().splitlines())
    program = says["ExecStart"].split()[0]
    assert links[program] == f"/usr/bin/{name}"
    assert {Path(link).name for link in links} <= set(PROJECT["scripts"])
    installs = (DEBIAN / f"{package}.postinst").read_text()
    state = f"/var/lib/{says['StateDirectory']}"
    assert says["User"] == says["Group"] == package
    assert re.search(rf"adduser .*--system --group .* --home {state} {package}$", installs, re.M)
    assert (
        f"install -d -m {says['StateDirectoryMode']} -o {package} -g {package} {state}" in installs
    )
    assert f"rm -rf {state}\n" in (DEBIAN / f"{package}.postrm").read_text()
    assert "--data-dir ${STATE_DIRECTORY}" in says["ExecStart"]
    assert says["UMask"] == "0077"
    document = says["Documentation"].removeprefix(f"file:///usr/share/doc/{package}/")
    documents = (DEBIAN / f"{package}.docs").read_text().split()
    assert document in {Path(place).name for place in documents}
    assert all((ROOT / place).exists() for place in documents)


def test_the_packages_are_of_this_version_and_install_extras_that_exist():
    changes = (DEBIAN / "changelog").read_text()
    assert changes.startswith(f"protofleet ({PROJECT['version']}) ")
    rules = (DEBIAN / "rules").read_text()
    extras = re.findall(r"--extras (\w+)", rules)
    assert set(extras) <= set(PROJECT["optional-dependencies"])
    source, *binaries = stanzas((DEBIAN / "control").read_text())
    assert source["Source"] == PROJECT["name"]
    assert {binary["Package"] for binary in binaries} == set(PACKAGES)
    assert all("${python:Depends}" in binary["Depends"] for binary in binaries)


@pytest.mark.parametrize("script", sorted(DEBIAN.glob("*.post*")), ids=lambda path: path.name)
def test_a_script_is_one_that_a_shell_reads_and_debhelper_completes(script):
    subprocess.run(["sh", "-n", str(script)], check=True)
    assert script.read_text().endswith("#DEBHELPER#\n")


def test_compose_builds_targets_that_exist_and_runs_images_of_one_version():
    targets = set(re.findall(r" AS (\w+)$", (ROOT / "Dockerfile").read_text(), re.M))
    services = COMPOSE["services"]
    assert set(services) == {"broker", "coordinator", "agent"}
    for name, service in services.items():
        tag = service["image"].rsplit(":", 1)[1]
        assert re.fullmatch(r"\d+\.\d+\.\d+", tag), name
        if "build" in service:
            assert service["build"]["target"] in targets
            assert tag == PROJECT["version"]
        assert set(service["networks"]) <= set(COMPOSE["networks"])
        assert {one["source"] for one in service.get("configs", ())} <= set(COMPOSE["configs"])
        named = {place.split(":")[0] for place in service.get("volumes", ())}
        assert {place for place in named if place[0] != "."} <= set(COMPOSE["volumes"])
        # Its broker asks nobody for a name, so nobody else may reach it.
        assert "ports" not in service


def test_compose_has_settings_that_coordinator_and_device_take(tmp_path):
    files = {}
    for name, config in COMPOSE["configs"].items():
        files[name] = tmp_path / f"{name}.toml"
        files[name].write_text(config["content"])
    fleet, device = coordinators.load(files["fleet"], {}, {}), agents.load(files["device"], {}, {})
    assert fleet.serve.fleet == device.fleet.name
    assert fleet.broker.url == device.broker.url == "mqtt://broker:1883"
    for config, service in ((fleet.serve, "coordinator"), (device, "agent")):
        volumes = [place.split(":")[1] for place in COMPOSE["services"][service]["volumes"]]
        assert str(config.data_dir) in volumes
    assert device.data.source in ("/photos",)
