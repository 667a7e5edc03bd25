"""Errors and exit statuses: a user's mistake, what the machine lacks, and how to install an extra.

What ends a run or a verb is of one of four kinds, for launcher, trial and verbs alike:

- a mistake of the user, `InputError`: one line, status 2;
- a lack that every run here would meet, `lacking`: one line, status 2; a sweep stops, and no run is recorded as failed;
- the loss of a helper process, `LOST`, or of memory (`short_of_memory`): a sweep tries again;
- anything else: a mistake of the program, status 70, or in a sweep of this run, which is recorded as failed.
"""

from __future__ import annotations

import errno
import shutil
import signal
import sys
from functools import cache
from pathlib import Path

INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 + SIGINT."""
FAILED = 1
"""Exit status if a run failed, or one of its processes was killed."""
BROKEN = 70
"""Exit status of an error of the program itself."""
UNWRITTEN = 74
"""Exit status if standard output cannot be written."""
BUSY = 75
"""Exit status if another process has the run."""

INSTALL = "Install the extra {0}: `pip install -e '.[{0}]'` in a checkout, `pip install 'FILE.whl[{0}]'` elsewhere."
"""Remedy where a package is missing; the extra that brings it goes between the brackets."""

LOST = (EOFError, ConnectionError)
"""Errors of a connection whose other process was killed."""
LACKS = {
    errno.ENOSPC: ("the disk is full", "Make room"),
    errno.EDQUOT: ("your quota of the disk is used up", "Make room"),
    errno.EFBIG: ("a file would be larger than is allowed", "Raise the limit (`ulimit -f`)"),
    **dict.fromkeys((errno.ENOLCK, errno.ENOTSUP), ("the file system has no locks", "Choose another folder")),
}
"""Error of the system ↦ what the machine lacks, and the remedy."""
ROOM = 2**20
"""Bytes that must be free, or the disk counts as full."""

EXIT_STATUS = {
    0: "done",
    FAILED: "a run failed or diverged, or a check found a difference",
    2: "wrong input",
    BROKEN: "error of the program itself",
    UNWRITTEN: "standard output cannot be written",
    BUSY: "another process has this run",
    INTERRUPTED: "interrupted with Ctrl-C, the same command continues",
    143: "ended by SIGTERM, or 129 by SIGHUP, likewise",
}
"""Exit status of every verb ↦ its meaning."""


def shown(text: str) -> str:
    """Return a text for a terminal: control characters, which could change what it shows, are escaped."""
    return "".join(f"\\x{ord(c):02x}" if ord(c) < 160 and not c.isprintable() and c not in "\n\t" else c for c in text)


@cache
def note(line: str) -> None:
    """Print a line on standard error about something that is left out, once, and go on."""
    print("study: " + shown(" ".join(line.splitlines())), file=sys.stderr, flush=True)


class InputError(Exception):
    """Wrong input from the user. The message is one line: `field: expected X, got Y.`, then the remedy."""


class BusyError(InputError):
    """Another process has the run that was asked for."""


class LostError(ConnectionError):
    """A process that made a part of a run was killed. The message is one line; the same command continues."""


def lacking(problem: BaseException | None, folder: Path | None = None) -> str | None:
    """Return one line about what the machine lacks, and any other run in this folder would lack too; None: nothing.

    A library may have an error of its own for a file that it cannot write. So the errors behind it count, and at last
    the room on the disk.

    Args:
        problem: the error; None if a process was killed.
        folder: where the files are.
    """
    while problem is not None and not isinstance(problem, InputError):
        if isinstance(problem, OSError) and problem.errno in LACKS:
            lack, remedy = LACKS[problem.errno]
            return f"{problem.filename or folder}: {lack} ({problem.strerror}). {remedy}; the same command continues."
        if isinstance(problem, ImportError) and not isinstance(problem, ModuleNotFoundError):
            why = " ".join(str(problem).split())[:200]
            return f"{problem.name or 'Python'}: this library cannot start ({why}). Install it again."
        problem = problem.__cause__ or problem.__context__
    if folder is not None and folder.exists() and shutil.disk_usage(folder).free < ROOM:
        return f"{folder}: the disk is full. Make room; the same command continues."
    return None


def short_of_memory(problem: BaseException) -> bool:
    """Return True for an error of memory. torch has a RuntimeError for it."""
    return isinstance(problem, MemoryError) or "alloc" in str(problem)


def ending(code: int | None) -> str:
    """Return how a process has ended without its result, by its exit status."""
    if code is None or code >= 0:
        return f"ended with exit status {code} and no record"
    short = ", as the kernel does when memory is short" if -code == signal.SIGKILL else ""
    return f"killed by signal {-code} ({signal.Signals(-code).name}){short}"
