"""`protofleet broker` as a process: up, named, asked to stop, gone; and its words when it
cannot.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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
