"""The tables of `results/`: what they hold, and runs added to them.

    runs.parquet                 a row for each run, by arm and seed; `record` is JSON without what other tables hold
    scores.parquet               a row for each score
    curves.parquet               a row for each value of a training curve or a validation
    maps.parquet                 a row for each file of attention maps, or for each of its lines
    sentences/<corpus>.parquet   a row for each sentence and run, by split, sentence and run

Sentences stand by sentence, not by run, because models translate a sentence alike: so the table is a tenth as large.
A table is replaced as a whole, that of the runs last. What others have of a run that it lacks does not count, and
adding the run again replaces it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from study import files
from study.folders import RUNS
from study.store import records, rows
from study.store.folder import CURVES, MAPS, SCORES, SENTENCES, Store, by_run, damaged, sha256
from study.store.rows import COUNTS, CURVE, FILES, SCORED

Tree = dict[str, Any]
PAGES = {"compression": "zstd", "compression_level": 19, "data_page_size": 2**26, "max_rows_per_page": 2**26}
"""Pages as large as can be, since nothing is packed across their borders."""
PART = 100_000
"""Most rows of a part of a table of sentences: a reader of one run holds one part in memory."""
SCORE_SCHEMA = pa.schema(
    [("id", pa.string()), ("arm", pa.string()), ("seed", pa.int32())]
    + [(name, {"value": pa.float64(), "n": pa.int32()}.get(name, pa.string())) for name in SCORED]
    + [("added", pa.bool_())]
)
CURVE_SCHEMA = pa.schema([("id", pa.string()), ("step", pa.int32()), ("name", pa.string()), ("value", pa.float64())])
MAP_SCHEMA = pa.schema([("id", pa.string()), ("file", pa.string()), ("step", pa.int32()), ("content", pa.string())])
SENTENCE_SCHEMA = pa.schema(
    [("split", pa.string()), ("sentence", pa.int32()), ("id", pa.string()), ("translation", pa.string())]
    + [("nll", pa.float32())]
    + [(name, pa.bool_() if name == "exact" else pa.int16()) for name in COUNTS]
)
SENTENCE_PAGES = {
    "use_dictionary": ["split", "id", *(name for name in COUNTS if name != "exact")],
    "column_encoding": {"nll": "BYTE_STREAM_SPLIT", "sentence": "DELTA_BINARY_PACKED"},
    "write_statistics": ["split", "id", "sentence"],
    **PAGES,
}
BY_RUN = {SCORES: SCORE_SCHEMA, CURVES: CURVE_SCHEMA, MAPS: MAP_SCHEMA}


@dataclass(frozen=True)
class NewRun:
    """A run to publish."""

    tree: Tree
    """Its record as plain data."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """The files beside it by name."""
    counts: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    """Split ↦ columns of `rows.COUNTS`: all of them, or which translations are the references."""


def add(folder: Path, new: Sequence[NewRun], arms: Mapping[str, Mapping[str, str]]) -> None:
    """Add runs to the tables of a published folder.

    Args:
        folder: the folder. No other process may write it meanwhile.
        new: runs that are not there, or that replace those that are.
        arms: sweep ↦ id ↦ arm in words, of each sweep whose runs are to be told anew.

    Raises:
        OSError: the folder cannot be written.
        InputError: a table that is there cannot be read.
    """
    store = Store(folder)
    known = {*(store.ids() if store.published else ())} - {one.tree["id"] for one in new}
    if new:
        for corpus in sorted({str(one.tree["config"]["data"]["name"]) for one in new}):
            some = [one for one in new if one.tree["config"]["data"]["name"] == corpus]
            _write_sentences(folder / SENTENCES / f"{corpus}.parquet", known, some)
        made = {
            SCORES: [row for one in new for row in rows.score_rows(one.tree)],
            CURVES: [row for one in new for row in rows.curve_rows(one.tree, one.files.get(CURVE))],
            MAPS: [row for one in new for row in _map_rows(one)],
        }
        for name, schema in BY_RUN.items():
            added = pa.Table.from_pylist(made[name], schema=schema)
            parts = by_run(pa.concat_tables([_kept(folder / name, known, schema), added]))
            by_order = [parts[identity] for identity in sorted(parts, key=rows.order)]
            _write(folder / name, pa.concat_tables([schema.empty_table(), *by_order]))
    _write_runs(folder, new, arms)


def _map_rows(one: NewRun) -> Iterator[Tree]:
    """Yield a row for each map of a run: files of maps have one, or a line for each validation."""
    for name, content in sorted(one.files.items()):
        own = {"id": one.tree["id"], "file": name}
        if name.endswith(".json"):
            yield own | {"step": None, "content": content.decode()}
        elif name.endswith(".jsonl") and name != CURVE:
            lines = content.decode().splitlines(keepends=True)
            by_step = {json.loads(line)["step"]: line for line in lines}  # a resumed run writes some again
            yield from (own | {"step": step, "content": line} for step, line in by_step.items())


def _kept(path: Path, known: Collection[str], schema: pa.Schema) -> pa.Table:
    """Return what a table has of published runs; a file of another schema is refused."""
    if not path.is_file():
        return schema.empty_table()
    try:
        table = pq.read_table(path).cast(schema)
    except (OSError, ValueError, pa.ArrowException) as problem:
        raise damaged(path, problem) from None
    return table.filter(pc.is_in(table["id"], pa.array(known, pa.string())))


def _write_runs(folder: Path, new: Sequence[NewRun], arms: Mapping[str, Mapping[str, str]]) -> None:
    """Write the table of runs."""
    there: dict[str, Tree] = {}
    if (folder / RUNS).is_file():
        columns = ["id", "record", "sha256", "sweeps", "labels"]
        there = {row["id"]: row for row in pq.read_table(folder / RUNS, columns=columns).to_pylist()}
    for one in new:
        rest, _, _ = rows.divided(one.tree)
        digest = sha256(records.canonical(one.tree).encode())
        there[one.tree["id"]] = {"record": rows.compact(rest), "sha256": digest, "sweeps": [], "labels": []}
    found = []
    for identity in sorted(there, key=rows.order):
        row, tree = there[identity], json.loads(there[identity]["record"])
        words = dict(zip(row["sweeps"], row["labels"], strict=True))
        words = {sweep: label for sweep, label in words.items() if sweep not in arms}
        words |= {sweep: labels[identity] for sweep, labels in arms.items() if identity in labels}
        own = {"sweeps": sorted(words), "labels": [words[sweep] for sweep in sorted(words)]}
        found.append({**rows.run_row(tree), **own, "record": row["record"], "sha256": row["sha256"]})
    _write(folder / RUNS, pa.table(_columns(found)))


def _columns(found: Sequence[Tree]) -> dict[str, pa.Array]:
    """Return the columns of rows with their own fields: facts first, the fields of configurations by name."""
    names = dict.fromkeys(name for row in found for name in row if name not in ("record", "sha256"))
    sections = {name.rpartition(".")[0] for name in names}  # a section that a run lacks is null there
    facts = [name for name in names if "." not in name and name not in sections]
    fields = sorted(name for name in names if "." in name and name not in sections)
    return {name: _column([row.get(name) for row in found]) for name in (*facts, *fields, "record", "sha256")}


def _column(values: Sequence[Any]) -> pa.Array:
    """Return a column; one of several types is JSON."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and kinds != {int, float}:
        values = [None if value is None else rows.compact(value) for value in values]
    kind = pa.string() if not kinds else pa.list_(pa.string()) if kinds == {list} else None
    return pa.array(values, kind)


