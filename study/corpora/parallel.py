"""Own parallel text: a folder with `train`, `valid` and any number of test splits, in any two languages.

A split is a pair of files or one table, plain or gzip, and its name is the beginning of the file's name:

    train.cs train.en          one sentence a line; beside them train.align with gold links, if they are known
    train.tsv                  source, target and, if known, links, with tabs between

Identity and record have the SHA-256 of what the files say. Paths, compression and the form of the files are not in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from study.corpora.corpus import SUBWORDS, VERSION, Corpus, Pair, Section, checksum, derive_vocabulary
from study.corpora.text import links, read_lines, read_sides
from study.errors import InputError
from study.schema import Name, Size

FOLDER = "STUDY_FILES"
"""Environment variable with the folder, where `data.folder` is left out."""
ALIGNED, TABLE = ".align", ".tsv"
SPLIT = re.compile(r"[A-Za-z0-9_-]+")
Language = Annotated[str, Field(pattern=r"^[A-Za-z0-9]+([_-][A-Za-z0-9]+)*$")]


class Files(Section):
    """Parallel text of your own: a folder with train, valid and test splits, in any two languages."""

    name: Literal["files"] = Field("files", description="Corpus or probe.")
    version: Literal[1] = Field(1, description=VERSION)
    folder: Name | None = Field(None, description=f"Folder with the files of the splits (else ${FOLDER}).")
    source: Language = Field(description="Language of the source, the ending of its files, such as cs.")
    target: Language = Field(description="Language of the target, the ending of its files, such as en.")
    tests: str | None = Field(
        None,
        description="Test splits, with blanks between; the first decides (derived: test, then all others by name).",
    )
    gold: str | None = Field(None, description="Splits with gold alignments (derived from the files).")
    content: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = Field(
        None, description="SHA-256 of all splits; if given, other text is refused (derived from the files)."
    )
    tokens: Literal["words", "subwords"] = Field("subwords", description="Unit of a token.")
    vocabulary: Size | None = Field(None, description=SUBWORDS)

    title: ClassVar[str] = "own parallel text"
    tier: ClassVar[str] = "files"

    @model_validator(mode="after")
    def _resolved(self) -> Self:
        derive_vocabulary(self)
        if self.source == self.target:
            raise ValueError(f"target: expected another ending than that of the source, got {self.target}")
        if None not in (self.tests, self.gold, self.content):  # from a record: the files need not be here
            return self
        try:
            splits = self._splits()
        except InputError as problem:
            told = str(problem)
            raise ValueError(told if told.startswith(("folder: ", "tests: ")) else f"folder: {told}") from None
        tests = [name for name in splits if name not in ("train", "valid")]
        object.__setattr__(self, "tests", " ".join(tests))
        gold = " ".join(name for name, pairs in splits.items() if pairs[0].alignment is not None)
        if self.gold not in (None, gold):
            raise ValueError(f"gold: expected {gold!r}, as in the files, got {self.gold!r}. Remove it.")
        object.__setattr__(self, "gold", gold)
        found = content(splits)
        if self.content not in (None, found):
            raise ValueError(f"content: {_other_text(self.content, found)}")
        object.__setattr__(self, "content", found)
        return self

    @property
    def subwords(self) -> int | None:
        return self.vocabulary

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
        if (found := content(splits)) != self.content:
            raise InputError(f"data.content: {_other_text(self.content, found)}")
        sums = {name: checksum(pairs) for name, pairs in splits.items()}
        return Corpus("files", self.version, dict(splits), files=sums, languages=(self.source, self.target))

    def _splits(self) -> Mapping[str, list[Pair]]:
        given = self.folder or os.environ.get(FOLDER)
        if not given:
            raise InputError(
                f"folder: expected the folder of the text, got none. Give data.folder (--data-folder), or set {FOLDER}."
            )
        found = find(Path(given).expanduser().absolute(), self.source, self.target)
        names = ["train", "valid", *(self.tests.split() if self.tests is not None else _others(found))]
        if lacking := [name for name in names if name not in found]:
            raise InputError(
                f"{given}: expected the split {lacking[0]}, got {', '.join(found) or 'none'}. Add "
                f"{lacking[0]}.{self.source} and {lacking[0]}.{self.target}, or {lacking[0]}.tsv."
            )
        if len(names) < 3:
            raise InputError(f"{given}: expected a test split beside train and valid, got none. Add one, such as test.")
        if len(set(names)) < len(names):
            raise InputError(f"tests: expected every split once and neither train nor valid, got {self.tests!r}.")
        return {name: _pairs(found[name], found[name].stamp()) for name in names}


@dataclass(frozen=True)
class Split:
    """The files of one split.

    Attributes:
        name: of the split.
        languages: of source and target.
        paths: one table, or the two sides and, if known, the links.
    """

    name: str
    languages: tuple[str, str]
    paths: tuple[Path, ...]

    def stamp(self) -> tuple[tuple[int, int], ...]:
        """Size and time of every file: what tells that it was changed while this process ran."""
        states = [path.stat() for path in self.paths]
        return tuple((state.st_size, state.st_mtime_ns) for state in states)


@dataclass(frozen=True)
class Rows:
    """A split as it stands in its files, usable or not.

    Attributes:
        pairs: the pairs that can be used.
        problems: what is wrong with the others, with file and line.
        empty: pairs with an empty side.
    """

    pairs: list[Pair] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    empty: int = 0


def find(folder: Path, source: str, target: str) -> dict[str, Split]:
    """Return the splits of a folder: `train`, `valid`, `test`, then others by name. Files with other endings are none.

    Raises:
        InputError: no such folder, one side without the other, two forms of one split, or a name that metrics cannot
            have.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder. Give one with train.{source} and train.{target} in it.")
    ends = (f".{source}", f".{target}", ALIGNED, TABLE)
    parts: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        stem = path.name.removesuffix(".gz")
        end = next((end for end in ends if stem.endswith(end)), None)
        if end is None:
            continue
        there = parts.setdefault(stem.removesuffix(end), {})
        if end in there:
            raise InputError(f"{path}: expected one file, got {there[end].name} too. Remove one of them.")
        there[end] = path
    order = sorted(parts, key=lambda name: (name != "train", name != "valid", name != "test", name))
    return {name: _split(folder, name, parts[name], (source, target)) for name in order}


