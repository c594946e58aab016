"""Keeps freed memory in the process: the one setting of the allocator that training feels.

glibc hands every large block back to the kernel when a tensor dies and takes it anew, page by page, for the next one.
A step of a small network frees and takes the same few megabytes each time, and a third of it goes into page faults.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_ON_HEAP = 32 << 20  # what glibc admits at most
_KEPT = 1 << 30


def keep_freed_memory() -> bool:
    """Whether it could be done: other C libraries than glibc have no such setting. No computed bit changes."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_ON_HEAP) and mallopt(_M_TRIM_THRESHOLD, _KEPT))


def give_freed_memory_back() -> None:
    """What loading a model took and no longer needs, where glibc holds on to it."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return
