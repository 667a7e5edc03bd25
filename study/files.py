"""Files: reading with limits, atomic writing, and removal of files that a killed process left.

A reader sees the old content or the new content, never a part. A folder of runs or results may be a stranger's: what
lies below it is read through `read`, `read_json` and `read_parquet`, which follow no links there, wait for no pipe and
take no more than a limit; and no writer goes through a link to another file.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


CHECKOUT = Path(__file__).parents[1]
"""Folder above the package: the checkout, whose `results`, `sweeps` and `docs` a wheel does not have."""
SUFFIX = ".tmp"
TEMPORARY = re.compile(r"\..*\.[0-9a-f]{8}\.tmp")
"""Names of temporary files. Nobody else's files have such names."""
SHELL = ("/dev/fd/", "/proc/self/fd/")
"""Folders in which a shell puts the pipes of `<(…)`."""
LARGEST = 2**28
"""Bytes of a file that is read, where nothing smaller is said."""
LARGEST_TABLE = 2**33
"""Bytes that a Parquet file may claim to have when it is unpacked."""


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
    """Write a whole file; text becomes UTF-8, and missing folders are made. A link at its place is replaced.

    Args:
        path: the file. For one that a user has typed, and that may be a link to keep: `path.resolve()`.
        content: all of it.
        durable: wait until the disk has it. A cache needs no such wait.

    Raises:
        OSError: the file cannot be written; `filename` is `path`, and nothing is left behind.
    """
    with replacing(path, durable) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path, durable: bool = True) -> Iterator[Path]:
    """Open a temporary file beside `path`, which replaces it at the end.

    The temporary file is a new one of an unguessable name, and is removed if the body raises.

    Raises:
        OSError: the file cannot be written, or is a pipe or a device; `filename` is `path`.
    """
    # Forty characters: a name of 255 bytes leaves no room for a longer temporary one.
    temporary = path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}{SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    except OSError as problem:
        raise _named(problem, path) from None
    try:
        yield temporary
        try:
            with suppress(FileNotFoundError):
                mode = path.lstat().st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
                    raise OSError(errno.EINVAL, "a pipe or a device")
                if stat.S_ISREG(mode):
                    temporary.chmod(stat.S_IMODE(mode))
            if durable:
                _sync(temporary)
            os.replace(temporary, path)
        except OSError as problem:
            raise _named(problem, path) from None
    finally:
        temporary.unlink(missing_ok=True)


def append(path: Path, text: str) -> None:
    """Write a text at the end of a file, which is made if there is none.

    Raises:
        OSError: it cannot be written, or is a link.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags, 0o666), "a", encoding="utf-8") as file:
        file.write(text)


def read(path: Path, limit: int = LARGEST, below: Path | None = None) -> bytes:
    """Return the content of a file. A pipe that a shell has made, as by `<(…)`, is read too.

    Args:
        path: the file.
        limit: its largest size in bytes.
        below: a folder above the file. From there on no link is followed; it may be one itself. None: all links are.

    Raises:
        InputError: it is larger, or a link below that folder, or neither a file nor such a pipe.
        OSError: it is absent or cannot be read.
    """
    handle = _opened(path, below)
    with open(handle, "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise InputError(f"{path}: expected at most {_size(limit)}, got more. Name another file.")
    return content


def read_text(path: Path, limit: int = LARGEST, below: Path | None = None) -> str:
    """Return the text of a file in UTF-8; arguments as for `read`.

    Raises:
        InputError: it is absent, cannot be read, or is no such text.
    """
    try:
        return read(path, limit, below).decode("utf-8")
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror}). Check the file and your rights.") from None
    except UnicodeDecodeError as problem:
        raise InputError(f"{path}: expected UTF-8, got another byte at {problem.start}. Restore the file.") from None


def read_json(path: Path, limit: int = LARGEST, below: Path | None = None) -> Any:
    """Return the data of a JSON file; arguments as for `read`.

    Raises:
        InputError: it is absent, cannot be read, or is no JSON.
    """
    return parse_json(read_text(path, limit, below), str(path))


def parse_json(text: str, where: str) -> Any:
    """Return the data of a JSON text; `where` is its place, for the message.

    Raises:
        InputError: it is no JSON, or is nested too deep.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        why = " ".join(str(problem).split())[:100]
        raise InputError(f"{where}: expected JSON, got something else ({why}). Restore the file.") from None


def read_parquet(
    path: Path,
    columns: Sequence[str] | None = None,
    split: str | None = None,
    below: Path | None = None,
    repeated: Sequence[str] = (),
    run: str | None = None,
    limit: int = LARGEST_TABLE,
) -> pa.Table:
    """Return columns of a Parquet file, without what libraries write beside them.

    Args:
        path: the file.
        columns: names (default: all).
        split: read no more than the parts of the file whose first column begins with this text.
        below: as for `read`.
        repeated: columns to be read as dictionaries, as far as they are there.
        run: keep no more than the rows with this `id`, part by part.
        limit: bytes of the unpacked file.

    Raises:
        InputError: it is absent, is no Parquet file, is damaged, lacks a column, or claims to be larger.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import parquet

    with _tables(path), open(_opened(path, below), "rb") as file:
        found = parquet.read_metadata(file)
        groups = [found.row_group(place) for place in range(found.num_row_groups)]
        sizes = [group.total_byte_size for group in groups]
        if min([found.num_rows, *sizes]) < 0 or max(sum(sizes), found.num_rows) > limit:
            raise InputError(f"{path}: expected at most {_size(limit)}, got more. Restore the file.")
        names = found.schema.to_arrow_schema().names
        if lacking := [name for name in columns or () if name not in names]:
            raise InputError(f"{path}: {lacking[0]}: expected this column, got none. Restore the file.")
        chosen = [place for place, group in enumerate(groups) if split in (None, _first(group))]
        kept = [name for name in repeated if name in names]
        with parquet.ParquetFile(file, metadata=found, read_dictionary=kept) as opened:
            read = (opened.read_row_groups([one], columns, use_threads=False) for one in chosen)  # half of the memory
            parts = [part if run is None else part.filter(pc.field("id") == run) for part in read]
            table = pa.concat_tables(parts or [opened.read_row_groups([], columns)])
        table.validate(full=True)
        return table.replace_schema_metadata(None)


def _first(group: Any) -> Any:
    """Return the smallest value in the first column of a part of a table."""
    statistics = group.column(0).statistics
    return statistics.min if statistics is not None else None


@contextmanager
def _tables(path: Path) -> Iterator[None]:
    """Tell whatever pyarrow says of a file in one line."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError) as problem:
        why = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        raise InputError(
            f"{path}: expected a Parquet file, got something else ({' '.join(why.split())[:100]}). Restore the file."
        ) from None


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


def _opened(path: Path, below: Path | None) -> int:
    """Return the open file. Without O_NONBLOCK, opening a pipe would wait for somebody who writes into it."""
    shell = below is None and os.path.abspath(path).startswith(SHELL)
    flags = os.O_RDONLY | os.O_CLOEXEC | (0 if shell else os.O_NONBLOCK)
    handle = os.open(path, flags) if below is None else _descended(path, below, flags)
    mode = os.fstat(handle).st_mode
    if not (stat.S_ISREG(mode) or (shell and stat.S_ISFIFO(mode))):
        os.close(handle)
        found = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise InputError(f"{path}: expected a file, got {found}. Name a file.")
    return handle


def _descended(path: Path, below: Path, flags: int) -> int:
    """Open the folder, in it the next one, and so on: no link can be put in between."""
    handle, parts = os.open(below, flags | os.O_DIRECTORY), path.relative_to(below).parts
    for part in parts:
        if part == "..":
            os.close(handle)
            raise InputError(f"{path}: expected a file below {below}, got a link upwards. Name a file there.")
        try:
            inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=handle)
        except OSError as problem:
            if problem.errno == errno.ELOOP:
                raise InputError(f"{path}: expected a file, got a link. Replace it by what it names.") from None
            raise _named(problem, path) from None
        finally:
            os.close(handle)
        handle = inner
    return handle


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
