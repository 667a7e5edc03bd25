"""Records and the files beside them, working or published, found by the run's id.

A working folder has a folder for each run: `<id>/record.json`, `<id>/test.hyp.txt`, `<id>/attention.json`.
A published folder has two files for each arm, which is an id without its seed:

    <arm>.json      list of the arm's records by seed; one line for each score and each validation
    <arm>.tar.xz    the other files of these runs, each named `<id>.<name>`

Beside it, `supplement.csv` has scores of subsets that older records lack, and `models/` has the trained models of some
published runs, `<id>.pt` or in parts `<id>.pt.1`, `<id>.pt.2`.

The published text of a record is not that of the working file, so its SHA-256 is taken of `records.canonical`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import lzma
import os
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

from filelock import lock_descriptor
from pydantic import ValidationError

from study import files, records
from study.config import plugins
from study.errors import InputError
from study.records import Record, Section

AnySection = TypeVar("AnySection", bound=Section)
HYPOTHESES, STATISTICS, ATTENTION = ".hyp.txt", ".bleu.tsv", "attention.json"
ARCHIVE = ".tar.xz"
MODEL, MODELS = "model.pt", "models"
"""File of a run's trained model, and the folder of the published ones."""
SUPPLEMENT, SUPPLEMENTED = "supplement.csv", ("bleu", "exact")
"""File with scores of subsets that published records lack, and which scores."""
DAMAGED = (OSError, EOFError, lzma.LZMAError, tarfile.TarError)


@dataclass(frozen=True)
class NewRun:
    """A run to publish: its record as plain data, and the files beside it by name."""

    tree: dict[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)


