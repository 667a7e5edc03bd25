"""Dose and response of tied maps: how much of a directed task they lose as the share of rings of three grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from study.corpora.probes import chance
from study.report.plots.panels import small_multiples
from study.report.plots.source import Run, Sweep, arm, base_of, first_of_family, point, with_means

if TYPE_CHECKING:
    import pandas as pd

SITE = "model.attention.encoder_self"
DOSE = "data.dose"


def points(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """One panel over the dose: a line for the maps of encoder self-attention and their variants, and the floors."""
    (sweep,) = sweeps
    runs = sweep.comparable("maps", "exclude_self", "equal_start", "dose", where=lambda run: run.at(DOSE) is not None)
    bases = first_of_family(runs)
    rows = []
    for run in runs:
        line = arm(run, base_of(run, bases), f"{SITE}.maps", f"{SITE}.equal_start", f"{SITE}.exclude_self")
        rows.append(point(run, sweep.metric, line, run.at(DOSE)))
    return with_means(rows + _floors(runs, sweep.metric))


def _floors(runs: Sequence[Run], metric: str) -> list[dict[str, Any]]:
    """The accuracy of a symmetric reader and of a blind one, at every dose; they are known of accuracy alone."""
    if metric.partition("/")[2] != "accuracy":
        return []
    rows = []
    for dose, data in {run.at(DOSE): run.experiment.data for run in runs}.items():
        floors = chance(data)  # type: ignore[arg-type]
        for name in ("confused", "blind"):
            facts = {"seed": None, "id": "", "state": "floor", "metric": metric}
            score = 100 * getattr(floors, name)
            rows.append({"row": "", "column": "", "line": f"floor={name}", "x": dose, **facts, "score": score})
    return rows


def draw(plt: Any, table: pd.DataFrame) -> Any:
    """One panel, wider than a column since seven arms may meet at the full dose."""
    label = "dose: share of words in rings of three"
    return small_multiples(plt, table, "plain", lambda column: label, height=2.6, width=5.0)
