"""Files: reading fast and with limits, atomic writing, and removal of files that a killed process left.

A reader sees the old content or the new content, never a part. A link is kept: the file that it names is replaced.
A device or a pipe is written to, never replaced.
"""

from __future__ import annotations

import errno
import gc
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from study.errors import InputError

CHECKOUT = Path(__file__).parents[1]
"""Folder above the package: the checkout, whose `results`, `sweeps` and `docs` a wheel does not have."""
SUFFIX = ".tmp"
TEMPORARY = re.compile(r"\..*\.[0-9a-f]{8}\.tmp")
"""Names of temporary files. Nobody else's files have such names."""
SYSTEM = ("/dev/", "/proc/")
PATIENCE = 5.0
"""Seconds that a pipe is given to get a reader."""
STREAM = re.compile(r"/dev/(stdout|stderr)|(?:/dev|/proc/self)/fd/(\d+)")
"""Names of what this process has open."""


def collect_seldom() -> None:
    """Let 50,000 new objects pass between two collections of cyclic garbage, in a process of this program alone.

    At Python's 700 the collector walks through libraries and corpora again and again while they are read. That takes a
    fifth of a start, and half of the time of reading data.
    """
    gc.set_threshold(50_000)


def is_text(text: str) -> bool:
    r"""Return True if a text can be encoded. JSON, YAML and words may have halves of characters, as in `"\ud800"`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def local(text: str, kind: str = "file or folder") -> Path:
    """Return the file or folder on this machine that a text names. A leading ~ is the user's home.

    Args:
        text: the name.
        kind: what it has to name, for the message.

    Raises:
        ValueError: it names none.
    """
    if not text or "\0" in text or not is_text(text):
        raise ValueError(f"expected the name of a {kind} without null bytes, got {text!r}")
    if "://" in text:
        raise ValueError(f"expected a {kind} on this machine, got the address {text[:80]}")
    full = os.path.expanduser(text)
    if full.startswith("~"):
        raise ValueError(f"expected a {kind}, got {text[:80]}, and there is no such user. Write the whole path")
    return Path(full)


def write(path: Path, content: str | bytes, durable: bool = True) -> None:
    """Write a whole file; text becomes UTF-8, and missing folders are made.

    Args:
        path: the file.
        content: all of it.
        durable: wait until the disk has it. A cache needs no such wait.

    Raises:
        OSError: the file cannot be written; `filename` is `path`, and nothing is left behind.
    """
    with replacing(path, durable) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path, durable: bool = True) -> Iterator[Path]:
    """Open a temporary file, which replaces `path` at the end.

    The temporary file is a new one of an unguessable name, and is removed if the body raises. A `path` that is a
    device, a pipe or a stream of this process gets the content instead.

    Raises:
        OSError: the file cannot be written; `filename` is `path`.
    """
    try:
        through = _written_through(path)
        target = Path(os.path.realpath(path))
        if not through:
            target.parent.mkdir(parents=True, exist_ok=True)
        temporary = _new(None if through else target)
    except OSError as problem:
        raise _named(problem, path) from None
    try:
        yield temporary
        try:
            if through:
                _pour(temporary, path)
                return
            with suppress(FileNotFoundError):
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            if durable:
                _sync(temporary)
            os.replace(temporary, target)
        except OSError as problem:
            raise _named(problem, path) from None
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path, limit: int) -> bytes:
    """Return the content of a file of at most `limit` bytes. A pipe that a shell has made, as by `<(…)`, is read too.

    Raises:
        InputError: it is larger, or neither a file nor such a pipe.
        OSError: it cannot be read.
    """
    shell = os.path.abspath(path).startswith(SYSTEM)
    # Without O_NONBLOCK, opening a pipe waits for somebody who writes into it.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if shell else os.O_NONBLOCK))
    try:
        kind = os.fstat(handle).st_mode
        if not (stat.S_ISREG(kind) or (shell and not stat.S_ISBLK(kind) and not stat.S_ISDIR(kind))):
            found = "a folder" if stat.S_ISDIR(kind) else "a pipe or a device"
            raise InputError(f"{path}: expected a file, got {found}. Name a file.")
        with open(handle, "rb", closefd=False) as file:
            content = file.read(limit + 1)
    finally:
        os.close(handle)
    if len(content) > limit:
        raise InputError(f"{path}: expected at most {_size(limit)}, got more. Name another file.")
    return content


def unwritable(folder: Path, problem: OSError) -> InputError:
    """Return the error for a folder of runs that takes no files."""
    return InputError(f"{folder}: cannot be written ({problem.strerror}). Mend that, or choose another with --runs.")


def leftovers(folder: Path) -> list[Path]:
    """Return the temporary files in a folder. Remove them only if no process writes there."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [folder / name for name in names if TEMPORARY.fullmatch(name)]


def _new(target: Path | None) -> Path:
    """Return an empty file beside the target, or for None where the system keeps temporary files."""
    if target is None:
        handle, name = tempfile.mkstemp(SUFFIX)
        os.close(handle)
        return Path(name)
    # Forty characters: a name of 255 bytes leaves no room for a longer temporary one.
    path = target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}{SUFFIX}")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    return path


def _written_through(path: Path) -> bool:
    """Return True if a path or its link target is a device, pipe or stream, which no file can replace."""
    step = os.path.abspath(path)
    for _ in range(40):  # as many links as Linux follows
        if step.startswith(SYSTEM):
            return True
        if not os.path.islink(step):
            break
        step = os.path.join(os.path.dirname(step), os.readlink(step))
    try:
        kind = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))


def _opened(path: Path) -> int:
    """Open a device or pipe to write. A pipe that nobody reads within `PATIENCE` seconds is an error."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as problem:
            if problem.errno != errno.ENXIO or time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            os.set_blocking(handle, True)
            return handle


def _pour(source: Path, path: Path) -> None:
    """Copy a file into a device, a pipe or a stream; a stream keeps its place, so that nothing is overwritten."""
    found = STREAM.fullmatch(os.path.abspath(path))
    if found is None:
        handle = _opened(path)
    else:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        handle = os.dup(int(found[2]) if found[2] else {"stdout": 1, "stderr": 2}[found[1]])
    with open(handle, "wb") as sink, source.open("rb") as file:
        shutil.copyfileobj(file, sink)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _named(problem: OSError, path: Path) -> OSError:
    """Return the same problem under the name that the caller gave."""
    return type(problem)(problem.errno, problem.strerror, str(path))


def _size(count: int) -> str:
    return f"{count // 2**20} MiB" if count >= 2**20 else f"{count} bytes"