def _write_sentences(path: Path, known: Collection[str], new: Sequence[NewRun]) -> None:
    """Add the sentences of runs to the table of their corpus, split by split."""
    tables = [_kept(path, known, SENTENCE_SCHEMA)]
    for one in new:
        for split in {name.removesuffix(ending) for name in one.files for ending in FILES if name.endswith(ending)}:
            contents = {ending: one.files[split + ending] for ending in FILES if split + ending in one.files}
            columns = rows.sentence_columns(contents, one.counts.get(split, {}))
            size = len(columns["translation"])
            columns |= {"split": [split] * size, "sentence": list(range(size)), "id": [one.tree["id"]] * size}
            tables.append(pa.table(columns, schema=SENTENCE_SCHEMA))
    table = pa.concat_tables(tables)
    with files.replacing(path) as temporary, pq.ParquetWriter(temporary, SENTENCE_SCHEMA, **SENTENCE_PAGES) as writer:
        for split in sorted(table["split"].unique().to_pylist()):
            some = table.filter(pc.equal(table["split"], split))
            some = some.sort_by([("sentence", "ascending"), ("id", "ascending")])
            writer.write_table(some, row_group_size=PART)


def _write(path: Path, table: pa.Table) -> None:
    repeated = [name for name in table.column_names if name != "value"]
    with files.replacing(path) as temporary:
        pq.write_table(table, temporary, use_dictionary=repeated, **PAGES)
