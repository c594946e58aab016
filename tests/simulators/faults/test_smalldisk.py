"""A disk that can be filled: full for whoever is on it, and not there for anybody else."""

import errno
import os
import subprocess
import sys

import pytest

from simulators.faults import smalldisk
from simulators.faults.smalldisk import small_disk

pytestmark = pytest.mark.skipif(
    not smalldisk.possible(), reason="it mounts a file system, which takes root"
)

WRITE = (
    "import sys; sys.exit(0 if open(sys.argv[1], 'wb', 0).write(bytes(30_000)) == 30_000 else 1)"
)


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", 256) as disk:
        yield disk


def fits(disk):
    """Whether a process on the disk can write 30 kB."""
    command = disk.inside([sys.executable, "-c", WRITE, str(disk.at / "file")])
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def test_it_is_full_and_has_room_again(disk):
    assert fits(disk)
    (disk.outside / "file").unlink()
    disk.fill()
    assert not fits(disk)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        (disk.outside / "more").write_bytes(bytes(5000))
    disk.empty()
    assert fits(disk)


def test_as_much_is_left_as_is_asked_for(disk):
    disk.fill(leave=40_960)
    assert fits(disk)


def test_only_its_own_processes_see_it_and_it_is_gone_with_the_block(tmp_path):
    with small_disk(tmp_path / "disk", 256) as disk:
        (disk.outside / "file").write_text("here")
        assert not (disk.at / "file").exists()
        disk.fill()
        disk.copy_to(tmp_path / "copy")
    assert (tmp_path / "copy" / "file").read_text() == "here"
    assert not (tmp_path / "copy" / "ballast").exists()
    assert not list((tmp_path / "disk").iterdir())
