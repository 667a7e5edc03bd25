"""Ledger: one row for each run, with its configuration, sizes, times and scores; and the difference of two runs."""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from study.config.overrides import flat
from study.errors import InputError
from study.records import Record
from study.store import Store

if TYPE_CHECKING:
    import pandas as pd

CONDITION = re.compile(r"([^=<>!]+)(!=|<=|>=|=|<|>)(.*)")
SIGNS = {"=": operator.eq, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}


def ledger(made: Mapping[str, Record], sweeps: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return one row for each run, by id; an empty cell: not known, or no such field.

    Columns: id, sweeps (that declare the run, blanks between), status, every field of the configuration in which runs
    differ (dotted), parameters, flops_per_token, seconds of training and of all calls, tokens per second, the tested
    step, commit, device, and every score of a whole split (`split/metric`).

    Args:
        made: the records by id.
        sweeps: the names of the sweeps that declare a run, by its id.
    """
    import pandas as pd

    configs = {name: dict(flat(record.config)) for name, record in made.items()}
    names = sorted({name for config in configs.values() for name in config})
    names = [n for n in names if n == "seed" or len({repr(config.get(n)) for config in configs.values()}) > 1]
    rows = [
        {"id": name, "sweeps": " ".join(sweeps.get(name, ())), "status": record.status}
        | {field: configs[name].get(field) for field in names}
        | _facts(record)
        | {f"{s.split}/{s.metric}": s.value for s in record.scores if s.subset is None}
        for name, record in sorted(made.items())
    ]
    table = pd.DataFrame(rows, dtype=object)
    scores = {(s.split, s.metric) for record in made.values() for s in record.scores if s.subset is None}
    others = [name for name in table if tuple(str(name).split("/", 1)) not in scores]
    return table[[*others, *map("/".join, sorted(scores))]]


def _facts(record: Record) -> dict[str, Any]:
    """Columns between configuration and scores."""
    model, took, chosen, made = record.model, record.resources, record.selection, record.provenance
    return {
        "parameters": model and model.parameters,
        "flops_per_token": model and model.flops_per_token,
        "train_seconds": took and took.train_seconds,
        "wall_seconds": took and took.wall_seconds,
        "tokens_per_second": took and took.tokens_per_second,
        "tested_step": chosen and chosen.step,
        "git_commit": made and made.git_commit,
        "device": made and made.device,
    }


def of_stores(stores: Sequence[Store], names: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return the ledger of several folders, the first first; a run that is in two is listed once.

    Added are the columns name (`sweep/number`, such as quickstart/2), started_utc, model (true if the run has its
    trained model) and folder. Records that cannot be read are left out.

    Args:
        stores: the folders.
        names: `sweep/number` by id.
    """
    import pandas as pd

    tables, seen = [], set[str]()
    for store in stores:
        made = {identity: record for identity, record in _readable(store) if identity not in seen}
        seen |= made.keys()
        if made:
            table = ledger(made, {id_: [name.rpartition("/")[0] for name in some] for id_, some in names.items()})
            table.insert(1, "name", [" ".join(names.get(one, ())) for one in table["id"]])
            table["started_utc"] = [_started(made[one]) for one in table["id"]]
            table["model"] = [store.has_model(one) for one in table["id"]]
            table["folder"] = str(store.folder)
            tables.append(table.sort_values(["started_utc", "id"], ascending=False))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _started(record: Record) -> str:
    return record.provenance.started_utc if record.provenance else ""


def _readable(store: Store) -> Iterator[tuple[str, Record]]:
    for identity in store.ids():
        with suppress(InputError):
            yield identity, store.record(identity)


def where(table: pd.DataFrame, conditions: Sequence[str]) -> pd.DataFrame:
    """Return the rows that meet every condition, such as `scale=none`, `test/exact>80` or `status!=finished`.

    Values are compared as numbers where both are numbers, else as text, in which * and ? stand for other characters. In
    `sweeps` and `name` one word has to fit. A short name stands for every column that ends so (`scale` for
    `model.attention.cross.scale`); one of them has to fit, for != all.

    Raises:
        InputError: a condition of another form, a text where < or > needs a number, or no such column.
    """
    for condition in conditions:
        if (found := CONDITION.fullmatch(condition)) is None:
            raise InputError(f"--where: expected FIELD=VALUE, such as scale=none, got {condition!r}.")
        name, sign, wanted = (part.strip() for part in found.groups())
        if sign[0] in "<>" and not _is_number(wanted):
            raise InputError(f"--where: expected a number after {sign}, such as test/exact>80, got {wanted!r}.")
        columns = [table[column] for column in columns_of(table, name)]
        fits = [[_fits(value, sign, wanted, name in ("sweeps", "name")) for value in column] for column in columns]
        together = all if sign == "!=" else any
        table = table[[together(row) for row in zip(*fits, strict=True)]] if len(table) else table
    return table


def in_order(table: pd.DataFrame, name: str, ascending: bool = True) -> pd.DataFrame:
    """Return the rows sorted by a column: as numbers if it has any, else as text. Empty cells come last.

    Raises:
        InputError: there is no such column.
    """
    import pandas as pd

    def key(column: pd.Series) -> pd.Series:
        numbers = pd.to_numeric(column, errors="coerce")
        return numbers if numbers.notna().any() else column.map(lambda value: str(value or ""))

    columns = columns_of(table, name)
    return table.sort_values(columns, ascending=ascending, kind="stable", key=key, ignore_index=True)


def sought(conditions: Sequence[str]) -> list[str]:
    """Return the fields that conditions name."""
    return [found[1].strip() for condition in conditions if (found := CONDITION.fullmatch(condition))]


def columns_of(table: pd.DataFrame, name: str) -> list[str]:
    """Return the column of this name, else those whose names end with it.

    Raises:
        InputError: there is none.
    """
    columns = list(map(str, table))
    found = [name] if name in columns else [one for one in columns if one.endswith((f".{name}", f"/{name}"))]
    if not found and len(table):
        raise InputError(
            f"{name}: expected a column of the table of runs, got no such name. `study runs --csv` prints all columns."
        )
    return found


def _fits(value: Any, sign: str, wanted: str, in_words: bool) -> bool:
    if value is None or value != value:
        return sign == "!="
    values = str(value).split() if in_words else [value]
    return (
        any(_compare(one, sign, wanted) for one in values)
        if sign != "!="
        else not any(_compare(one, "=", wanted) for one in values)
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _compare(value: Any, sign: str, wanted: str) -> bool:
    try:
        first, second = float(value), float(wanted)
    except ValueError:
        text = str(value).lower() if str(value) in ("True", "False") else str(value)  # numpy has bools of its own
        return sign == "=" and fnmatch.fnmatchcase(text, wanted)
    return bool(SIGNS[sign](first, second))


def differing_fields(first: Record, second: Record) -> Iterator[dict[str, Any]]:
    """Yield the fields, sizes and scores in which two runs differ: section, field, first, second, difference."""
    for section, values in {
        "configuration": [dict(flat(record.config)) for record in (first, second)],
        "cost": [_facts(record) for record in (first, second)],
        "score": [{f"{s.split}/{s.metric}": s.value for s in r.scores if s.subset is None} for r in (first, second)],
    }.items():
        for name in dict.fromkeys([*values[0], *values[1]]):
            one, two = (some.get(name) for some in values)
            if one != two:
                numbers = isinstance(one, int | float) and isinstance(two, int | float) and section != "configuration"
                difference = one - two if numbers else None  # type: ignore[operator]
                yield {"section": section, "field": name, "first": one, "second": two, "difference": difference}
