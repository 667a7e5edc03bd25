"""glibc's allocator, told to keep large blocks: a training step frees and takes the same hundreds of megabytes.

By default every block above 32 MB is mapped, zeroed page by page and unmapped again at each use, which cost a third
of a step with a vocabulary of 8,000 (`benchmarks/`).
"""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


def keep_memory() -> None:
    """Serve every block from the heap and never give the heap back. Without glibc, nothing."""
    if not sys.platform.startswith("linux"):
        return
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
    except (OSError, AttributeError):
        pass
