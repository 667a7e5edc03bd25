"""Figure of tied maps on directed links: accuracy against the share of rings of three (dose)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from study.analysis.figures import style
from study.analysis.figures.panels import small_multiples
from study.analysis.figures.source import Sweep, arm, base_of, first_of_family, point, with_means
from study.analysis.runs import DeclaredRun
from study.corpora.probes.lookup import Graph, within_reach

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SITE = "model.attention.encoder_self"
DOSE = "data.dose"
SAID, LOOKED = "test/accuracy", "test/attends_argmax"
COLUMNS = {SAID: "what is said", LOOKED: "where it looks"}
"""Metric ↦ head of its panel. They decide together: a label may be told without the largest weight on its word."""


def points(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """Panels over the dose, what is said and where it looks: a line for the encoder's maps, and floors."""
    (sweep,) = sweeps
    runs = sweep.comparable("maps", "exclude_self", "equal_start", "dose", where=lambda run: run.at(DOSE) is not None)
    bases = first_of_family(runs)
    rows = []
    for metric in dict.fromkeys((sweep.metric, LOOKED)):
        if metric != sweep.metric and all(run.score(metric) is None for run in runs):
            continue
        column = COLUMNS.get(metric, "")
        for run in runs:
            line = arm(run, base_of(run, bases), f"{SITE}.maps", f"{SITE}.equal_start", f"{SITE}.exclude_self")
            rows.append(point(run, metric, line, run.at(DOSE), column=column))
        rows += _floors(runs, metric)
    return with_means(rows)


def _floors(runs: Sequence[DeclaredRun], metric: str) -> list[dict[str, Any]]:
    """Return the floors of a score under symmetric attention, at every dose."""
    rows = []
    for dose, data in {run.at(DOSE): run.experiment.data for run in runs}.items():
        assert isinstance(data, Graph)
        for name, share in _known(data, metric):
            facts = {"seed": None, "id": "", "state": "floor", "metric": metric, "score": 100 * share}
            rows.append({"row": "", "column": COLUMNS[metric], "line": f"floor={name}", "x": dose, **facts})
    return rows


def _known(data: Graph, metric: str) -> list[tuple[str, float]]:
    if metric == LOOKED:
        return [("confused", within_reach(data))]
    floors = data.chance()
    assert floors.confused is not None
    return [("confused", floors.confused), ("blind", floors.blind)] if metric == SAID else []


@style.styled()
def draw(table: pd.DataFrame) -> Figure:
    """Return a panel for each measure."""
    label = "dose: share of words in rings of three"
    return small_multiples(table, "plain", lambda column: label, axis_group=lambda column: column, height=2.6)
