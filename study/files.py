"""Files: reading with limits, atomic writing, and removal of files that a killed process left.

A reader sees the old content or the new content, never a part. A folder of runs or results may be a stranger's: what
lies below it is read through `read`, `read_json` and `read_parquet`, which follow no links there, and the first two
take no more than a limit; and no writer goes through a link to another file.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from study.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


SPLIT = re.compile(r"[A-Za-z0-9_-]+")
"""Name of a split, of which names of files are made."""
SUFFIX = ".study.tmp"
"""Ending of temporary files. Nobody else's files have such names."""
LARGEST = 2**28
"""Bytes of a file that is read, where nothing smaller is said."""


def collect_seldom(objects: int = 50_000) -> None:
    """Let so many new objects pass between two collections of cyclic garbage, in a process of this program alone.

    At Python's 700 the collector walks through libraries and corpora again and again while they are read. That takes a
    fifth of a start, and half of the time of reading data. A verb that prints one answer ends before 200,000.
    """
    gc.set_threshold(objects)


def is_text(text: str) -> bool:
    r"""Return True if a text can be encoded. JSON, YAML and words may have halves of characters, as in `"\ud800"`."""
    return not re.search("[\ud800-\udfff]", text)


def local(text: str) -> Path:
    """Return the file or folder on this machine that a text names. A leading ~ is the user's home.

    Raises:
        ValueError: it names none.
    """
    if not text or "\0" in text or "://" in text or not is_text(text):
        raise ValueError(f"expected a file or folder on this machine, got {text[:80]!r}")
    return Path(os.path.expanduser(text))


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
        with named(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.touch(exist_ok=False)
            if path.exists() and not (path.is_file() or path.is_dir() or path.is_symlink()):
                raise OSError(errno.EINVAL, "a pipe or a device")  # root would put a file in the place of /dev/null
            yield temporary
            if durable:
                with temporary.open("rb") as file:
                    os.fsync(file.fileno())
            os.replace(temporary, path)
    finally:
        with suppress(OSError):  # its folder may be a file
            temporary.unlink()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this process alone; another one waits. A folder to which nothing was added is removed.

    Raises:
        OSError: it cannot be written, or its file system has no locks; `filename` is the folder.
    """
    from filelock import lock_descriptor

    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with named(folder):
            lock_descriptor(descriptor)
        yield
    finally:
        os.close(descriptor)
        with suppress(OSError):
            folder.rmdir()


def append(path: Path, text: str) -> None:
    """Write a text at the end of a file, which is made if there is none.

    Raises:
        OSError: it cannot be written, or is a link; `filename` is `path`.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with named(path), open(os.open(path, flags, 0o666), "a", encoding="utf-8") as file:
        file.write(text)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Context in which every OSError has a path as its `filename`: errors of an open file have none."""
    try:
        yield
    except NotImplementedError as problem:  # filelock's, where the kernel has no flock
        raise OSError(errno.ENOLCK, str(problem), str(path)) from None
    except OSError as problem:
        raise type(problem)(problem.errno, problem.strerror or str(problem), str(path)) from None


def read(path: Path, limit: int = LARGEST, below: Path | None = None) -> bytes:
    """Return the content of a file.

    Args:
        path: the file.
        limit: its largest size in bytes.
        below: a folder above the file. From there on no link is followed; it may be one itself. None: all links are.

    Raises:
        InputError: it is larger, or a link below that folder, or no file.
        OSError: it is absent or cannot be read.
    """
    with _opened(path, below) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise InputError(f"{path}: expected at most {limit:,} bytes, got more. Name another file.")
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


def parse_json(text: str | bytes, where: str) -> Any:
    """Return the data of a JSON text; `where` is its place, for the message.

    Raises:
        InputError: it is no JSON, or is nested too deep.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        why = " ".join(str(problem).split())[:100]
        raise InputError(f"{where}: expected JSON, got something else ({why}). Restore the file.") from None


def json_lines(content: bytes | None) -> list[tuple[int, dict[str, Any]]]:
    """Return the points of a file of JSON lines, the last of each step. A line that is torn or damaged is left out."""
    values = {}
    for line in (content or b"").splitlines():
        with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            point = json.loads(line)
            values[int(point.pop("step"))] = point
    return sorted(values.items())


def read_parquet(
    path: Path,
    columns: Sequence[str] | None = None,
    first: str | None = None,
    below: Path | None = None,
    repeated: Sequence[str] = (),
) -> pa.Table:
    """Return columns of a Parquet file, without what libraries write beside them.

    Args:
        path: the file.
        columns: names (default: all).
        first: read no more than the parts of the file in whose first column, a dictionary then, this text is.
        below: as for `read`.
        repeated: columns to be read as dictionaries, as far as they are there.

    Raises:
        InputError: it is absent, is no Parquet file, is damaged, or lacks a column.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with _opened(path, below) as file:
            # In memory: a thread of Arrow that reads a file of Python's when Python ends would abort the process.
            content = pa.BufferReader(file.read())
            metadata = parquet.read_metadata(content)
            names = metadata.schema.to_arrow_schema().names
            if not {*(columns or ())} <= {*names}:
                raise ValueError(f"columns {', '.join(names)}")
            dictionaries = [name for name in names if name in repeated or (first is not None and name == names[0])]
            opened = parquet.ParquetFile(
                content, metadata=metadata, read_dictionary=dictionaries, page_checksum_verification=True
            )
            chosen: Iterable[int] = range(metadata.num_row_groups)
            if first is not None:
                # The column says so, not the statistics: pyarrow ends the process where those are damaged.
                chosen = [i for i in chosen if first in _texts(opened.read_row_group(i, names[:1], use_threads=False))]
            # One after another, without threads: half the memory.
            parts = [opened.read_row_groups([one], columns, use_threads=False) for one in chosen]
            table = pa.concat_tables(parts or [opened.read_row_groups([], columns)])
            table.validate(full=True)
            return table.replace_schema_metadata(None).unify_dictionaries()
    except (pa.ArrowException, OSError, ValueError, OverflowError) as problem:
        why = " ".join(str(problem).split())[:100]
        raise InputError(f"{path}: expected a Parquet file of the study, got another ({why}). Restore it.") from None


def _texts(table: pa.Table) -> set[Any]:
    """Return the different texts of the first column of a table; none if it is not read as a dictionary."""
    parts = [part.dictionary for part in table.column(0).chunks if hasattr(part, "dictionary")]
    return {text for part in parts for text in part.to_pylist()}


def leftovers(folder: Path) -> list[Path]:
    """Return the temporary files in a folder."""
    return list(folder.glob(f".*{SUFFIX}"))


def clean(*folders: Path) -> None:
    """Remove the temporary files that killed processes have left in folders in which no other process writes now."""
    for left in (left for folder in folders for left in leftovers(folder)):
        with suppress(OSError):
            left.unlink()


def _opened(path: Path, below: Path | None) -> BinaryIO:
    """Open a file, without following a link below a folder."""
    if below is not None:
        parts = path.relative_to(below).parts
        if ".." in parts or any(below.joinpath(*parts[: n + 1]).is_symlink() for n in range(len(parts))):
            raise InputError(f"{path}: expected a file below {below}, got a link. Replace it by what it names.")
    extra = 0 if below is None else os.O_NOFOLLOW
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | extra))
