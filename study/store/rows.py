"""Rows of the tables that hold runs, taken from records and from the files beside them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

from study.config.overrides import flat
from study.errors import InputError
from study.files import parse_json

Tree = dict[str, Any]
CURVE, CURVE_PREFIX = "training.jsonl", "train/"
"""File of a run with a line for every 20 steps, and how the names of its values begin."""
HYPOTHESES, NLL = ".hyp.txt", ".nll.txt"
"""Files of a run with a line for each sentence of a split."""
FILES = {HYPOTHESES: "translation", NLL: "nll"}
"""Their columns in the table of sentences."""
COUNTS = ("source_words", "exact", "sys_len", "ref_len", "correct1", "correct2", "correct3", "correct4")
"""Further columns, as `study.scores.scoring.counts` computes them."""
SCORED = ("split", "metric", "subset", "value", "n", "signature", "hypotheses", "hypotheses_sha256")
"""Fields of a score, each a column."""


RUN = (
    "id", "arm", "seed", "corpus", "family", "status", "error", "protocol", "config_hash", "schema_version",
    "parameters", "parameters_attention", "flops_per_token", "train_seconds", "wall_seconds", "tokens_per_second",
    "decode_sentences_per_second", "peak_memory_bytes", "selected_rule", "selected_step", "selected_value",
    "git_commit", "git_dirty", "python", "packages", "device", "device_count", "threads", "instructions", "precision",
    "deterministic", "calls", "started_utc", "data_version", "data_files", "config", "sha256",
)  # fmt: skip
"""Columns of the table of runs beside the record itself. `config` is the configuration by dotted name, as JSON."""


def arm_of(identity: str) -> str:
    """`grammar-recurrent-dot-0123abcd-s2` ↦ `grammar-recurrent-dot-0123abcd`."""
    return identity.rpartition("-s")[0]


def seed_of(identity: str) -> int:
    """`grammar-recurrent-dot-0123abcd-s2` ↦ 2; −1 where an id names no seed."""
    seed = identity.rpartition("-s")[2]
    return int(seed) if seed.isdecimal() else -1


def order(identity: str) -> tuple[str, int, str]:
    """Return the place of a run among all: by arm, then by seed."""
    return arm_of(identity), seed_of(identity), identity


def run_row(tree: Tree) -> Tree:
    """Return a record as one row: its facts, and its configuration by dotted name. Lists are JSON."""
    return facts_of(tree) | config_of(tree)


def facts_of(tree: Tree) -> Tree:
    """Return the facts of a record beside its configuration. Lists are JSON."""
    config = dict(flat(tree["config"]))
    row = {"id": tree["id"], "arm": arm_of(tree["id"]), "seed": tree["seed"]}
    row |= {"corpus": config.get("data.name"), "family": config.get("model.family")}
    row |= {name: tree.get(name) for name in ("status", "error", "protocol", "config_hash", "schema_version")}
    for section, prefix in (("model", ""), ("resources", ""), ("selection", "selected_"), ("provenance", "")):
        row |= {prefix + name: value for name, value in (tree.get(section) or {}).items()}
    row |= {f"data_{name}": value for name, value in (tree.get("data") or {}).items() if name in ("version", "files")}
    return {name: _flat(value) for name, value in row.items()}


def config_of(tree: Tree) -> Tree:
    """Return the configuration of a record by dotted name, without its seed and what its facts say."""
    return {name: _flat(value) for name, value in flat(tree["config"]) if name not in ("seed", "protocol")}


def _flat(value: Any) -> Any:
    return compact(value) if isinstance(value, dict | list) else value


def score_rows(tree: Tree) -> list[Tree]:
    """Return a row for each score of a record."""
    run = {"id": tree["id"], "arm": arm_of(tree["id"]), "seed": tree["seed"]}
    return [run | score | {"added": False} for score in tree["scores"]]


def curve_rows(tree: Tree, curve: bytes | None = None) -> Iterator[Tree]:
    """Yield a row for each value of each validation, then of each line of the training curve.

    Args:
        tree: the record.
        curve: content of `training.jsonl`.

    Raises:
        InputError: a line of it is no JSON of a step.
    """
    for point in tree["history"]:
        values = dict(flat(point))
        for name, value in values.items():
            if name != "step" and isinstance(value, int | float | NoneType):
                number = None if value is None else float(value)
                yield {"id": tree["id"], "step": point.get("step"), "name": name, "value": number}
    for line in (curve or b"").splitlines():
        values = parse_json(line, f"{tree['id']}: {CURVE}")
        if not isinstance(values, dict) or "step" not in values:
            raise InputError(f"{tree['id']}: {CURVE}: expected lines with a step, got another. Restore the file.")
        for name, value in values.items():
            if name != "step":
                yield {"id": tree["id"], "step": values["step"], "name": name, "value": value}


def compact(tree: Any) -> str:
    """Return data as JSON on one line, with sorted keys."""
    return json.dumps(tree, sort_keys=True, ensure_ascii=False, allow_nan=False)


def sentence_columns(contents: Mapping[str, bytes], counts: Mapping[str, Sequence[int]]) -> dict[str, list[Any]]:
    """Return the columns of a run's sentences of one split; a shorter column is filled with None.

    Args:
        contents: the files, by their ending.
        counts: the columns of counts that are kept.
    """
    columns: dict[str, list[Any]] = {name: list(values) for name, values in counts.items()}
    for ending, content in contents.items():
        lines = content.decode("utf-8").split("\n")[:-1]
        columns[FILES[ending]] = [float(line) for line in lines] if ending == NLL else lines
    longest = max(map(len, columns.values()), default=0)
    columns_of = {name: columns.get(name, []) for name in ("translation", "nll", *COUNTS)}
    return {name: values + [None] * (longest - len(values)) for name, values in columns_of.items()}


def file_of(ending: str, values: Sequence[Any]) -> bytes | None:
    """Return the file with a value for each sentence, as training wrote it; None if no sentence has one."""
    lines = [f"{value:.7g}" if ending == NLL else value for value in values if value is not None]
    return "".join(f"{line}\n" for line in lines).encode() or None


def curve_file(found: Iterable[Mapping[str, Any]]) -> bytes | None:
    """Return the content of `training.jsonl` from rows of curves; None if they have none of its values."""
    points: dict[int, Tree] = {}
    for row in found:
        if row["name"].startswith(CURVE_PREFIX):
            points.setdefault(row["step"], {"step": row["step"]})[row["name"]] = row["value"]
    return "".join(json.dumps(point) + "\n" for point in points.values()).encode() or None
