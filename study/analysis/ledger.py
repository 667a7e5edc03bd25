"""Table of all runs, one's own and published ones, conditions on it, and the difference of runs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from study import rows
from study.config.overrides import flat
from study.errors import InputError
from study.metrics import METRICS
from study.store import MODELS, RUNS, Store

if TYPE_CHECKING:
    import pandas as pd

WORD = re.compile(r"`(?P<column>[^`]*)`|\"[^\"]*\"|'[^']*'|\.\s*(?P<method>[^\W\d]\w*)|(?<![\w.])(?P<name>[^\W\d]\w*)")
"""Word of a condition: a column in backticks, a text, a method after a point, or a name."""
OPERATORS = {"and", "or", "not", "in", "True", "False"}
METHODS = {"str", "contains", "startswith", "isin", "between", "isna", "notna", "abs"}
"""Methods that a condition may call. None of them writes a file or runs code."""
USUAL = ("model.attention.cross.", "test/")
"""Beginnings of the column that is meant where several end with a short name."""
FACTS: tuple[str, ...] = (
    "parameters",
    "parameters_attention",
    "flops_per_token",
    "train_seconds",
    "wall_seconds",
    "tokens_per_second",
)
FACTS += ("selected_step", "git_commit", "device")


def table(
    stores: Sequence[Store], fields: Sequence[str] | None = None, metrics: Iterable[str] = METRICS
) -> pd.DataFrame:
    """Return one row for each run: one's own, the newest first, then the published ones. No run is listed twice.

    Columns are those of `Store.runs` (id, status, times, fields of the configuration by dotted name), `sweeps` as text
    with blanks between, `folder`, `model` (True if the trained model is there), and each score of a whole split by the
    name `split/metric`. Records that cannot be read are left out.

    Args:
        stores: the folders.
        fields: columns of `Store.runs` to read beside id, started_utc and sweeps (default: all).
        metrics: scores to read.

    Raises:
        InputError: a published table cannot be read.
    """
    import pandas as pd
    import pyarrow.compute as pc

    parts: list[pd.DataFrame] = []
    for store in stores:
        if not store.published:
            found, scores = _working(store)
        else:
            some = fields and ["id", "started_utc", "sweeps", *fields]
            found = store.frame(RUNS, some) if some else store.runs
            whole = store.score_table.filter(pc.field("subset").is_null() & pc.field("metric").isin(list(metrics)))
            scores = whole.select(["id", "split", "metric", "value"]).to_pandas()
        if found.empty:
            continue
        names = scores["split"].astype(str) + "/" + scores["metric"].astype(str)
        wide = {name: group.set_index("id")["value"] for name, group in scores.groupby(names)}
        made: dict[str, Any] = {"sweeps": found["sweeps"].map(" ".join), "folder": str(store.folder)}
        models = {path.name.partition(".pt")[0] for path in (store.folder / MODELS).glob("*.pt*")}
        made["model"] = found["id"].isin(models) if store.published else found["id"].map(store.has_model)
        found = found.assign(**made).join(pd.DataFrame(wide), on="id")
        listed = {identity for part in parts for identity in part["id"]}
        parts.append(found[~found["id"].isin(listed)].sort_values(["started_utc", "id"], ascending=False))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["id", "status"])


def _working(store: Store) -> tuple[pd.DataFrame, pd.DataFrame]:
    import pandas as pd

    trees = []
    for identity in store.ids():
        with suppress(InputError):
            trees.append(store.record(identity).model_dump(mode="json"))
    scores = [row for tree in trees for row in rows.score_rows(tree) if row["subset"] is None]
    runs = pd.DataFrame([{"started_utc": "", **rows.run_row(tree), "sweeps": []} for tree in trees])
    return runs, pd.DataFrame(scores, columns=["id", "split", "metric", "value"])


def column(runs: pd.DataFrame, name: str) -> str:
    """Return the column of a name, or the one that ends with it: `steps` ↦ `training.steps`.

    Of several, it is that of cross-attention, or of the split test: `scale` ↦ `model.attention.cross.scale`.

    Raises:
        InputError: there is none, or several.
    """
    known = list(map(str, runs))
    if name in known:
        return name
    found = [one for one in known if one.endswith((f".{name}", f"/{name}"))]
    found = [one for one in found if one in [f"{start}{name}" for start in USUAL]] or found
    if len(found) == 1:
        return found[0]
    near = found or difflib.get_close_matches(name, [*known, *(re.split("[./]", one)[-1] for one in known)])
    hint = f" The nearest: {', '.join(list(dict.fromkeys(near))[:4])}." if near else ""
    got = "several" if found else "no such name"
    raise InputError(f"{name}: expected a column of the runs, got {got}.{hint} `study ls runs --csv` prints all.")


def query(runs: pd.DataFrame, condition: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the runs that meet a condition as `DataFrame.query` takes it, and the columns that it names.

    A column with a point or a stroke is named in backticks, or by its last part (see `column`). The methods of a
    condition are those in `METHODS`, and its names are columns, so that it cannot run other code.

    Raises:
        InputError: anything else, or a comparison of a number with a text.
    """
    named: dict[str, str] = {}

    def known(found: re.Match[str]) -> str:
        name, method = found["column"] or found["name"], found["method"]
        if method and method not in METHODS:
            raise InputError(f"--query: expected one of {', '.join(sorted(METHODS))}, got {method}.")
        return found[0] if not name or name in OPERATORS else named.setdefault(column(runs, name), f"c{len(named)}")

    words = WORD.sub(known, condition)
    part = runs[list(named)].set_axis(list(named.values()), axis="columns")
    try:
        if "@" in condition:  # a name of this program
            raise ValueError("@")
        fits: Any = part.eval(words, engine="python")
        if set(fits.unique()) <= {True, False}:
            return runs[fits.astype(bool)], list(named)
        why = "values that are not true or false"
    except Exception as problem:  # whatever pandas and the parser raise
        why = " ".join(str(problem).split())[:100]
    raise InputError(f"--query: expected a condition such as scale == 'none', got {condition!r} ({why}).")


def differences(trees: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row for each field, size, time and score in which runs differ.

    Columns: section (configuration, cost or score), field, one by each id, and of two runs also difference, the first
    number minus the second.

    Args:
        trees: records as plain data, by id.
    """
    import pandas as pd

    made: dict[tuple[str, str], dict[str, Any]] = {}
    for identity, tree in trees.items():
        facts = rows.run_row(dict(tree))
        scores = {f"{s['split']}/{s['metric']}": s["value"] for s in tree["scores"] if s["subset"] is None}
        for section, values in {
            "configuration": dict(flat(tree["config"])),
            "cost": {name: facts.get(name) for name in FACTS},
            "score": scores,
        }.items():
            for name, value in values.items():
                made.setdefault((section, name), {})[identity] = value
    found = []
    for (section, name), values in made.items():
        cells = [values.get(identity) for identity in trees]
        if any(cell != cells[0] for cell in cells):
            row = {"section": section, "field": name, **dict(zip(trees, cells, strict=True))}
            if len(cells) == 2 and section != "configuration" and all(isinstance(c, int | float) for c in cells):
                row["difference"] = cells[0] - cells[1]  # type: ignore[operator]
            found.append(row)
    columns = ["section", "field", *trees, *["difference"] * (len(trees) == 2)]
    return pd.DataFrame(found, columns=columns, dtype=object)
