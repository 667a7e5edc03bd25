"""Full and unwritable disks, told apart from what goes wrong in a run: they stop a sweep, which can then continue."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from study import files
from study.errors import InputError

FULL = (errno.ENOSPC, errno.EDQUOT)
"""No room on the disk, or none left of a quota."""
PROBE = 2**20
"""Bytes that must fit, or the disk counts as full."""


def problem(folder: Path, met: BaseException | None = None) -> str | None:
    """One line on why a folder takes no files, and how to go on; None where the disk is not at fault.

    Args:
        folder: where runs are written.
        met: what a run ended with: out of room at one moment, a disk may have room again the next.
    """
    for cause in _chain(met):
        if isinstance(cause, OSError) and cause.errno in (*FULL, errno.EFBIG):
            return _line(folder, cause)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(PROBE))
            file.flush()
            os.fsync(file.fileno())
    except OSError as found:
        return _line(folder, found)
    return None


@contextmanager
def reported(folder: Path) -> Iterator[None]:
    """Convert errors of a full or unwritable folder to one line while the context is open.

    Raises:
        InputError: the disk is full or cannot be written.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as met:  # torch has errors of its own for a file that it cannot write
        if line := problem(folder, met):
            raise InputError(line) from None
        raise


def full(folder: Path) -> str:
    """The line for a disk that had no room when a run wanted some."""
    return f"{folder}: the disk is full. Make room; the same command continues."


def _line(folder: Path, found: OSError) -> str:
    if found.errno in FULL:
        return full(folder)
    return str(files.unwritable(folder, found))


def _chain(met: BaseException | None) -> Iterator[BaseException]:
    """An exception and those that led to it."""
    seen: set[int] = set()
    while met is not None and id(met) not in seen:
        seen.add(id(met))
        yield met
        met = met.__cause__ or met.__context__
