"""What a process tells glibc's allocator: to keep memory that training frees, to load a model in
large pages.

glibc hands every large block back to the kernel when a tensor dies and takes it anew, page by page,
for the next one. A step of a small network frees and takes the same few megabytes each time, and a
third of it goes into page faults.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_ON_HEAP = 32 << 20  # what glibc admits at most
_KEPT = 1 << 30
_LARGE_PAGE, _MADV_HUGEPAGE = 2 << 20, 14
_ROOM = _LARGEST_ON_HEAP - (1 << 20)
_MAPPED_FROM = 16 << 20


def keep_freed_memory() -> bool:
    """Whether it could be done: other C libraries than glibc have no such setting. No computed bit
    changes.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_ON_HEAP) and mallopt(_M_TRIM_THRESHOLD, _KEPT))


@contextmanager
def room_to_load() -> Iterator[None]:
    """A stretch of heap in large pages while a model is loaded; what of it is free afterwards is
    given back.

    Loading copies the weights about four times, and touching fresh memory a small page at a time
    costs as much as all else that loading does. Where there are no large pages, or no glibc,
    nothing happens.
    """
    try:
        libc = ctypes.CDLL(None)
        mallopt, madvise, malloc, free = libc.mallopt, libc.madvise, libc.malloc, libc.free
    except (AttributeError, OSError, TypeError):
        yield
        return
    malloc.argtypes, malloc.restype, free.argtypes = (
        [ctypes.c_size_t],
        ctypes.c_void_p,
        [ctypes.c_void_p],
    )
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    mallopt(_M_MMAP_THRESHOLD, _LARGEST_ON_HEAP)
    mallopt(_M_TRIM_THRESHOLD, _KEPT)
    if start := malloc(_ROOM):
        first = -(-start // _LARGE_PAGE) * _LARGE_PAGE
        madvise(first, (start + _ROOM - first) // _LARGE_PAGE * _LARGE_PAGE, _MADV_HUGEPAGE)
        free(start)
    try:
        yield
    finally:
        # Near where glibc comes to by itself once it has seen a model: what a batch of images takes
        # is kept, not more.
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM)
        mallopt(_M_TRIM_THRESHOLD, 3 * _MAPPED_FROM)
        give_freed_memory_back()


def keep_no_large_block() -> None:
    """Have what is freed of a megabyte and more go back at once, for a process that makes a few
    large matrices and has to stay small.
    """
    try:
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 20)
    except (AttributeError, OSError, TypeError):
        return


def give_freed_memory_back() -> None:
    """What loading a model took and no longer needs, where glibc holds on to it."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return