class Store:
    """The runs of a folder. Each file is read once.

    Args:
        folder: a folder of working runs, `results/`, or `results/runs/`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "runs" if is_results(folder) else folder
        plugins.learn(self.folder.parent)  # mechanisms of users' own that were published with their runs
        self._records: dict[str, Record | InputError] = {}
        self._arms: dict[str, list[str]] = {}
        """Arm ↦ its ids, of the arms that were read."""
        self._trees: tuple[str, dict[str, Any]] = "", {}
        """The last arm that was read, and its records as plain data."""
        self._files: tuple[str, dict[str, bytes]] = "", {}
        """The last archive that was read."""

    def __contains__(self, identity: str) -> bool:
        """Return True if the run has a record."""
        return self._working(identity).is_file() or identity in self._published(arm_of(identity))

    def arms(self) -> list[str]:
        """Return the published arms, sorted."""
        return sorted(path.stem for path in self.folder.glob("[!.]*.json"))

    def ids(self, arm: str | None = None) -> list[str]:
        """Return the ids of all runs that have a record, sorted; with `arm`, of its published runs.

        Raises:
            InputError: a published file cannot be read.
        """
        if arm is not None:
            return list(self._published(arm))
        return sorted({*self.working()}.union(*map(self._published, self.arms())))

    def working(self) -> list[str]:
        """Return the ids of the runs that have a folder and a record, sorted."""
        return sorted(path.parent.name for path in self.folder.glob("*/record.json"))

    def state(self, identity: str) -> str:
        """State of a run: missing, started, finished, diverged or failed.

        Raises:
            InputError: its record cannot be read.
        """
        return self.record(identity).status if identity in self else records.state(self.folder / identity)

    def where(self, identity: str) -> str:
        """Return the place of a run's record, for messages."""
        path = self._working(identity)
        arm = self.folder / f"{arm_of(identity)}.json"
        return f"{arm}: {identity}" if arm.is_file() and not path.is_file() else str(path)

    def record(self, identity: str) -> Record:
        """Return the record of a run.

        Raises:
            InputError: there is none, or it cannot be read.
        """
        if identity not in self._records and identity in self._published(arm_of(identity)):
            for name, tree in self._read_arm(arm_of(identity)).items():  # all at once: they are in one file
                self._records.setdefault(name, self._parse(name, tree))
        found = self._records.get(identity)
        if isinstance(found, InputError):
            raise found
        if found is None:
            found = self._records[identity] = records.read(self._working(identity))
        return found

    def supplemented(self, identity: str) -> Record:
        """Return the record of a run with the scores of subsets that it lacks.

        Raises:
            InputError: see `record`, or the file of these scores is damaged.
        """
        record = self.record(identity)
        try:
            extra = [
                whole.model_copy(
                    update={"subset": row["subset"], "n": int(row["n"]), "value": float(row[whole.metric])}
                )
                for row in self._supplement.get(identity, [])
                for whole in record.scores
                if whole.split == row["split"] and whole.subset is None and whole.metric in SUPPLEMENTED
            ]
        except (KeyError, TypeError, ValueError) as problem:
            raise InputError(
                f"{self.folder.parent / SUPPLEMENT}: {identity}: expected numbers, got others ({problem}). Remove the "
                "file and run `study reproduce`."
            ) from None
        return record.model_copy(update={"scores": [*record.scores, *extra]}) if extra else record

    @cached_property
    def _supplement(self) -> dict[str, list[dict[str, str]]]:
        path = self.folder.parent / SUPPLEMENT
        found: dict[str, list[dict[str, str]]] = {}
        if path.is_file():
            for row in csv.DictReader(path.read_text(encoding="utf-8", errors="replace").splitlines()):
                found.setdefault(row.get("id", ""), []).append(row)
        return found

    def text(self, identity: str) -> str:
        """Return the canonical text of a record, byte for byte as the run wrote it.

        Raises:
            InputError: there is none, or it cannot be read.
        """
        path = self._working(identity)
        if path.is_file():
            return records.read_text(path)
        trees = self._read_arm(arm_of(identity))
        if identity not in trees:
            raise InputError(f"{self.where(identity)}: no such record. `study runs` lists all.")
        return records.canonical(trees[identity])

    def names(self, identity: str) -> list[str]:
        """The names of the files beside a published record, sorted."""
        archive = self._read_archive(arm_of(identity))
        return sorted(name.removeprefix(f"{identity}.") for name in archive if name.startswith(f"{identity}."))

    def foreign(self, arm: str) -> list[str]:
        """Return the names in a published arm's archive that are of no run of the arm, sorted.

        Raises:
            InputError: the archive cannot be read.
        """
        known = tuple(f"{identity}." for identity in self._published(arm))
        return sorted(name for name in self._read_archive(arm) if not name.startswith(known))

    def content(self, identity: str, name: str) -> bytes | None:
        """Return the bytes of a file beside the record, such as `test.hyp.txt`; None if there is no such file.

        Raises:
            InputError: it cannot be read.
        """
        path = self._working(identity)
        if not path.is_file() and identity in self._published(arm_of(identity)):
            return self._read_archive(arm_of(identity)).get(f"{identity}.{name}")
        path = path.with_name(name)
        try:
            return path.read_bytes() if path.is_file() else None
        except OSError as problem:
            raise InputError(f"{path}: cannot be read ({problem.strerror}). Check the file and your rights.") from None

    def hypotheses(self, identity: str, split: str) -> list[str]:
        """Return the translations of a split, in the order of the corpus.

        Raises:
            InputError: there are none, or they are not UTF-8.
        """
        content = self.content(identity, f"{split}{HYPOTHESES}")
        if content is None:
            raise InputError(f"{self.where(identity)}: expected the translations {split}{HYPOTHESES}, got none.")
        try:
            return content.decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as problem:
            raise InputError(
                f"{self.where(identity)}: {split}{HYPOTHESES}: expected UTF-8, got another byte at {problem.start}."
            ) from None

    def attention(self, identity: str) -> dict[str, Any] | None:
        """The attention map of a run: source, target, weights (target × source), gold links; None if there is none.

        Raises:
            InputError: it is not what training writes.
        """
        content = self.content(identity, ATTENTION)
        return None if content is None else attention_map(content, f"{self.where(identity)}: {ATTENTION}")

    def model(self, identity: str) -> bytes | None:
        """Return the file of the trained model; None if there is none. Large published files are stored in parts.

        Raises:
            InputError: it cannot be read.
        """
        working = self._working(identity).with_name(MODEL)
        published = [] if working.is_file() else sorted((self.folder.parent / MODELS).glob(f"{identity}.pt*"))
        paths = [working] if working.is_file() else published
        try:
            return b"".join(path.read_bytes() for path in paths) if paths else None
        except OSError as problem:
            raise InputError(
                f"{paths[0]}: cannot be read ({problem.strerror}). Check the file and your rights."
            ) from None

    def has_model(self, identity: str) -> bool:
        """Return True if the run has its trained model."""
        working = self._working(identity)
        published = (self.folder.parent / MODELS).glob(f"{identity}.pt*")
        return working.with_name(MODEL).is_file() or (not working.is_file() and any(published))

    def digests(self, identity: str) -> dict[str, str]:
        """SHA-256 of the canonical record (`<id>.json`) and, if there is one, of the attention map.

        No translation gives NLL, diagnostics and learning curves again; these hashes guard them.
        """
        found = {"json": self.text(identity).encode(), ATTENTION: self.content(identity, ATTENTION)}
        return {f"{identity}.{name}": sha256(content) for name, content in found.items() if content is not None}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process alone. Another process that publishes waits."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            lock_descriptor(descriptor)
            yield
        finally:
            os.close(descriptor)

    def add(self, arm: str, runs: Iterable[NewRun]) -> None:
        """Add runs to a published arm. What is there of other runs stays; the archive is written before the records.

        Raises:
            OSError: the folder cannot be written.
            InputError: what is there cannot be read.
        """
        runs = list(runs)
        present = (self.folder / f"{arm}.json").is_file()
        trees = dict(self._read_arm(arm)) if present else {}
        archive = dict(self._read_archive(arm)) if present else {}
        for run in runs:
            trees[run.tree["id"]] = run.tree
            archive |= {f"{run.tree['id']}.{name}": content for name, content in run.files.items()}
        if archive:
            files.write(self.folder / f"{arm}{ARCHIVE}", _packed(archive))
        in_order = sorted(trees.values(), key=lambda tree: seed_of(tree["id"]))
        text = "[\n" + ",\n".join(map(_laid_out, in_order)) + "\n]\n"
        files.write(self.folder / f"{arm}.json", text)
        self._trees, self._files = ("", {}), ("", {})
        self._arms.pop(arm, None)

    def _working(self, identity: str) -> Path:
        return self.folder / identity / "record.json"

    def _published(self, arm: str) -> list[str]:
        if arm not in self._arms:
            self._arms[arm] = list(self._read_arm(arm)) if (self.folder / f"{arm}.json").is_file() else []
        return self._arms[arm]

    def _read_arm(self, arm: str) -> dict[str, Any]:
        if self._trees[0] != arm:
            path = self.folder / f"{arm}.json"
            trees = records.read_json(path)
            ids = [tree.get("id") for tree in (trees if isinstance(trees, list) else []) if isinstance(tree, dict)]
            fits = isinstance(trees, list) and 0 < len(trees) == len(ids)
            if not fits or any(not isinstance(one, str) or arm_of(one) != arm for one in ids) or len({*ids}) < len(ids):
                raise InputError(
                    f"{path}: expected a list of records, each with an id {arm}-s<seed>, got others. Restore the file."
                )
            self._trees = arm, {tree["id"]: tree for tree in trees}
        return self._trees[1]

    def _parse(self, identity: str, tree: Any) -> Record | InputError:
        try:
            return records.parse(tree, self.where(identity))
        except InputError as problem:
            return problem

    def _read_archive(self, arm: str) -> dict[str, bytes]:
        if self._files[0] != arm:
            path = self.folder / f"{arm}{ARCHIVE}"
            try:
                self._files = arm, _unpacked(path) if path.is_file() else {}
            except DAMAGED as problem:
                raise InputError(
                    f"{path}: expected an archive, got something else ({problem}). Restore the file."
                ) from None
        return self._files[1]


