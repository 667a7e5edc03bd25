"""Figure of score × scale × size, and of the score against the learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from study.analysis.figures import style
from study.analysis.figures.panels import small_multiples
from study.analysis.figures.source import CROSS, Sweep, arm, base_of, first_of_family, point, size_of, with_means
from study.analysis.labels import arm_words
from study.analysis.runs import DeclaredRun

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

RATE, INIT, SCORE = "training.learning_rate", f"{CROSS}.logit_init", f"{CROSS}.score"
FREE = ("score", "scale", "maps", "key_width", "additive_width", "rank", "logit_init", "learning_rate")
BY_RATE = ", by rate"


def points(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """Panels by size d, one for each family and score, at the baseline's rate; then by rate, at the baseline's size.

    By rate there are the arms that were run at several.
    """
    (sweep,) = sweeps
    runs = [run for run in sweep.comparable(*FREE) if size_of(run) is not None]
    bases = first_of_family(runs)
    by_size, by_rate = [], []
    for run in runs:
        base = base_of(run, bases)
        line = arm(run, base, f"{CROSS}.scale", INIT)
        panel = f"{run.at('model.family')},\n{arm_words('score=' + run.at(SCORE))}"
        if run.at(RATE) == base.at(RATE):
            by_size.append(point(run, sweep.metric, line, size_of(run), column=panel))
        if (run.at(SCORE), size_of(run)) == (base.at(SCORE), size_of(base)):
            column = f"{panel}, d = {size_of(base)}{BY_RATE}"
            by_rate.append(point(run, sweep.metric, line, run.at(RATE), column=column))
    return with_means([*by_size, *_several(by_rate)])


def at_base(run: DeclaredRun, base: DeclaredRun) -> bool:
    """Return True if a run has the learning rate of its baseline."""
    return bool(run.at(RATE) == base.at(RATE))


def _several(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines that have more than one place."""
    spots: dict[tuple[str, str], set[Any]] = {}
    for row in rows:
        spots.setdefault((row["column"], row["line"]), set()).add(row["x"])
    return [row for row in rows if len(spots[row["column"], row["line"]]) > 1]


@style.styled()
def draw(table: pd.DataFrame) -> Figure:
    """One row of panels."""
    return small_multiples(table, "log", label, height=2.2, note="d: the number of terms that the score sums")


def label(column: str) -> str:
    """Return the horizontal axis of a panel."""
    return "learning rate" if column.endswith(BY_RATE) else "d"


def points_by_rate(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """Return a panel a corpus and family; a line a scale, or a score where it is not the baseline's."""
    (sweep,) = sweeps
    runs = sweep.comparable("score", "scale", "learning_rate", "additive_width", "rank")
    bases = first_of_family(runs)
    rows = []
    for run in runs:
        base = base_of(run, bases)
        main = f"{CROSS}.scale" if run.at(SCORE) == base.at(SCORE) else SCORE
        column = f"{run.at('data.name')}, {run.at('model.family')}"
        rows.append(point(run, sweep.metric, arm(run, base, main), run.at(RATE), column=column))
    return with_means(rows)


@style.styled()
def draw_rates(table: pd.DataFrame) -> Figure:
    """Return a panel, or several side by side."""
    return small_multiples(table, "log", lambda column: "learning rate", height=2.4)
