"""Describe how a trial's process ended, in one line without folders: a record does not describe the machine."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from study import files
from study.errors import BUSY as BUSY
from study.errors import UNWRITTEN as UNWRITTEN
from study.errors import InputError
from study.sweep.display import clock

WRONG = 2
"""Exit status of a trial with invalid input. It would fail again."""
STOPPED = 128 + signal.SIGTERM
"""Exit status of a trial that was asked to end."""
LOST = 255
"""Exit status that is reported if the fork server is gone. The trial's own status is unknown."""

HEADER = re.compile(r"^--- [\d: -]+ UTC ---$", re.MULTILINE)
"""Line that begins an attempt in the log."""
FOLDERS = re.compile(r"(?<![\w.])~?/(?:[^\s/'\":,;()]+/)+")
LONGEST = 500
TAIL = 8192


def error_line(problem: BaseException) -> str:
    """`Type: first line`."""
    first = next(iter(str(problem).strip().splitlines()), "")
    text = first if isinstance(problem, InputError) else f"{type(problem).__name__}: {first}".removesuffix(": ")
    return FOLDERS.sub("", text)[:LONGEST]


def cause(code: int | None, log: Path, limit: float | None = None, memory: bool = False) -> str:
    """Why a process ended that could not say so itself, and the last that its log says.

    Args:
        code: its exit status; negative for a signal.
        log: its log.
        limit: the seconds that it was given, if it was ended for using them up.
        memory: whether the kernel has killed something for memory while it ran.
    """
    return f"{_why(code, limit, memory)}{_last_words(log)}"[:LONGEST]


def _why(code: int | None, limit: float | None, memory: bool) -> str:
    if limit is not None:
        return f"not done within its time limit of {clock(limit)}"
    number = -code if code is not None and code < 0 else signal.SIGTERM if code == STOPPED else None
    if number is None:
        return f"ended with exit status {code} and no record"
    known = f" ({signal.Signals(number).name})" if number in set(signal.Signals) else ""
    starved = ", as the kernel did for want of memory; fewer --slots leave each more" if memory else ""
    return f"killed by signal {int(number)}{known}{starved if number == signal.SIGKILL else ''}"


def _last_words(log: Path) -> str:
    """The last line of this attempt, or that with which Python says why it crashed."""
    try:
        text = files.read(log, below=log.parent)[-TAIL:].decode("utf-8", "replace")
    except (OSError, InputError):
        return ""
    lines = [line.strip() for line in HEADER.split(text)[-1].splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith("Fatal Python error")]
    said = (fatal or lines)[-1:]
    return f"; its log ends: {FOLDERS.sub('', said[0])}" if said else ""


def memory_kills() -> int:
    """Return the number of processes that the kernel has killed for lack of memory; 0 if it is unknown."""
    try:
        found = re.search(r"^oom_kill (\d+)", Path("/proc/vmstat").read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0
