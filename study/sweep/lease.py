"""Who runs what: a lock on a run's folder, held by the process that trains and gone when that process is.

The lock is an flock, so the kernel releases it however its holder ends; nothing has to be cleaned up, and two
launchers on one folder need no other agreement.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from study.errors import InputError

FILE = "lease"
POLL = 0.5


def acquire(folder: Path) -> int | None:
    """Take a run's lease: a descriptor to keep open as long as the run is ours, or None where another holds it.

    Raises:
        InputError: the folder cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as problem:
        raise InputError(f"{folder}: no run can write there ({problem.strerror}); use another --out") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def waiting(folder: Path) -> Iterator[None]:
    """Hold a run's lease, however long another has it first."""
    while (descriptor := acquire(folder)) is None:
        time.sleep(POLL)
    try:
        yield
    finally:
        release(descriptor)


def release(descriptor: int) -> None:
    """Give a lease back."""
    os.close(descriptor)


def held(folder: Path) -> bool:
    """Whether some process is running this run now."""
    if not (folder / FILE).exists():
        return False
    descriptor = acquire(folder)
    if descriptor is None:
        return True
    release(descriptor)
    return False
