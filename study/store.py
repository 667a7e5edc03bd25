"""Records and the files beside them, working or published, found by the run's id.

A working folder has one folder for each run: `<id>/record.json`, `<id>/test.hyp.txt`, `<id>/attention.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

from pydantic import ValidationError

from study import records
from study.errors import InputError
from study.records import Record, Section

AnySection = TypeVar("AnySection", bound=Section)
HYPOTHESES, STATISTICS, ATTENTION = ".hyp.txt", ".bleu.tsv", "attention.json"


class Store:
    """The runs of a folder. Each record is read once.

    Args:
        folder: a folder of working runs, `results/`, or `results/runs/`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "runs" if is_results(folder) else folder
        self._records: dict[str, Record] = {}

    def __contains__(self, identity: str) -> bool:
        """Whether the run has a record."""
        return self._path(identity) is not None

    def ids(self) -> list[str]:
        """The ids of all runs that have a record, sorted."""
        found = {path.parent.name for path in self.folder.glob("*/record.json")}
        found |= {p.stem for p in self.folder.glob("[!.]*.json") if not p.name.endswith(f".{ATTENTION}")}
        return sorted(found)

    def state(self, identity: str) -> str:
        """State of a run: missing, started, finished, diverged or failed.

        Raises:
            InputError: its record cannot be read.
        """
        return self.record(identity).status if identity in self else records.state(self.folder / identity)

    def where(self, identity: str) -> str:
        """The place of a run's record, for messages."""
        return str(self._path(identity) or self.folder / identity / "record.json")

    def record(self, identity: str) -> Record:
        """The record of a run.

        Raises:
            InputError: there is none, or it cannot be read.
        """
        if identity not in self._records:
            self._records[identity] = records.read(Path(self.where(identity)))
        return self._records[identity]

    def content(self, identity: str, name: str) -> bytes | None:
        """The bytes of a file beside the record, such as `test.hyp.txt`; None if there is no such file.

        Raises:
            InputError: it cannot be read.
        """
        path = self._path(identity) or self.folder / identity / "record.json"
        path = path.with_name(name if path.name == "record.json" else f"{path.stem}.{name}")
        try:
            return path.read_bytes() if path.is_file() else None
        except OSError as problem:
            raise InputError(f"{path}: cannot be read ({problem.strerror}); mend that") from None

    def hypotheses(self, identity: str, split: str) -> list[str]:
        """The translations of a split, in the order of the corpus.

        Raises:
            InputError: there are none, or they are not UTF-8.
        """
        content = self.content(identity, f"{split}{HYPOTHESES}")
        if content is None:
            raise InputError(f"{self.where(identity)}: no translations of {split}; expected {split}{HYPOTHESES}")
        try:
            return content.decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as problem:
            raise InputError(f"{self.where(identity)}: {split}{HYPOTHESES}: not UTF-8 ({problem.reason})") from None

    def attention(self, identity: str) -> dict[str, Any] | None:
        """The attention map of a run: source, target, weights (target × source), gold links; None if there is none.

        Raises:
            InputError: it is not what training writes.
        """
        content = self.content(identity, ATTENTION)
        return None if content is None else attention_map(content, f"{self.where(identity)}: {ATTENTION}")

    def _path(self, identity: str) -> Path | None:
        places = (self.folder / identity / "record.json", self.folder / f"{identity}.json")
        return next((path for path in places if path.is_file()), None)


def is_results(folder: Path) -> bool:
    """Whether this is a folder of published results, and not one of runs."""
    return (folder / "sweeps").is_dir() and (folder / "runs").is_dir()


def attention_map(content: bytes, where: str) -> dict[str, Any]:
    """The attention map in a file's content, checked: types, sizes, and links within them.

    Raises:
        InputError: it is not what training writes; `where` begins the line.
    """
    try:
        tree = json.loads(content)
        source, target = tree["source"], tree["target"]
        rows = [row for row in tree["weights"] if len(row) == len(source)]
        fits = len(rows) == len(tree["weights"]) == len(target) > 0
        fits = fits and all(type(token) is str for token in (*source, *target))
        fits = fits and all(type(w) in (int, float) and abs(w) < sys.float_info.max for row in rows for w in row)
        links = tree.get("gold") or []
        fits = fits and all(
            type(s) is type(t) is int and 0 <= s < len(source) and 0 <= t < len(target) for s, t in links
        )
        fits = (
            fits and type(tree["site"]) is str and type(tree["layer"]) is int and type(tree["head"]) in (int, NoneType)
        )
        fits = fits and all(type(text) is str for text in (tree.get("text") or {}).values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        fits = False
    if not fits:
        raise InputError(
            f"{where}: expected source, target, weights of their sizes and gold links; restore the file, or remove it"
        )
    return dict(tree)


def read_section(kind: type[AnySection], path: Path, mend: str) -> AnySection:
    """Read a published JSON file of one kind.

    Raises:
        InputError: it cannot be read or is none of this kind; with the field, and how to `mend` it.
    """
    try:
        return kind.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "top level"
        raise InputError(f"{path}: {where}: {first['msg']}; {mend}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path}: cannot be read ({problem}); {mend}") from None