def _split(folder: Path, name: str, there: Mapping[str, Path], languages: tuple[str, str]) -> Split:
    ends = tuple(f".{language}" for language in languages)
    if not SPLIT.fullmatch(name):
        raise InputError(
            f"{next(iter(there.values()))}: expected a split's name of letters, digits, _ and -, got {name!r}. Rename "
            "the file."
        )
    sides = [end for end in (*ends, ALIGNED) if end in there]
    if sides and TABLE in there:
        named = f"{there[sides[0]].name} and {there[TABLE].name}"
        raise InputError(f"{folder}: expected one form of the split {name}, got {named}. Remove one of them.")
    if sides and (lacking := [end for end in ends if end not in there]):
        raise InputError(f"{folder}: expected {name}{lacking[0]} beside {there[sides[0]].name}, got none. Add it.")
    return Split(name, languages, tuple(there[end] for end in sides or [TABLE]))


def _others(found: Mapping[str, Split]) -> list[str]:
    return [name for name in found if name not in ("train", "valid")]


def content(splits: Mapping[str, list[Pair]]) -> str:
    """SHA-256 of a corpus: names, sentences and gold links of its splits, in order."""
    lines = [Pair(name, checksum(pairs)) for name, pairs in splits.items()]
    return checksum(lines)


def _other_text(expected: str | None, found: str) -> str:
    return (
        f"expected text with SHA-256 {(expected or '')[:12]}…, got {found[:12]}…. The files were changed, or are "
        "others: restore them, or leave data.content out for another experiment."
    )


@lru_cache(maxsize=16)
def _pairs(split: Split, stamp: tuple[tuple[int, int], ...]) -> list[Pair]:
    """Return the pairs of a split; read again only if a file has another stamp.

    Raises:
        InputError: the first of its problems, and how many more there are.
    """
    rows = read(split)
    if rows.problems:
        more = f" (and {len(rows.problems) - 1} more; `study check FOLDER` lists them)" if rows.problems[1:] else ""
        raise InputError(f"{rows.problems[0]}{more}")
    return rows.pairs


def read(split: Split) -> Rows:
    """Return a split from its files, and all that is wrong with them."""
    rows, empty = Rows(), 0
    try:
        lines = list(_lines(split, rows.problems))
    except InputError as problem:  # a file cannot be read at all, or two sides differ in length
        return Rows(problems=[str(problem)])
    for where, source, target, aligned in lines:
        if not source.strip() or not target.strip():
            side = "source" if not source.strip() else "target"
            rows.problems.append(f"{where}: the {side} is empty. Remove the pair.")
            empty += 1
            continue
        try:
            gold = None if aligned is None else links(aligned, source, target)
        except ValueError as problem:
            rows.problems.append(f"{where}: {problem}. Correct the alignment.")
            continue
        rows.pairs.append(Pair(source, target, gold))
    aligned_pairs = sum(pair.alignment is not None for pair in rows.pairs)
    if 0 < aligned_pairs < len(rows.pairs):
        rows.problems.append(
            f"{split.paths[0]}: expected an alignment of every pair or of none, got {aligned_pairs} of "
            f"{len(rows.pairs)}. Add the others."
        )
    return Rows(rows.pairs, rows.problems, empty)


def _lines(split: Split, problems: list[str]) -> Iterator[tuple[str, str, str, str | None]]:
    """Place, source, target and links of every line; lines of another form go to `problems`."""
    first, *others = split.paths
    if others:
        pairs = read_sides(first, others[0])
        gold = _aligned(others[1], len(pairs)) if others[1:] else [None] * len(pairs)
        for number, (pair, aligned) in enumerate(zip(pairs, gold, strict=True), start=1):
            yield f"{first}:{number}", pair.source, pair.target, aligned
        return
    for number, line in enumerate(read_lines(first), start=1):
        cells = line.split("\t")
        if len(cells) in (2, 3):
            yield f"{first}:{number}", cells[0], cells[1], cells[2] if cells[2:] else None
        else:
            what = f"expected 2 or 3 columns with tabs between, got {len(cells)}. Correct the line."
            problems.append(f"{first}:{number}: {what}")


def _aligned(path: Path, count: int) -> list[str]:
    """Return the lines of a file of links.

    Raises:
        InputError: it cannot be read, or has another number of lines.
    """
    found = read_lines(path, blank=True)
    if len(found) != count:
        raise InputError(f"{path}: expected {count} lines, one for each pair, got {len(found)}. Get it again.")
    return found
