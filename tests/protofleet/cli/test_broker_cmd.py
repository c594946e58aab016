"""`protofleet broker` as a process: up, named, asked to stop, gone; and its words when it
cannot.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from protofleet.cli.broker_cmd import _logins, credentials
from protofleet.mqtt.address import Address
from protofleet.mqtt.broker import mosquitto
from tests.linking import connect, link_to

RUN = [
    sys.executable,
    "-c",
    "from protofleet.cli.main import run; from protofleet.cli.broker_cmd import broker;"
    "run(broker, 'broker')",
]


def told(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *words], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def started(tmp_path):
    """Starts the command, reads its first lines up to the last one it prints."""
    processes = []

    def start(*words: str) -> tuple[subprocess.Popen[str], list[str]]:
        process = subprocess.Popen(
            [*RUN, "--port", "0", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )
        processes.append(process)
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith("Ctrl-C"):
                break
        return process, lines

    yield start
    for process in processes:
        process.terminate()
        process.wait(20)
        process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_is_up_when_it_says_so_and_stops_when_told(started, number):
    process, lines = started("--embedded")
    assert lines[0].startswith("EMBEDDED BROKER (amqtt): for development")
    address = Address.parse(lines[-2].split()[-1])
    link = link_to(address, "one")
    connect(link)
    link.stop()
    process.send_signal(number)
    assert process.wait(20) == 0


def test_made_up_passwords_are_in_files_and_stay_the_same(started, tmp_path):
    if mosquitto.find() is None:
        pytest.skip("mosquitto is not installed")
    seen = []
    for _ in range(2):
        process, lines = started("--data-dir", str(tmp_path), "--user", "camera-07")
        file = Path(lines[-2].split(" in ")[-1])
        assert os.stat(file).st_mode & 0o077 == 0
        assert file.read_text().strip().partition(":")[2] not in "".join(lines)
        link = link_to(Address.parse(lines[0].split()[-1], credentials_file=file), "camera-07")
        connect(link)
        link.stop()
        seen.append(file.read_text())
        process.terminate()
        assert process.wait(20) == 0
    assert seen[0] == seen[1]


def test_the_printed_configuration_is_one_mosquitto_takes(tmp_path):
    shown = told("--print-config", "--fleet", "orchard", "--host", "0.0.0.0", "--port", "8883")
    assert shown.returncode == 0
    conf, acl = shown.stdout.split("# ----- /etc/mosquitto/protofleet.acl")
    assert "listener 8883 0.0.0.0" in conf
    assert "allow_anonymous false" in conf
    assert "pattern write pf/1/orchard/d/%u/up/+" in acl
    assert (
        "pf/1/fleet/c/state" in told("--print-config").stdout
    )  # the name that settings begin with


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "--user"),
        (["--tls-cert", "x.pem"], "--tls-key"),
        (["--tls-cert", "x.pem", "--tls-key", "x.key"], "x.pem is not there"),
        (["--users", "none"], "none"),
        (["--user", "a b"], "user name"),
        (["--print-config", "--fleet", "a/b"], "fleet name"),
        (["--port", "many"], "many"),
    ],
)
def test_wrong_words_are_one_line_and_exit_code_2(words, said):
    shown = told(*words)
    assert shown.returncode == 2
    assert said in shown.stderr
    assert shown.stderr.count("\n") == 1


def test_a_password_file_that_a_crash_left_empty_gets_its_password(tmp_path):
    """One that was made and not written was an empty password for good."""
    file = credentials(tmp_path, "camera-07")
    file.parent.mkdir()
    for torn in ("", "camera-07:", "camera"):
        file.write_text(torn)
        file.chmod(0o644)
        password = _logins(None, ["camera-07"], tmp_path)["camera-07"]
        assert len(password) > 20
        assert file.read_text() == f"camera-07:{password}\n"
        assert file.stat().st_mode & 0o077 == 0
    assert _logins(None, ["camera-07"], tmp_path) == {"camera-07": password}


def test_a_crash_between_making_and_writing_leaves_no_password_file(tmp_path, monkeypatch):
    def dies(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", dies)
    monkeypatch.setattr(Path, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        _logins(None, ["camera-07"], tmp_path)
    assert not credentials(tmp_path, "camera-07").exists()


def test_its_files_are_its_owner_s_alone_whatever_the_umask(started, tmp_path):
    if mosquitto.find() is None:
        pytest.skip("mosquitto is not installed")
    before = os.umask(0)
    try:
        started("--data-dir", str(tmp_path / "deep" / "data"), "--user", "camera-07")
    finally:
        os.umask(before)
    folder = tmp_path / "deep" / "data"
    places = [folder, *folder.rglob("*")]
    assert len(places) > 5
    assert [path for path in places if path.stat().st_mode & 0o077] == []


def test_a_broker_whose_certificate_is_the_coordinator_s_is_not_started(tmp_path, authority_files):
    found = told("--port", "0", *authority_files("coordinator"))
    assert found.returncode == 2
    assert "is let in as the user coordinator" in found.stderr


@pytest.fixture
def authority_files(tmp_path):
    """The broker's certificate with this common name, good for clients, too, as flags."""

    def write(name):
        authority = trustme.CA()
        issued = authority.issue_cert("localhost", common_name=name)
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        issued.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
        issued.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
        files = ("--tls-ca", "ca.pem"), ("--tls-cert", "cert.pem"), ("--tls-key", "key.pem")
        return [word for flag, file in files for word in (flag, str(tmp_path / file))]

    return write
