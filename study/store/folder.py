"""Runs of a folder, working or published, found by id.

A working folder has a folder for each run: `<id>/record.json`, `<id>/test.hyp.txt`, `<id>/attention.json`.
A published folder has tables (see `study.store.tables`), and `models/` has the trained models of some of its runs,
`<id>.pt` or in parts `<id>.pt.1`, `<id>.pt.2`.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from study import files
from study.config import plugins
from study.errors import InputError, note
from study.folders import MANIFEST, RUNS, is_results
from study.schema import Count, Section
from study.store import records, rows
from study.store.records import Record
from study.store.rows import CURVE, HYPOTHESES, Tree

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

AnySection = TypeVar("AnySection", bound=Section)
ATTENTION = "attention.json"
VALIDATIONS = "maps.jsonl"
"""Attention maps of one sentence, a line for each validation."""
LARGEST = 2**34
"""Bytes of a model."""
MODEL, MODELS = "model.pt", "models"
"""File of a run's trained model, and the folder of the published ones."""
SCORES, CURVES, MAPS, SENTENCES, ARMS = "scores", "curves", "maps", "sentences", "arms"
"""Tables of a published folder beside that of the runs: folders of parts. `sentences` has such a folder a corpus."""
REPEATED = ("id", "split", "metric", "subset", "signature", "hypotheses_sha256")
"""Columns whose values are kept once in memory."""
CORE = ("id", "corpus", "status", "sha256", "selected_step")
"""Columns of the table of runs that are read to find a run."""
SCORE = ("id", "split", "metric", "subset", "value", "n")
"""Columns of the table of scores that are read for all runs."""


