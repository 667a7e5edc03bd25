"""Own parallel text: a folder with `train`, `valid` and any number of test splits, in any two languages.

A split is a pair of files or one table, UTF-8, plain or gzip, and its name is the beginning of the file's name:

    train.cs train.en          one sentence a line; beside them train.align with gold links, if they are known
    train.tsv                  source, target and, if known, links, with tabs between

Links are in Pharaoh's format, such as `0-0 2?1`. Identity and record have the SHA-256 of what the files say. Paths,
compression and the form of the files are not in it.
"""

import gzip
import os
import re
import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from study import files
from study.corpora.corpus import VERSION, Corpus, Link, Pair, Section, Splits, Unit, Vocabulary, checksum
from study.corpora.text import words
from study.errors import InputError
from study.schema import Name

FOLDER = "STUDY_FILES"
"""Environment variable with the folder, where `data.folder` is left out."""
ALIGNED, TABLE = ".align", ".tsv"
SHOWN = 20
"""Numbers of lines that a message has."""
LINK = re.compile(r"(\d+)([-?])(\d+)")
Language = Annotated[str, Field(pattern=r"^[A-Za-z0-9]+([_-][A-Za-z0-9]+)*$")]


class Files(Section):
    """Parallel text of your own: a folder with train, valid and test splits, in any two languages."""

    name: Literal["files"] = Field("files", description="Corpus or probe.")
    version: Literal[2] = Field(2, description=VERSION)
    folder: Name | None = Field(None, description=f"Folder with the files of the splits (else ${FOLDER}).")
    source: Language = Field(description="Language of the source, the ending of its files, such as cs.")
    target: Language = Field(description="Language of the target, the ending of its files, such as en.")
    tests: str | None = Field(
        None,
        description="Test splits, with blanks between; the first decides (derived: test, then all others by name).",
    )
    gold: str | None = Field(None, description="Splits with gold alignments (derived from the files).")
    content: str | None = Field(
        None,
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of all splits; if given, other text is refused (derived from the files).",
    )
    tokens: Unit = "subwords"
    vocabulary: Vocabulary = None

    tier: ClassVar[str] = "files"

    @model_validator(mode="after")
    def _resolved(self) -> Self:
        if self.source == self.target:
            raise ValueError(f"target: expected another ending than that of the source, got {self.target}.")
        if None not in (self.tests, self.gold, self.content):  # from a record: the files need not be here
            return self
        try:
            splits = self._splits()
        except InputError as problem:
            raise ValueError(f"folder: {problem}") from None
        facts = {
            "tests": " ".join(name for name in splits if name not in ("train", "valid")),
            "gold": " ".join(name for name, pairs in splits.items() if pairs[0].alignment is not None),
            "content": content(splits),
        }
        for name, value in facts.items():
            if name != "tests" and getattr(self, name) not in (None, value):
                raise ValueError(
                    f"{name}: expected {value!r}, as in the files, got {getattr(self, name)!r}. Remove it."
                )
            object.__setattr__(self, name, value)
        return self

    @classmethod
    def example(cls) -> Self:
        return cls(source="cs", target="en", tests="test", gold="", content="0" * 64)

    @property
    def scored(self) -> tuple[str, ...]:
        return ("valid", *(self.tests or "").split())

    def offers(self, split: str) -> frozenset[str]:
        return frozenset({"alignment"} if split in (self.gold or "").split() else ())

    def at_hand(self) -> bool:
        """Return True if the folder contains exactly this text."""
        try:
            return content(self._splits()) == self.content
        except (InputError, OSError):
            return False

    def read(self) -> Corpus:
        splits = self._splits()
        if (digest := content(splits)) != self.content:
            raise InputError(
                f"data.content: expected text with SHA-256 {self.content}, got {digest}. The files were changed, or "
                "are others: restore them, or leave data.content out for another experiment."
            )
        sums = {name: checksum(pairs) for name, pairs in splits.items()}
        return Corpus("files", self.version, splits, files=sums, languages=(self.source, self.target))

    def _splits(self) -> Splits:
        if not (folder := self.folder or os.environ.get(FOLDER)):
            raise InputError(
                f"expected the folder of the text, got none. Give data.folder (--data of show, rerun), or set {FOLDER}."
            )
        splits = find(Path(folder).expanduser().absolute(), self.source, self.target)
        tests = (
            [name for name in splits if name not in ("train", "valid")] if self.tests is None else self.tests.split()
        )
        names = ["train", "valid", *tests]
        if not tests or len(set(names)) < len(names) or not set(names) <= splits.keys():
            raise InputError(
                f"{folder}: expected {', '.join(names)} and a test split, got {', '.join(splits) or 'none'}."
            )
        return with_links(
            {name: _pairs(splits[name], tuple(path.stat().st_mtime_ns for path in splits[name])) for name in names}
        )


