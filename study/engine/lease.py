"""Lease on a run's folder: a lock on its file `lease`, held by the process that makes the run.

It is an flock, through filelock. The kernel drops it however its holder ends, so nothing is ever to be cleaned up. NFS
and the file systems of clusters pass it between machines where they are mounted with locks; where they are not, the run
is refused.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout, lock_descriptor

from study.errors import BusyError, InputError, lacking

FILE = "lease"
PATIENCE = 0.25
"""Seconds in which a lock counts as passing: who looks at a lease has it for a moment, too."""


def acquire(folder: Path, patience: float = PATIENCE) -> FileLock | None:
    """Take a run's lease, or return None if another process still holds it after so many seconds (-1: wait for it).

    Raises:
        InputError: the folder cannot be made or written, or its file system has no locks.
    """
    lock = FileLock(folder / FILE, patience, thread_local=False, poll_interval=0.025, fallback_to_soft=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except FileNotFoundError:  # who held it had done nothing, and has removed the folder
            return acquire(folder, patience)
    except Timeout:
        return None
    except (OSError, NotImplementedError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        line = f"{folder}: cannot be written or locked ({why}). Choose another folder with --runs."
        raise InputError(lacking(problem, folder) or line) from None
    return lock


@contextmanager
def holding(folder: Path, wait: bool = False) -> Iterator[None]:
    """Hold a run's lease until the end of the body. A folder in which nothing was done is removed.

    Args:
        folder: the run's folder; made if it is missing.
        wait: wait as long as another process has the run; else that is an error.

    Raises:
        InputError: another process has the run, or the folder cannot be written.
    """
    if (held := acquire(folder, -1 if wait else PATIENCE)) is None:
        raise BusyError(f"{folder}: another process runs this now. Wait for it, or choose another folder with --runs.")
    try:
        yield
    finally:
        with suppress(OSError):
            if os.listdir(folder) == [FILE]:
                (folder / FILE).unlink()
                folder.rmdir()
        held.release()


def held(folder: Path) -> bool:
    """Return True if a process is running this run now. Writes nothing."""
    try:
        descriptor = os.open(folder / FILE, os.O_RDWR | getattr(os, "O_NONBLOCK", 0))
    except OSError:  # there is none, or it is another user's
        return False
    try:
        return not lock_descriptor(descriptor, blocking=False)
    except OSError:
        return False
    finally:
        os.close(descriptor)
