"""The tables of `results/`: what they hold, and runs added to them.

    runs/                 a row for each run; `record` is the text of its record, byte for byte
    scores/               a row for each score
    curves/               a row for each value of a training curve or a validation
    maps/                 a row for each file of attention maps, or for each of its lines
    sentences/<corpus>/   a row for each sentence and run, by split, sentence and run
    arms/                 a row for each sweep and run that it declares: the arm in words

A table is a folder of parts, `0001.parquet` and so on: a publication adds one to each and changes none. The part of the
runs comes after those of their scores and sentences, so that an interrupted publication has parts without runs. They do
not count (`Store.parts`), and the next publication writes parts of the same names.

Sentences stand by sentence, not by run, because models translate a sentence alike: so the table is a tenth as large.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from study import files
from study.folders import RUNS
from study.store import records, rows
from study.store.folder import ARMS, CURVES, MAPS, SCORES, SENTENCES, Store, part_name, sha256
from study.store.rows import COUNTS, CURVE, FILES, SCORED, Tree

PAGES = {
    "compression": "zstd", "compression_level": 19, "data_page_size": 2**26, "write_page_checksum": True,
}  # fmt: skip
if pa.cpp_version_info.major >= 23:  # earlier ones limit no page by its rows
    PAGES["max_rows_per_page"] = 2**26
"""Pages as large as can be, since nothing is packed across their borders, each with a checksum that readers compare."""
PART = 100_000
"""Most rows of a part of a table of sentences: a reader of one run holds one part in memory."""


def _schema(*names: str, **kinds: str) -> pa.Schema:
    """Return columns in this order. What has no kind is text."""
    return pa.schema([pa.field(name, kinds.get(name, "string")) for name in names])


WHOLE = (
    "seed", "protocol", "schema_version", "parameters", "parameters_attention", "flops_per_token",
    "peak_memory_bytes", "selected_step", "device_count", "threads", "data_version",
)  # fmt: skip
REAL = ("train_seconds", "wall_seconds", "tokens_per_second", "decode_sentences_per_second", "selected_value")
KINDS = dict.fromkeys(WHOLE, "int64") | dict.fromkeys(REAL, "float64") | {"git_dirty": "bool", "deterministic": "bool"}
RUN_SCHEMA = _schema(*rows.RUN, "record", **KINDS)
"""Every part has these columns, so that a reader of the folder sees the same in all; other columns are text."""
RECORDS = 128
"""Most records of a part that are compressed together: one is read without the others."""
SCORE_SCHEMA = _schema("id", "arm", "seed", *SCORED, "added", seed="int32", value="float64", n="int32", added="bool")
ARM_SCHEMA = _schema("sweep", "id", "label")
CURVE_SCHEMA = _schema("id", "step", "name", "value", step="int32", value="float64")
MAP_SCHEMA = _schema("id", "file", "step", "content", step="int32")
COUNT_KINDS = dict.fromkeys(COUNTS, "int16") | {"exact": "bool"}
SENTENCE_SCHEMA = _schema(
    "split", "sentence", "id", "translation", "nll", *COUNTS, sentence="int32", nll="float32", **COUNT_KINDS
)
SENTENCE_PAGES = {
    "use_dictionary": ["split", "id", *(name for name in COUNTS if name != "exact")],
    "column_encoding": {"nll": "BYTE_STREAM_SPLIT", "sentence": "DELTA_BINARY_PACKED"},
    "write_statistics": ["split", "id", "sentence"],
    **PAGES,
}


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
    """Add runs to the tables of a published folder. Runs that are there already are left as they are.

    Args:
        folder: the folder. No other process may write it meanwhile.
        new: the runs.
        arms: sweep ↦ id ↦ arm in words.

    Raises:
        OSError: the folder cannot be written.
        InputError: a table that is there cannot be read.
    """
    store = Store(folder)
    published = store.facts if store.published and store.parts(RUNS) else {}
    runs = sorted((run for run in new if run.tree["id"] not in published), key=lambda run: rows.order(run.tree["id"]))
    if runs:
        part = part_name(1 + max((int(path.stem) for path in store.parts(RUNS)), default=0))
        for corpus in sorted({str(run.tree["config"]["data"]["name"]) for run in runs}):
            of_corpus = [run for run in runs if run.tree["config"]["data"]["name"] == corpus]
            _write_sentences(folder / SENTENCES / corpus / part, of_corpus)
        scores = [row for run in runs for row in rows.score_rows(run.tree)]
        curves = [row for run in runs for row in rows.curve_rows(run.tree, run.files.get(CURVE))]
        maps = [row for run in runs for row in _map_rows(run)]
        _write(folder / SCORES / part, scores, SCORE_SCHEMA)
        _write(folder / CURVES / part, curves, CURVE_SCHEMA)
        _write(folder / MAPS / part, maps, MAP_SCHEMA)
        _write(folder / RUNS / part, [_run_row(run.tree) for run in runs], RUN_SCHEMA, RECORDS)
    _write_arms(store, arms)


def _run_row(tree: Tree) -> Tree:
    """Return the row of a run in the table of runs."""
    text = records.canonical(tree)
    row = rows.facts_of(tree) | {"config": rows.compact(rows.config_of(tree))}
    return {name: row.get(name) for name in rows.RUN} | {"sha256": sha256(text.encode()), "record": text}


def _write_arms(store: Store, arms: Mapping[str, Mapping[str, str]]) -> None:
    """Add the arms of sweeps that the table of arms does not have."""
    parts = store.parts(ARMS)
    listed = {(row["sweep"], row["id"]) for row in store.table(ARMS).to_pylist()} if parts else set()
    new = [
        {"sweep": sweep, "id": identity, "label": label}
        for sweep, labels in sorted(arms.items())
        for identity, label in sorted(labels.items(), key=lambda item: rows.order(item[0]))
        if (sweep, identity) not in listed
    ]
    if new:
        part = part_name(1 + max((int(path.stem) for path in parts), default=0))
        _write(store.folder / ARMS / part, new, ARM_SCHEMA)


def _map_rows(one: NewRun) -> Iterator[Tree]:
    """Yield a row for each map of a run: files of maps have one, or a line for each validation."""
    for name, content in sorted(one.files.items()):
        run = {"id": one.tree["id"], "file": name}
        if name.endswith(".json"):
            yield run | {"step": None, "content": content.decode()}
        elif name.endswith(".jsonl") and name != CURVE:
            lines = content.decode().splitlines(keepends=True)
            by_step = {json.loads(line)["step"]: line for line in lines}  # a resumed run writes some again
            yield from (run | {"step": step, "content": line} for step, line in by_step.items())


def _write_sentences(path: Path, new: Sequence[NewRun]) -> None:
    """Write the sentences of runs of one corpus, split by split."""
    tables = [SENTENCE_SCHEMA.empty_table()]
    for run in new:
        for split in {name.removesuffix(ending) for name in run.files for ending in FILES if name.endswith(ending)}:
            contents = {ending: run.files[split + ending] for ending in FILES if split + ending in run.files}
            columns = rows.sentence_columns(contents, run.counts.get(split, {}))
            size = len(columns["translation"])
            columns |= {"split": [split] * size, "sentence": list(range(size)), "id": [run.tree["id"]] * size}
            tables.append(pa.table(columns, schema=SENTENCE_SCHEMA))
    table = pa.concat_tables(tables)
    with files.replacing(path) as temporary, pq.ParquetWriter(temporary, SENTENCE_SCHEMA, **SENTENCE_PAGES) as writer:
        for split in sorted(table["split"].unique().to_pylist()):
            of_split = table.filter(pc.equal(table["split"], split))
            of_split = of_split.sort_by([("sentence", "ascending"), ("id", "ascending")])
            writer.write_table(of_split, row_group_size=PART)


def _write(path: Path, content: Sequence[Tree], schema: pa.Schema, together: int | None = None) -> None:
    """Write a part of a table; `together` is how many rows are compressed together (default: all)."""
    table = pa.Table.from_pylist(content, schema=schema)
    repeated = [name for name in schema.names if name not in ("value", "record")]
    with files.replacing(path) as temporary:
        pq.write_table(table, temporary, use_dictionary=repeated, row_group_size=together, **PAGES)
