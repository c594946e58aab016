"""`edge-agent serve`: a page beside a daemon, as a process."""

import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from tests.edge_agent.cli.conftest import ROOT


def test_it_says_where_it_is_answers_and_ends(tmp_path):
    command = [sys.executable, "-m", "edge_agent", "serve", "--http", "127.0.0.1:0"]
    command += ["--id", "door", "--data-dir", str(tmp_path / "kept")]
    (tmp_path / "kept").mkdir()
    page = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        line = page.stderr.readline()
        url = re.search(r"page at (\S+)#token=\S+ ", line).group(1)
        with urllib.request.urlopen(f"{url}api/device", timeout=60) as answer:
            assert answer.read() == b'{"name":"door"}'
        with urllib.request.urlopen(f"{url}metrics", timeout=60) as answer:
            assert b"protofleet_" in answer.read()
        with urllib.request.urlopen(f"{url}api/queue", timeout=60) as answer:
            assert b"on its way" in answer.read()
        with pytest.raises(urllib.error.HTTPError) as refusal:
            urllib.request.urlopen(f"{url}readyz", timeout=60)
        assert (refusal.value.code, refusal.value.read()) == (503, b"the daemon does not run\n")
    finally:
        page.terminate()
        code = page.wait(30)
        page.stderr.close()
    assert code == 0


def test_a_source_that_is_no_folder_takes_no_photo(call, tmp_path):
    (tmp_path / "set.npz").write_bytes(b"")
    done = call("serve", "--data", "set.npz", "--data-dir", "kept", "--http", "127.0.0.1:0")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "is no folder" in done.stderr