def find(folder: Path, source: str, target: str) -> dict[str, tuple[Path, ...]]:
    """Return the files of every split of a folder: `train`, `valid`, `test`, then others by name.

    A split has one table, or two sides and, if known, links. Files with other endings are none.

    Raises:
        InputError: no such folder, another set of files for a split, or a name that metrics cannot have.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder. Give one with train.{source} and train.{target} in it.")
    ends = (f".{source}", f".{target}", ALIGNED, TABLE)
    splits: dict[str, list[tuple[str, Path]]] = {}
    for path in sorted(folder.iterdir()):
        name = path.name.removesuffix(".gz")
        for end in (end for end in ends if name.endswith(end)):
            splits.setdefault(name.removesuffix(end), []).append((end, path))
    for name, parts in splits.items():
        parts.sort(key=lambda part: ends.index(part[0]))
        if tuple(end for end, _ in parts) not in (ends[:2], ends[:3], ends[3:]) or not files.SPLIT.fullmatch(name):
            raise InputError(
                f"{folder}: expected NAME.{source} and NAME.{target}, with or without NAME{ALIGNED}, or NAME{TABLE}, "
                f"the name of letters, digits, _ and -, got {', '.join(path.name for _, path in parts)}."
            )
    order = sorted(splits, key=lambda name: (name != "train", name != "valid", name != "test", name))
    return {name: tuple(path for _, path in splits[name]) for name in order}


def with_links(splits: Splits) -> Splits:
    """Return the splits, without links where no pair has one: a tab at the end of each line is no set of links."""
    if any(pair.alignment for pairs in splits.values() for pair in pairs):
        return dict(splits)
    return {name: [replace(pair, alignment=None) for pair in pairs] for name, pairs in splits.items()}


def content(splits: Splits) -> str:
    """SHA-256 of a corpus: names, sentences and gold links of its splits, in order."""
    return checksum([Pair(name, checksum(pairs)) for name, pairs in splits.items()])


@lru_cache(maxsize=16)
def _pairs(paths: tuple[Path, ...], changed: tuple[int, ...]) -> list[Pair]:
    """Return the pairs of a split; read again only if a file was `changed` at another time."""
    return read(paths)


def read(paths: Sequence[Path]) -> list[Pair]:
    """Return the pairs of a split from its files.

    Raises:
        InputError: a file cannot be read, two sides differ in length, or lines cannot be used: the first with its
            problem, the others by number.
    """
    pairs = []
    wrong = {}
    for number, line in enumerate(side_by_side(paths), start=1):
        try:
            pairs.append(_pair(line if len(paths) > 1 else line[0].split("\t")))
        except ValueError as problem:
            wrong[number] = str(problem)
    if wrong:
        first, *others = wrong
        listed = ", ".join(map(str, others[:SHOWN])) + (" …" if len(others) > SHOWN else "")
        more = f" Other such lines: {listed}." if others else ""
        raise InputError(f"{paths[0]}:{first}: {wrong[first]}. Correct the line, or remove it.{more}")
    gold = sum(pair.alignment is not None for pair in pairs)
    if 0 < gold < len(pairs):
        raise InputError(f"{paths[0]}: expected links of every pair or of none, got {gold} of {len(pairs)}.")
    return pairs


def _pair(cells: Sequence[str]) -> Pair:
    if len(cells) not in (2, 3):
        raise ValueError(f"expected 2 or 3 columns with tabs between, got {len(cells)}")
    source, target = cells[:2]
    if not source.strip() or not target.strip():
        raise ValueError(f"the {'target' if source.strip() else 'source'} is empty")
    return Pair(source, target, links(cells[2], source, target) if cells[2:] else None)


def side_by_side(paths: Sequence[Path]) -> list[tuple[str, ...]]:
    """Return the lines of files that have the same number of them, line by line.

    Raises:
        InputError: a file is absent, unreadable, empty or not UTF-8, or they differ in length.
    """
    columns = [read_lines(path) for path in paths]
    for path, lines in zip(paths, columns, strict=True):
        if len(lines) != len(columns[0]):
            raise InputError(
                f"{path}: expected {len(columns[0])} lines, as in {paths[0]}, got {len(lines)}. Get both again."
            )
    return list(zip(*columns, strict=True))


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text, which LF or CR LF ends; a byte order mark is no part of the text.

    Raises:
        InputError: the file is absent, unreadable, empty or not UTF-8, or has a null byte or a carriage return within a
            line.
    """
    try:
        content = files.read(path)
        text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file. Check the folder.") from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as problem:
        raise InputError(f"{path}: expected UTF-8, plain or gzip, got other bytes ({problem}). Get it again.") from None
    text = text.replace("\r\n", "\n")
    if mark := re.search("[\0\r]", text):
        line = text.count("\n", 0, mark.start()) + 1
        raise InputError(f"{path}:{line}: expected one sentence per line, got {mark.group()!r} in it. Remove it.")
    if not text:
        raise InputError(f"{path}: expected one sentence per line, got an empty file. Get it again.")
    return text.removesuffix("\n").split("\n")


def links(text: str, source: str, target: str) -> tuple[Link, ...]:
    """Return an alignment such as `0-0 2?1` as links between `words` of both sides.

    Pharaoh's format counts tokens between blanks, from 0. A token of several words (`don't`) links all of them. `-` is
    a sure link, `?` a possible one.

    Raises:
        ValueError: it has another form, or names a token that is not there.
    """
    alignment = set()
    sides = _tokens(source), _tokens(target)
    for part in text.split():
        match = LINK.fullmatch(part)
        if match is None:
            raise ValueError(f"expected links such as 0-0 or 2?1, got {part!r}")
        places = int(match[1]), int(match[3])
        for place, side, name in zip(places, sides, ("source", "target"), strict=True):
            if place >= len(side):
                raise ValueError(f"expected tokens of the {name} from 0 to {len(side) - 1}, got {place} in link {part}")
        alignment |= {Link(s, t, match[2] == "-") for s in sides[0][places[0]] for t in sides[1][places[1]]}
    return tuple(sorted(alignment))


def _tokens(text: str) -> list[range]:
    """Return the indices of the words in every token between blanks."""
    out, before = [], 0
    for token in text.split():
        count = len(words(token))
        out.append(range(before, before + count))
        before += count
    return out