def runs_folder(given: str | Path | None = None) -> Path:
    """Return the folder of the runs: the one given, else $STUDY_RUNS, else runs.

    Raises:
        InputError: it is no name of a folder.
    """
    name, text = ("--runs", given) if given is not None else ("STUDY_RUNS", os.environ.get("STUDY_RUNS") or "runs")
    try:
        return files.local(str(text))
    except ValueError as problem:
        raise InputError(f"{name}: {problem}.") from None


def attention_map(content: bytes, where: str) -> dict[str, Any]:
    """Return the attention map in a file's content, checked: types, sizes, and links within them.

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
            f"{where}: expected source, target, weights of their sizes and gold links, got others. Restore the file."
        )
    return {
        **tree,
        "weights": [[float(weight) for weight in row] for row in tree["weights"]],
    }  # JSON has large integers


def arm_of(identity: str) -> str:
    """`grammar-recurrent-dot-0123abcd-s2` ↦ `grammar-recurrent-dot-0123abcd`."""
    return identity.rpartition("-s")[0]


def seed_of(identity: str) -> int:
    """`grammar-recurrent-dot-0123abcd-s2` ↦ 2; −1 where an id names no seed."""
    seed = identity.rpartition("-s")[2]
    return int(seed) if seed.isdecimal() else -1


def sha256(content: bytes) -> str:
    """Return the SHA-256 in hexadecimals."""
    return hashlib.sha256(content).hexdigest()


def is_results(folder: Path) -> bool:
    """Return True if this is a folder of published results rather than of runs."""
    return (folder / "sweeps").is_dir() and (folder / "runs").is_dir()


def _laid_out(tree: dict[str, Any]) -> str:
    """Return a record as JSON: a line for each field, and in lists and sections a line for each item."""
    lines = []
    for name, value in sorted(tree.items()):
        if isinstance(value, dict | list) and any(isinstance(v, dict | list) for v in _values(value)):
            items = (
                [f"{_compact(k)}: {_compact(v)}" for k, v in sorted(value.items())] if isinstance(value, dict) else []
            )
            items = items or [_compact(item) for item in value]
            opening, closing = "{}" if isinstance(value, dict) else "[]"
            lines.append(f" {_compact(name)}: {opening}\n  " + ",\n  ".join(items) + f"\n {closing}")
        else:
            lines.append(f" {_compact(name)}: {_compact(value)}")
    return "{\n" + ",\n".join(lines) + "\n}"


def _values(section: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return section.values() if isinstance(section, dict) else section


def _compact(tree: Any) -> str:
    return json.dumps(tree, sort_keys=True, ensure_ascii=False, allow_nan=False)


def _packed(files: Mapping[str, bytes]) -> bytes:
    """Return a compressed tar of these files. A split of all seeds stands together: most of its sentences are alike."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in sorted(files, key=_place):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            tar.addfile(entry, io.BytesIO(files[name]))
    return lzma.compress(buffer.getvalue())


def _place(name: str) -> tuple[str, int]:
    identity, _, rest = name.partition(".")
    return rest, seed_of(identity)


def _unpacked(path: Path) -> dict[str, bytes]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(path.read_bytes()))) as tar:
        for entry in tar:
            if entry.isfile() and (content := tar.extractfile(entry)):
                found[entry.name] = content.read()
    return found


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
        raise InputError(f"{path}: {where}: {first['msg']}. {mend}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path}: cannot be read ({problem}). {mend}") from None
