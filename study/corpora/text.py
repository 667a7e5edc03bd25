"""Parallel text in files: UTF-8, plain or gzip, one sentence a line, and alignments in Pharaoh's format."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from pathlib import Path

from study import files
from study.corpora.corpus import Link, Pair, words
from study.errors import InputError

LARGEST = 2**28
"""Bytes of one file, as it is and unpacked."""
LINK = re.compile(r"(\d+)([-?])(\d+)")


def read_sides(source: Path, target: Path) -> list[Pair]:
    """Sentence pairs from two files, one sentence a line, gzip or plain; the sentences as they are.

    Raises:
        InputError: a file is absent, unreadable, empty or not UTF-8, or they differ in length.
    """
    first, second = read_lines(source), read_lines(target)
    if len(first) != len(second):
        raise InputError(
            f"{source}: expected {len(second)} lines, as in {target}, got {len(first)}. "
            "Get both files again, with one sentence per line in the same order."
        )
    return [Pair(*pair) for pair in zip(first, second, strict=True)]


def read_lines(path: Path, blank: bool = False) -> list[str]:
    """Return the lines of a text, which LF or CR LF ends; a byte order mark is no part of the text.

    Args:
        path: of the file, plain or gzip.
        blank: whether all lines may be empty, as those of links may.

    Raises:
        InputError: the file is absent, unreadable, larger than `LARGEST`, empty or not UTF-8, or has a null byte or a
            carriage return within a line.
    """
    try:
        content = files.read(path, LARGEST)
        if content[:2] == b"\x1f\x8b":
            with gzip.open(io.BytesIO(content)) as file:
                content = file.read(LARGEST + 1)
            if len(content) > LARGEST:
                raise InputError(
                    f"{path}: expected at most {LARGEST // 2**20} MiB of text, got more. Give a smaller file."
                )
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file. Check the folder.") from None
    except UnicodeDecodeError as problem:
        line = content[: problem.start].count(b"\n") + 1
        raise InputError(
            f"{path}:{line}: expected UTF-8, plain or gzip, got another byte at {problem.start}. Convert it or get "
            "it again."
        ) from None
    except (OSError, EOFError, zlib.error) as problem:
        raise InputError(
            f"{path}: expected text, plain or gzip, got a file that cannot be read ({problem}). Get it again."
        ) from None
    text = text.replace("\r\n", "\n")
    for mark, name in (("\0", "a null byte"), ("\r", "a carriage return within a line")):
        if mark in text:
            line = text[: text.index(mark)].count("\n") + 1
            raise InputError(f"{path}:{line}: expected one sentence per line, got {name}. Remove it.")
    if not blank and not text.strip():
        raise InputError(f"{path}: expected one sentence per line, got an empty file. Get it again.")
    return text.removesuffix("\n").split("\n")


def links(text: str, source: str, target: str) -> tuple[Link, ...]:
    """Return an alignment such as `0-0 2?1` as links between `words` of both sides.

    Pharaoh's format counts tokens between blanks, from 0. A token of several words (`don't`) links all of them. `-` is
    a sure link, `?` a possible one.

    Raises:
        ValueError: it has another form, or names a token that is not there.
    """
    found = []
    sides = _tokens(source), _tokens(target)
    for part in text.split():
        match = LINK.fullmatch(part)
        if match is None:
            raise ValueError(f"expected links such as 0-0 or 2?1, got {part!r}")
        for place, side, name in ((int(match[1]), sides[0], "source"), (int(match[3]), sides[1], "target")):
            if place >= len(side):
                raise ValueError(f"expected tokens of the {name} from 0 to {len(side) - 1}, got {place} in link {part}")
        ends = (sides[0][int(match[1])], sides[1][int(match[3])])
        found += [Link(s, t, match[2] == "-") for s in ends[0] for t in ends[1]]
    return tuple(sorted(set(found)))


def _tokens(text: str) -> list[list[int]]:
    """Return the indices of the words in every token between blanks."""
    out: list[list[int]] = []
    before = 0
    for token in text.split():
        count = len(words(token))
        out.append(list(range(before, before + count)))
        before += count
    return out
