"""Table of all runs, one's own and published ones, conditions on it, and the difference of runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from study.analysis.condition import evaluate
from study.config.overrides import flat
from study.errors import InputError
from study.scores.metrics import METRICS
from study.store import rows
from study.store.folder import MODELS, Store

if TYPE_CHECKING:
    import pandas as pd

USUAL = ("model.attention.cross.", "model.attention.joint.", "test/")
"""Beginnings of the column that is meant where several end with a short name."""
FACTS = (
    "parameters", "parameters_attention", "flops_per_token", "train_seconds", "wall_seconds", "tokens_per_second",
    "selected_step", "git_commit", "device",
)  # fmt: skip
"""Columns of `Store.runs` in which runs are compared."""


def table(stores: Sequence[Store]) -> pd.DataFrame:
    """Return `listed` with all columns; the scores stand last.

    Raises:
        InputError: a published table cannot be read.
    """
    import pandas as pd

    runs = pd.DataFrame(listed(stores))
    if runs.empty:
        return pd.DataFrame(columns=["id", "status"])
    scores = sorted(map(str, runs.filter(like="/")))
    return runs[[*runs.columns.drop(scores), *scores]]


def listed(
    stores: Sequence[Store], fields: Sequence[str] = rows.RUN, metrics: Iterable[str] = METRICS
) -> list[dict[str, Any]]:
    """Return a row for each run: one's own, the newest first, then the published ones. No run is listed twice.

    A row has the columns of `Store.runs` (id, status, times, fields of the configuration by dotted name), `sweeps` as
    text with blanks between, `folder`, `model` (True if the trained model is there), and each score of a whole split by
    the name `split/metric`. Records that cannot be read are left out.

    Args:
        stores: the folders.
        fields: columns of `rows.RUN` to read of published runs beside id and started_utc.
        metrics: scores to read.

    Raises:
        InputError: a published table cannot be read.
    """
    by_id: dict[str, dict[str, Any]] = {}
    for store in stores:
        runs = store.run_rows(list(dict.fromkeys(("id", "started_utc", *fields))))
        values = store.whole_scores(metrics)
        models = {path.name.partition(".pt")[0] for path in (store.folder / MODELS).glob("*.pt*")}
        for row in sorted(runs, key=lambda row: (row.get("started_utc") or "", row["id"]), reverse=True):
            identity = row["id"]
            row |= {"sweeps": " ".join(row["sweeps"]), "folder": str(store.folder)}
            row["model"] = identity in models if store.published else store.has_model(identity)
            by_id.setdefault(identity, row | values.get(identity, {}))
    return list(by_id.values())


def short_names(runs: pd.DataFrame) -> dict[str, str]:
    """Return name ↦ column: full names, and last parts (`steps` ↦ `training.steps`) that mean one column.

    Of several, it is that of cross-attention (of joint where no run has that), or of the split test: `scale` ↦
    `model.attention.cross.scale`.
    """
    ending: dict[str, list[str]] = {}
    full: dict[str, str] = {}
    for name in map(str, runs):
        full[name] = name
        ending.setdefault(re.split("[./]", name)[-1], []).append(name)
    short: dict[str, str] = {}
    for end, columns in ending.items():
        usual = [start + end for start in USUAL if start + end in columns][:1] or columns
        if len(usual) == 1:
            short[end] = usual[0]
    return short | full


def query(runs: pd.DataFrame, condition: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the runs that meet a condition of `study.analysis.condition`, and the columns that it names.

    A column is named in backticks, or by its last part; see `short_names`.

    Raises:
        InputError: anything else, or a comparison of a number with a text.
    """
    if runs.empty:
        return runs, []
    names = short_names(runs)
    try:
        fits, columns = evaluate(condition, {name: runs[column] for name, column in names.items()})
    except Exception as problem:  # whatever the parser and pandas raise
        why = " ".join(str(problem).split())[:100] or type(problem).__name__
        wrong = f"expected a condition such as scale == 'none', got {condition!r:.80} ({why})"
        raise InputError(f"--query: {wrong}. See `study ls --help`.") from None
    return runs[fits], list(dict.fromkeys(names[name] for name in columns))


def differences(trees: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row for each field, size, time and score in which runs differ.

    Columns: section (configuration, cost or score), field, one for each name, and of two runs also difference, the
    first number minus the second.

    Args:
        trees: records as plain data, by a name: the id, or the place where two runs have one id.
    """
    import pandas as pd

    table: dict[tuple[str, str], list[Any]] = {}
    for number, tree in enumerate(trees.values()):
        for field, value in _compared(tree):
            table.setdefault(field, [None] * len(trees))[number] = value
    lines: list[list[Any]] = []
    for (section, name), cells in table.items():
        if all(cell == cells[0] for cell in cells):
            continue
        line = [section, name, *cells]
        if len(trees) == 2:
            numbers = section != "configuration" and all(isinstance(cell, int | float) for cell in cells)
            line.append(cells[0] - cells[1] if numbers else None)
        lines.append(line)
    heads = ["section", "field", *trees]
    if len(trees) == 2:
        heads.append("difference")
    return pd.DataFrame(lines, columns=heads, dtype=object)


def _compared(tree: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    """Yield section and name of each field, size, time and score of a record, with its value."""
    for name, value in flat(tree["config"]):
        yield ("configuration", name), value
    facts = rows.run_row(dict(tree))
    for name in FACTS:
        yield ("cost", name), facts.get(name)
    for score in tree["scores"]:
        if score["subset"] is None:
            yield ("score", f"{score['split']}/{score['metric']}"), score["value"]
