"""A process that has loaded what it needs shuts the door: from then on it opens no file but those
of the Python that it runs, writes none, and makes no connection, whatever runs in it. Linux 5.13
and later; elsewhere nothing happens.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Sequence

# The same numbers on every processor but one that nobody has any more.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1
_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
# How many kinds of access to files a version knows, from the first; and of the network, to bind and
# to connect, and of other processes, sockets without a file and signals.
_FILES = (0, 13, 14, 15, 15, 16)
_NETWORK, _SCOPED = (4, 3), (6, 3)
_READ = 1 << 0 | 1 << 2 | 1 << 3  # to execute and to read a file, to list a directory


def close_files(readable: Sequence[str] = (), *, network: bool = False) -> bool:
    """Whether this thread, and all that it starts, can open nothing else from now on, but what is
    to be read in these folders; and make no connection, unless that is said.
    """
    if sys.platform != "linux" or platform.machine() == "alpha":
        return False
    system = ctypes.CDLL(None, use_errno=True)
    system.syscall.restype = ctypes.c_long
    version = system.syscall(_CREATE, None, 0, _VERSION)
    if version < 1:
        return False
    handled = struct.pack(
        "=QQQ",
        (1 << _FILES[min(version, len(_FILES) - 1)]) - 1,
        _NETWORK[1] if version >= _NETWORK[0] and not network else 0,
        _SCOPED[1] if version >= _SCOPED[0] else 0,
    )
    # A kernel knows as many bytes of this as its version has, and takes more only if they are 0.
    rules = system.syscall(_CREATE, handled, len(handled), 0)
    if rules < 0 or system.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    # Python's own modules are loaded when they are first used, an encoding of names for one.
    for folder in {sys.prefix, sys.base_prefix, *readable}:
        try:
            place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # not every system has each of them
        system.syscall(_ADD, rules, _BENEATH, struct.pack("=Qi", _READ, place), 0)
        os.close(place)
    return bool(system.syscall(_RESTRICT, rules, 0) == 0)
