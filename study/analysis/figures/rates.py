"""Figure of learning rates: the score against the rate, with diverged runs marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from study.analysis.figures import style
from study.analysis.figures.panels import small_multiples
from study.analysis.figures.scaling import RATE, SCORE
from study.analysis.figures.source import CROSS, Sweep, arm, base_of, first_of_family, point, with_means

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def points(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """A panel a corpus and family; a line a scale, or a score where it is not the baseline's."""
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
def draw(table: pd.DataFrame) -> Figure:
    """A panel, or several side by side."""
    return small_multiples(table, "log", lambda column: "learning rate", height=2.4)
