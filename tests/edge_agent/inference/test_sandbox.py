"""A bundle from outside is tried where it can take nothing and nobody along."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edge_agent.inference import sandbox
from edge_agent.inference.bundle import open_bundle
from protofleet.exchange.archive import BundleError
from simulators.faults import bundle_mutations, intruder


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    files = bundle_mutations.sound()
    path = tmp_path_factory.mktemp("made") / "b.pfb"
    path.write_bytes(bundle_mutations.packed(files, bundle_mutations.manifest(files)))
    return path


def test_one_that_stands_passes_and_its_name_must_be_right(sound):
    name = open_bundle(sound).digest
    sandbox.tried(sound)
    sandbox.tried(sound, name)
    with pytest.raises(BundleError, match=f"names the bundle {'f' * 16}, what came is {name[:16]}"):
        sandbox.tried(sound, "f" * 64)


def test_what_takes_too_much_memory_is_refused_in_one_line(tmp_path):
    bomb = tmp_path / "bomb.pfb"
    bomb.write_bytes(intruder.offered("16 GiB of one number", "extractor:x"))
    with pytest.raises(BundleError, match=r"more than \d+ MB of memory") as refusal:
        sandbox.tried(bomb)
    assert "\n" not in str(refusal.value)


def test_a_control_character_of_a_bundle_s_does_not_reach_a_log(tmp_path):
    bad = tmp_path / "bad.pfb"
    files = bundle_mutations.sound()
    document = bundle_mutations.manifest(files) | {"schema": "\x1b[2Jcleared\n"}
    bad.write_bytes(bundle_mutations.packed(files, document))
    with pytest.raises(BundleError, match="cleared") as refusal:
        sandbox.tried(bad)
    assert str(refusal.value).isprintable()


def test_what_breaks_or_does_not_end_is_refused_by_how_it_ended():
    assert "SIGSEGV" in sandbox._why(-11, b"")
    assert "120 s of processor time" in sandbox._why(-24, b"")
    assert sandbox._why(1, b"noise\nerror: a reason (x)\n") == "a reason (x)"


def test_it_may_take_no_more_than_half_of_what_there_is(monkeypatch):
    assert sandbox.room(0) == min(sandbox.MEMORY, sandbox.machine_memory() // 2)
    monkeypatch.setattr(sandbox, "machine_memory", lambda: 400 << 20)
    assert sandbox.room(1 << 30) == 200 << 20


def test_without_a_place_for_temporary_files_it_is_beside_the_bundle(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox.tempfile, "gettempdir", lambda: str(tmp_path / "none"))
    with sandbox.empty_folder(tmp_path) as folder:
        assert os.path.dirname(folder) == str(tmp_path)


def test_it_inherits_nothing_and_may_do_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("PROTOFLEET_MQTT_PASSWORD", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    environment = sandbox.environment(str(tmp_path))
    assert "secret" not in environment.values()
    code = f"""
import os, resource, sys
from edge_agent.inference import sandbox
sandbox.confine({300 << 20})
print(os.listdir("."), len(os.environ))
def written():
    with open({str(tmp_path / "x")!r}, "w") as file:
        file.write("x")
for step in (lambda: bytearray(400 << 20), written):
    try:
        step()
    except (MemoryError, OSError) as error:
        print(type(error).__name__)
"""
    (tmp_path / "empty").mkdir()
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=tmp_path / "empty",
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.split()[0] == "[]"
    assert run.stdout.split()[2:] == ["MemoryError", "OSError"], run.stderr


def test_it_ends_with_who_started_it():
    """A daemon that is told to stop leaves nobody behind who still computes."""
    read, write = os.pipe()
    code = f"""
import os, sys
from pathlib import Path
from edge_agent.inference import sandbox
sandbox.tried(Path("/proc/self/fd/{read}"))
"""
    parent = subprocess.Popen([sys.executable, "-c", code], pass_fds=(read,))
    end = time.monotonic() + 20
    while not (children := _children(parent.pid)):
        assert time.monotonic() < end
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    while any(Path(f"/proc/{pid}").exists() for pid in children):
        assert time.monotonic() < end
        time.sleep(0.02)
    os.close(read)
    os.close(write)


def _children(pid):
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
