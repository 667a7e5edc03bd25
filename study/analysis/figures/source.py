"""Data of the figures: the declared runs of a sweep with their records, selected by fields of the experiment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from study.analysis.inference import FEW, mean_interval
from study.analysis.runs import DeclaredRun, Runs, primary
from study.analysis.tables import DECIMALS
from study.config.identity import scientific
from study.store import Store
from study.sweep.grid import text
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

CROSS = "model.attention.cross"
CELL = ["row", "column", "line", "x"]
"""Columns that group runs into one mean: the panel, its line and the position on the line."""

NUMBERS = ["score", "mean", "low", "high"]


@dataclass(frozen=True)
class Sweep:
    """A sweep file with its declared runs, in the order of the file; cells that are no experiments left out."""

    spec: Spec
    runs: tuple[DeclaredRun, ...]
    store: Store | None = None

    @property
    def metric(self) -> str:
        """The score that decides, as `split/metric`."""
        return primary(self.spec)

    @property
    def begun(self) -> bool:
        """Return True if any run has a record."""
        return any(run.record for run in self.runs)

    def comparable(self, *free: str, where: Callable[[DeclaredRun], bool] = lambda run: True) -> list[DeclaredRun]:
        """Return the runs which are as the first of their corpus and family in everything but the `free` fields.

        `free` are last parts of dotted names (`scale`), so that they hold for every site.
        """
        kept, fixed = [], dict[tuple[Any, ...], dict[str, Any]]()
        for run in filter(where, self.runs):
            rest = {name: value for name, value in scientific(run.experiment).items() if _last(name) not in free}
            if rest == fixed.setdefault(_family(run), rest):
                kept.append(run)
        return kept


def read_sweep(spec: Spec, runs: Runs) -> Sweep:
    """Return the runs of a sweep, checked as a report checks them.

    Raises:
        InputError: a record cannot be read, was changed by hand, or cannot be compared with its neighbours.
    """
    return Sweep(spec, tuple(run for run in runs.of(spec) if run.cell.experiment), runs.store)


def size_of(run: DeclaredRun) -> int | None:
    """d, the number of terms that the score of cross-attention sums over; None where it sums nothing."""
    at = (run.at(f"{CROSS}.{name}") for name in ("rank", "additive_width", "key_width"))
    found: int | None = next((size for size in at if size is not None), None)
    return found


def arm(run: DeclaredRun, base: DeclaredRun, main: str, *variants: str) -> str:
    """Name of a run's arm, as `style.look` takes it: the value of `main`, and of the variants that are not `base`'s."""
    named = [main, *(name for name in variants if run.at(name) is not None and run.at(name) != base.at(name))]
    return " ".join(f"{_last(name)}={text(run.at(name))}" for name in named)


def first_of_family(runs: Iterable[DeclaredRun]) -> dict[tuple[Any, ...], DeclaredRun]:
    """(Corpus, family) ↦ the first run listed: the baseline there."""
    out: dict[tuple[Any, ...], DeclaredRun] = {}
    for run in runs:
        out.setdefault(_family(run), run)
    return out


def base_of(run: DeclaredRun, bases: dict[tuple[Any, ...], DeclaredRun]) -> DeclaredRun:
    """Return the baseline of a run's corpus and family."""
    return bases[_family(run)]


def point(
    run: DeclaredRun, metric: str, line: str, x: Any, row: str = "", column: str = "", **more: Any
) -> dict[str, Any]:
    """One line of a figure's table: a run in its place, with its score in `metric` or `more`'s."""
    place = {"row": row, "column": column, "line": line, "x": x}
    facts = {"seed": run.experiment.seed, "id": run.id, "state": run.state, "metric": metric}
    return place | facts | {"score": None if "score" in more else run.score(metric)} | more


def with_means(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return the table of a figure: to every line the mean of its cell and the 95% t interval of that mean.

    Without a line where no run has a score: there is nothing to draw. A mean is missing where a run
    of its cell has no score, and an interval where there are few runs too, or nothing varies.
    """
    import pandas as pd

    if all(row["score"] is None for row in rows if row["id"]):
        return pd.DataFrame()
    table = pd.DataFrame(list(rows))
    table["score"] = table["score"].astype(float)
    keys = list(zip(*(table[name] for name in CELL), strict=True))
    cells: dict[Any, list[float]] = {}
    for key, score in zip(keys, table["score"], strict=True):
        cells.setdefault(key, []).append(float(score))
    summaries = {key: interval(scores) for key, scores in cells.items()}
    for i, name in enumerate(NUMBERS[1:]):
        table[name] = [summaries[key][i] for key in keys]
    return table.round(dict.fromkeys(NUMBERS, DECIMALS))


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95% t interval of it; NaN for what the values do not give, or too few of them (`FEW`)."""
    if not values or any(math.isnan(value) for value in values):
        return math.nan, math.nan, math.nan
    mean = math.fsum(values) / len(values)
    if len(values) < FEW:
        return mean, math.nan, math.nan
    return mean, *mean_interval(values)[1:]


def _family(run: DeclaredRun) -> tuple[Any, ...]:
    return run.at("data.name"), run.at("model.family")


def _last(name: str) -> str:
    return name.rpartition(".")[2]