class Store:
    """The runs of a folder. Each table is read once.

    Args:
        folder: a folder of working runs, or `results/`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.published = folder, is_results(folder)
        plugins.learn(folder if self.published else folder.parent)  # users' own mechanisms
        self._records: dict[str, Record] = {}
        self._texts: dict[str, pa.Scalar] = {}
        self._tables: dict[tuple[str, ...], pa.Table] = {}

    def __contains__(self, identity: str) -> bool:
        """Return True if the run has a record."""
        return identity in self.facts if self.published else self._file(identity).is_file()

    def ids(self) -> list[str]:
        """Return the ids of all runs that have a record, sorted.

        Raises:
            InputError: the published table cannot be read.
        """
        return sorted(
            self.facts if self.published else (path.parent.name for path in self.folder.glob("*/record.json"))
        )

    def state(self, identity: str) -> str:
        """State of a run: missing, started, finished, diverged, failed or unreadable, which a line names.

        Raises:
            InputError: a published record cannot be read.
        """
        if identity not in self:
            return records.state(self.folder / identity)
        try:
            return self.record(identity).status
        except InputError as problem:
            if self.published:
                raise
            note(str(problem))
            return "unreadable"

    def where(self, identity: str) -> str:
        """Return the place of a run's record, for messages."""
        return f"{self.folder / RUNS}: {identity}" if self.published else str(self._file(identity))

    def record(self, identity: str) -> Record:
        """Return the record of a run.

        Raises:
            InputError: there is none, or it cannot be read.
        """
        if identity not in self._records:
            path, published = self._file(identity), self.published
            record = records.parse(self.tree(identity), self.where(identity)) if published else records.read(path)
            self._records[identity] = record
        return self._records[identity]

    def check_copy(self, identity: str) -> None:
        """Refuse a record in a renamed folder, such as `ID (2)`, if the folder `ID` has another record.

        Raises:
            InputError: names both files.
        """
        run = self.record(identity).id
        if run != identity and run in self and self.text(run) != self.text(identity):
            problem = f"{self.where(identity)}: expected the record in {self.where(run)}, got another of the same run."
            raise InputError(f"{problem} Move one of the two out of {self.folder}.")

    def tree(self, identity: str) -> Tree:
        """Return a record as plain data.

        Raises:
            InputError: there is none, or it cannot be read.
        """
        if not self.published:
            plugins.learn(self.folder / identity)
        tree: Tree = files.parse_json(self.text(identity), self.where(identity))
        return tree

    def rest(self, identity: str) -> Tree:
        """Return a record as plain data without its scores and its history, which are most of it.

        Raises:
            InputError: there is none, or it cannot be read.
        """
        return {name: value for name, value in self.tree(identity).items() if name not in ("scores", "history")}

    @cached_property
    def facts(self) -> dict[str, Tree]:
        """Id ↦ corpus, status, sha256, tested update and part of every published run. Reads few columns.

        Raises:
            InputError: the table cannot be read.
        """
        facts = {}
        for path in self.parts(RUNS) or [self.folder / RUNS / part_name(1)]:
            columns = self.table(RUNS, CORE, repeated=(), part=path).to_pydict()
            for row in zip(*columns.values(), strict=True):
                facts[row[0]] = dict(zip(CORE, row, strict=True)) | {"part": path}
        return facts

    def text(self, identity: str) -> str:
        """Return the canonical text of a record, byte for byte as the run wrote it.

        Raises:
            InputError: there is none, or it cannot be read.
        """
        if not self.published:
            return files.read_text(self._file(identity), records.LARGEST)
        if identity not in self.facts:
            raise InputError(f"{self.where(identity)}: no such record. `study ls runs` lists all.")
        if identity not in self._texts:
            table = self.table(RUNS, ("id", "record"), identity, part=self.facts[identity]["part"])
            self._texts |= zip(table["id"].to_pylist(), table["record"], strict=True)
        text: str = self._texts[identity].as_py()
        return text

    def content(self, identity: str, name: str) -> bytes | None:
        """Return the bytes of a file beside the record, such as `test.hyp.txt`; None if there is no such file.

        Raises:
            InputError: it cannot be read.
        """
        if self.published:
            return self._published(identity, name) if identity in self else None
        path = self._file(identity).with_name(name)
        return files.read(path, below=path.parent) if path.is_symlink() or path.exists() else None

    def hypotheses(self, identity: str, split: str) -> list[str]:
        """Return the translations of a split, in the order of the corpus.

        Raises:
            InputError: there are none, or they are not UTF-8.
        """
        where = f"{self.where(identity)}: {split}{HYPOTHESES}"
        if (content := self.content(identity, f"{split}{HYPOTHESES}")) is None:
            raise InputError(f"{where}: expected translations, got none. Choose another split or run.")
        try:
            return content.decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as problem:
            raise InputError(f"{where}: expected UTF-8, got another byte at {problem.start}. Restore it.") from None

    def counts(self, identity: str, split: str) -> list[tuple[int, ...]]:
        """Return the counts of each sentence of a split (`rows.COUNTS`); empty if they are not published.

        Raises:
            InputError: the table cannot be read.
        """
        columns = self._lines(identity, split, rows.COUNTS) if self.published else []
        return [line for line in zip(*columns, strict=True) if None not in line]

    def attention(self, identity: str) -> Tree | None:
        """The attention map of a run: source, target, weights (target × source), gold links; None if there is none.

        Raises:
            InputError: it is not what training writes.
        """
        content = self.content(identity, ATTENTION)
        return None if content is None else attention_map(content, f"{self.where(identity)}: {ATTENTION}")

    def learning(self, identity: str) -> list[Tree]:
        """The attention maps of one sentence at each validation of a run, by `step`.

        Raises:
            InputError: there are none, or they are not what training writes.
        """
        where = f"{self.where(identity)}: {VALIDATIONS}"
        if (content := self.content(identity, VALIDATIONS)) is None:
            remedy = f"Older runs have one map alone; `study rerun {identity}` trains the run again and keeps them all."
            raise InputError(f"{where}: expected maps of the validations, got none. {remedy}")
        maps = files.json_lines(content)
        return [{**attention_map(json.dumps(values), where), "step": step} for step, values in maps]

    def model(self, identity: str) -> bytes | None:
        """Return the file of the trained model; None if there is none. Large published files are stored in parts.

        Raises:
            InputError: it cannot be read.
        """
        return b"".join(files.read(path, LARGEST, below=path.parent) for path in self._models(identity)) or None

    def has_model(self, identity: str) -> bool:
        """Return True if the run has its trained model."""
        return bool(self._models(identity))

    @cached_property
    def manifest(self) -> Tree:
        """The manifest of a published folder: what is published, and the SHA-256 of every file."""
        manifest: Tree = files.read_json(self.folder / MANIFEST)
        return manifest

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row a run, by arm and seed: id, its facts, the fields of its configuration by dotted name; no scores.

        `sweeps` and `labels` hold lists: the sweeps that are published with this run, and its arm in each, in words.

        Raises:
            InputError: the table cannot be read. A working record that cannot be read is left out.
        """
        import pandas as pd

        return pd.DataFrame(self.run_rows())

    def run_rows(self, columns: Sequence[str] = rows.RUN) -> list[Tree]:
        """Return the rows of `runs`, without pandas, whose import takes longer than this.

        Args:
            columns: columns of the table of published runs to read; the fields of a run are in `config`.

        Raises:
            InputError: a table cannot be read.
        """
        if not self.published:
            return [{**rows.run_row(tree), "sweeps": [], "labels": []} for tree in self._trees()]
        arms: dict[str, dict[str, str]] = {}
        for row in self.table(ARMS, repeated=()).to_pylist() if self.parts(ARMS) else ():
            arms.setdefault(row["id"], {})[row["sweep"]] = row["label"]
        table: list[Tree] = self.table(RUNS, list(columns), repeated=()).to_pylist()
        table.sort(key=lambda row: rows.order(row["id"]))
        configs = [json.loads(row.pop("config", "{}")) for row in table]
        sections = {
            name.rpartition(".")[0] for name in set().union(*configs)
        }  # a section that a run lacks is null there
        for row, config in zip(table, configs, strict=True):
            labels = dict(sorted(arms.get(row["id"], {}).items()))
            row |= {"sweeps": [*labels], "labels": [*labels.values()]}
            row |= {name: value for name, value in config.items() if name not in sections and name not in row}
        return table

    @cached_property
    def score_table(self) -> pa.Table:
        """The table of `scores` as pyarrow has it: names are kept once, so that they take a tenth of the memory.

        Raises:
            InputError: the table cannot be read. A working record that cannot be read is left out.
        """
        import pyarrow as pa

        if self.published:
            return self.table(SCORES, SCORE)
        return pa.table({name: [row[name] for row in self._score_rows] for name in SCORE})

    @property
    def scores(self) -> pd.DataFrame:
        """One row a score: id, split, metric, subset (null: the whole split), value and n."""
        read: pd.DataFrame = self.score_table.to_pandas()
        return read

    @cached_property
    def _score_rows(self) -> list[dict[str, Any]]:
        """The scores of a working folder."""
        return [row for tree in self._trees() for row in rows.score_rows(tree)]

    @cached_property
    def _score_texts(self) -> dict[str, tuple[list[str | None], Any]]:
        """Published column of texts ↦ its different texts, and the place of each row's text among them."""
        return {name: coded(self.score_table[name]) for name in SCORE[:-2]}

    def scores_of(self, metrics: Iterable[str], split: str | None = None) -> Iterator[tuple[Any, ...]]:
        """Return id, split, metric, subset and value of the scores of these metrics, of one split or (None) of all."""
        import numpy as np

        wanted = {*metrics}
        if not self.published:
            listed = (row for row in self._score_rows if row["metric"] in wanted and split in (None, row["split"]))
            return (tuple(row[name] for name in SCORE[:-1]) for row in listed)
        (splits, split_of), (names, name_of) = self._score_texts["split"], self._score_texts["metric"]
        chosen = np.array([name in wanted for name in names])[name_of]
        if split is not None:
            chosen &= np.array([name == split for name in splits])[split_of]
        places = np.flatnonzero(chosen)
        values = numbers(self.score_table["value"].combine_chunks(), np.nan)[places].tolist()
        columns = [map(texts.__getitem__, at[places].tolist()) for texts, at in self._score_texts.values()]
        return zip(*columns, (None if value != value else value for value in values), strict=True)

    def whole_scores(self, metrics: Iterable[str]) -> dict[str, dict[str, float | None]]:
        """Return id ↦ `split/metric` ↦ value on the whole split, of the metrics that are named."""
        values: dict[str, dict[str, float | None]] = {}
        for identity, split, metric, subset, value in self.scores_of(metrics):
            if subset is None:
                values.setdefault(identity, {}).setdefault(f"{split}/{metric}", value)
        return values

    def score_rows(self, identity: str) -> list[Tree]:
        """Return the scores of a run, those that were added after its record too."""
        if not self.published:
            return rows.score_rows(self.tree(identity))
        scores: list[Tree] = self._part(SCORES, identity).to_pylist()
        return scores

    def curve_rows(self, identity: str) -> list[Tree]:
        """Return the values of a published run's training curve and validations."""
        curves: list[Tree] = self._part(CURVES, identity).to_pylist()
        return curves

    @cached_property
    def curves(self) -> pd.DataFrame:
        """One row a value of a training curve (`train/…`) or of a validation: id, step, name, value.

        Raises:
            InputError: the table cannot be read. A working record that cannot be read is left out.
        """
        import pandas as pd

        if self.published:
            return self.frame(CURVES)
        points = [row for tree in self._trees() for row in rows.curve_rows(tree, self.content(tree["id"], CURVE))]
        return pd.DataFrame(points, columns=["id", "step", "name", "value"])

    def frame(self, name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Read columns (default: all) of a published table, such as `sentences/grammar`.

        Raises:
            InputError: the table cannot be read.
        """
        read: pd.DataFrame = self.table(name, columns, repeated=()).to_pandas()
        return read

    def table(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        first: str | None = None,
        repeated: Sequence[str] = REPEATED,
        part: Path | None = None,
    ) -> pa.Table:
        """Read columns (default: all) of a published table as pyarrow has them.

        Args:
            name: the table.
            columns: its columns.
            first: read no more than the parts in whose first column this text is: a split, or an id of the runs.
            repeated: columns whose values are kept once.
            part: one file of the table (default: all).

        Raises:
            InputError: the table cannot be read.
        """
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())  # gives back what a read has taken: half of the memory of a command
        paths = [part] if part else self.parts(name) or [self.folder / name / part_name(1)]
        parts = [files.read_parquet(path, columns, first, self.folder, repeated) for path in paths]
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts).unify_dictionaries()

    def parts(self, name: str) -> list[Path]:
        """Return the files of a published table, in the order in which they were published.

        A publication that was interrupted has left parts whose runs are not there: they do not count.
        """
        paths = sorted((self.folder / name).glob("*.parquet"))
        last = max((path.name for path in (self.folder / RUNS).glob("*.parquet")), default="")
        return paths if name == ARMS else [path for path in paths if path.name <= last]

    def _trees(self) -> Iterator[Tree]:
        """Yield the records of a working folder as data.

        Left out are those that cannot be read, which a line names, and those whose folder has been renamed.

        Raises:
            InputError: see `check_copy`.
        """
        for identity in sorted(self.ids(), key=rows.order):
            if self.state(identity) != "unreadable":
                self.check_copy(identity)
                if (record := self.record(identity)).id == identity:
                    yield record.model_dump(mode="json")

    def _file(self, identity: str) -> Path:
        return self.folder / identity / "record.json"

    def _models(self, identity: str) -> list[Path]:
        folder, name = (MODELS, f"{identity}.pt*") if self.published else (identity, MODEL)
        return sorted((self.folder / folder).glob(name))

    def _published(self, identity: str, name: str) -> bytes | None:
        """Return a file of a published run, made from the rows of a table."""
        if kind := next((kind for kind in rows.FILES if name.endswith(kind)), None):
            (values,) = self._lines(identity, name.removesuffix(kind), (rows.FILES[kind],))
            return rows.file_of(kind, values)
        if name == CURVE:
            return rows.curve_file(self.curve_rows(identity))
        maps = self._part(MAPS, identity).to_pylist()
        return "".join(row["content"] for row in maps if row["file"] == name).encode() or None

    def _lines(self, identity: str, split: str, columns: tuple[str, ...]) -> list[list[Any]]:
        """Return a run's columns of a split, by sentence. Those of another corpus are kept no longer."""
        name = f"{SENTENCES}/{self.facts[identity]['corpus']}"
        others = [key for key in self._tables if key[0].startswith(SENTENCES) and key[0] != name]
        for key in others:
            del self._tables[key]
        lines = self._part(name, identity, split, columns)
        return [lines[column].to_pylist() for column in columns]

    def _part(self, name: str, identity: str, split: str | None = None, columns: tuple[str, ...] = ()) -> pa.Table:
        """Return a run's rows of a table. If a second run is asked for, the table of all runs is kept and divided."""
        key = (name, split or "", *columns)
        chosen = ["id", *columns] if columns else None
        if key not in self._tables:
            self._tables[key] = self.table(name, chosen, split or identity)
            return rows_with(self._tables[key], "id", identity)
        if not isinstance(self._tables[key], dict):
            self._tables[key] = divided(self._tables[key] if split else self.table(name, chosen), "id")
        return self._tables[key][identity]


def part_name(number: int) -> str:
    """Return the name of a part of a table: 1 ↦ `0001.parquet`."""
    return f"{number:04}.parquet"


def rows_with(table: pa.Table, column: str, text: str) -> pa.Table:
    """Return the rows that have a text in a column, a slice for each sequence of such rows.

    Arrow's own filter imports pyarrow.compute, and pandas to convert the text. Both take longer than this.
    """
    import numpy as np
    import pyarrow as pa

    texts, places = coded(table[column])
    fits = np.flatnonzero(np.array([known == text for known in texts])[places])
    slices = [table.slice(at[0], len(at)) for at in np.split(fits, np.flatnonzero(np.diff(fits) > 1) + 1) if len(at)]
    return pa.concat_tables(slices or [table.slice(0, 0)])


def coded(column: pa.ChunkedArray) -> tuple[list[Any], Any]:
    """Return the different texts of a column, then None, and for each row the place of its text among them."""
    array = column.combine_chunks()
    if not hasattr(array, "dictionary"):
        array = array.dictionary_encode()
    return [*array.dictionary.to_pylist(), None], numbers(array.indices, -1)


def numbers(array: pa.Array, null: float) -> Any:
    """Return numbers of pyarrow as those of numpy, and another number for null. Arrow itself would import pandas."""
    import numpy as np

    valid, content = array.buffers()
    values = np.frombuffer(content or b"", array.type.to_pandas_dtype())[array.offset :][: len(array)]
    if valid is None:
        return values
    bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[array.offset :][: len(array)]
    return np.where(bits, values, values.dtype.type(null))


def divided(table: pa.Table, column: str) -> defaultdict[str, pa.Table]:
    """Return the rows that have each text of a column, in their order; all are parts of one table."""
    import numpy as np
    import pyarrow.compute as pc

    texts = table[column].combine_chunks().dictionary_encode()
    names = texts.dictionary.to_pylist()
    table = table.combine_chunks().take(pc.array_sort_indices(texts.indices))  # a stable order
    ends = np.cumsum(np.bincount(np.from_dlpack(texts.indices), minlength=len(names))).tolist()
    parts: defaultdict[str, pa.Table] = defaultdict(lambda: table.slice(0, 0))
    for name, low, high in zip(names, [0, *ends], ends, strict=False):
        parts[name] = table.slice(low, high - low)
    return parts


def damaged(path: Path, problem: object) -> InputError:
    """Return the error for a published table that cannot be read."""
    text = " ".join(str(problem).split())[:100]
    return InputError(f"{path}: expected a table of runs, got something else ({text}). Restore the file.")


class AttentionMap(BaseModel):
    """Weights of one head, target × source."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    site: str
    layer: int
    head: int | None
    source: list[str]
    target: list[str] = Field(min_length=1)
    weights: list[list[float]]
    gold: list[Annotated[list[Count], Field(min_length=2, max_length=2)]] | None = None
    text: dict[str, str] | None = None

    @model_validator(mode="after")
    def _check_sizes(self) -> AttentionMap:
        rows, columns = len(self.target), len(self.source)
        if len(self.weights) != rows or any(len(row) != columns for row in self.weights):
            raise ValueError("weights: another size")
        if any(s >= columns or t >= rows for s, t in self.gold or ()):
            raise ValueError("gold: another word")
        return self


def attention_map(content: str | bytes, where: str) -> Tree:
    """Return the attention map in a file's content, checked: types, sizes, and links within them.

    Raises:
        InputError: it is not what training writes; `where` begins the line.
    """
    try:
        attention: Tree = AttentionMap.model_validate_json(content).model_dump(exclude_unset=True)
    except ValidationError:
        shape = "expected source, target, weights of their sizes and gold links, got others"
        raise InputError(f"{where}: {shape}. Restore the file.") from None
    return attention


def sha256(content: bytes) -> str:
    """Return the SHA-256 in hexadecimals."""
    return hashlib.sha256(content).hexdigest()


def read_section(kind: type[AnySection], path: Path, mend: str) -> AnySection:
    """Read a published JSON file of one kind.

    Raises:
        InputError: it cannot be read or is none of this kind; with the field, and how to `mend` it.
    """
    try:
        return kind.model_validate_json(files.read_text(path, below=path.parent))
    except ValidationError as error:
        raise InputError(f"{path}: {records.first_error(error)}. {mend}") from None
