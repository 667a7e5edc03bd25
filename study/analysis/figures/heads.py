"""Figure of the number and width of heads: score against H at fixed H·K, H at fixed K, and K at fixed H."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from study.analysis.figures import style
from study.analysis.figures.panels import small_multiples
from study.analysis.figures.source import Sweep, point, with_means
from study.analysis.runs import DeclaredRun

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SITES = ("model.attention.encoder_self", "model.attention.cross")
AT_PRODUCT, AT_WIDTH, AT_HEADS = "H at fixed H·K", "H at fixed K", "K at fixed H"


def points(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """Table of the figure: one panel for each corpus, family and question that several arms answer."""
    (sweep,) = sweeps
    runs = sweep.comparable("heads", "key_width", "value_width", "targets", "labels")
    rows = []
    for name, among in _corpora(runs).items():
        lines: dict[tuple[str, str], list[tuple[DeclaredRun, int]]] = {}
        for run in among:
            for question, line, place in _questions(*sizes(run)):
                lines.setdefault((question, line), []).append((run, place))
        for question in (AT_PRODUCT, AT_WIDTH, AT_HEADS):
            for line, found in ((line, found) for (asked, line), found in lines.items() if asked == question):
                if len({place for _, place in found}) > 1:
                    column = f"{name}:\n{question}"
                    rows += [point(run, sweep.metric, line, place, column=column) for run, place in found]
    return with_means(rows)


def _questions(heads: int, width: int) -> list[tuple[str, str, int]]:
    """Return the panels that a run belongs to, each as (question, fixed quantity, horizontal position)."""
    return [
        (AT_PRODUCT, f"H·K={heads * width}", heads),
        (AT_WIDTH, f"K={width}", heads),
        (AT_HEADS, f"H={heads}", width),
    ]


def sizes(run: DeclaredRun) -> tuple[int, int]:
    """H and K of encoder self-attention, or of cross-attention where there is none (raw maps slice the states)."""
    site = next(site for site in SITES if run.at(site) is not None)
    heads = run.at(f"{site}.heads")
    return heads, run.at(f"{site}.key_width") or run.at("model.width") // heads


def _corpora(runs: Sequence[DeclaredRun]) -> dict[str, list[DeclaredRun]]:
    """Corpus and family in words ↦ its runs."""
    out: dict[str, list[DeclaredRun]] = {}
    families = len({run.at("model.family") for run in runs}) > 1
    for run in runs:
        targets = run.at("data.targets")
        parts = [run.at("data.name").replace("_", " "), f"P = {targets}" if targets else None]
        parts += [run.at("model.family") if families else None]
        out.setdefault(", ".join(part for part in parts if part), []).append(run)
    return out


@style.styled()
def draw(table: pd.DataFrame) -> Figure:
    """One row of panels."""

    def label(column: str) -> str:
        return "key width K" if column.endswith(AT_HEADS) else "heads H"

    return small_multiples(table, "log", label, height=2.2, axis_group=lambda column: column.partition(":")[0])
