"""Once the door is shut, nothing opens but what Python itself consists of."""

import subprocess
import sys

import pytest

CODE = """
import socket, sys
from protofleet.util import landlock
server = socket.create_server(("127.0.0.1", 0))
if not landlock.close_files():
    sys.exit(3)
import colorsys
def tried(step):
    try:
        step()
        print("open")
    except PermissionError:
        print("shut")
tried(lambda: open("/etc/passwd"))
tried(lambda: open(sys.argv[1], "w"))
tried(lambda: socket.create_connection(server.getsockname()))
"""


BENEATH = """
import socket, sys
from protofleet.util import landlock
server = socket.create_server(("127.0.0.1", 0))
if not landlock.close_files(readable=[sys.argv[1], "/no/such/folder"], network=True):
    sys.exit(3)
socket.create_connection(server.getsockname())
print(open(sys.argv[1] + "/a").read())
for path, mode in (("/etc/passwd", "r"), (sys.argv[1] + "/a", "w")):
    try:
        open(path, mode)
    except PermissionError:
        print("shut")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own, and Linux's")
def test_a_folder_and_the_network_may_stay_open(tmp_path):
    (tmp_path / "a").write_text("text")
    words = [sys.executable, "-c", BENEATH, str(tmp_path)]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    if run.returncode == 3:
        pytest.skip("this kernel has no Landlock")
    assert (run.stderr, run.stdout.split()) == ("", ["text", "shut", "shut"])


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own, and Linux's")
def test_files_and_connections_are_shut_and_modules_are_not(tmp_path):
    words = [sys.executable, "-c", CODE, str(tmp_path / "new")]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    if run.returncode == 3:
        pytest.skip("this kernel has no Landlock")
    assert run.stderr == ""
    files, connection = run.stdout.split()[:2], run.stdout.split()[2]
    assert files == ["shut", "shut"]
    assert connection in ("shut", "open")  # before Linux 6.7 only files are its matter
