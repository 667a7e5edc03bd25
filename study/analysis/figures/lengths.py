"""Figure of the score by source length, with attention and with one fixed vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from study.analysis.figures import style
from study.analysis.figures.panels import small_multiples
from study.analysis.figures.source import Sweep, arm, base_of, first_of_family, point, with_means
from study.analysis.labels import arm_words
from study.analysis.runs import DeclaredRun
from study.metrics import LENGTHS
from study.scoring import BY_LENGTH

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SUBSETS = {f"{low}–{high}": f"length {low}-{high}" for low, high in LENGTHS}
SPLITS = ("test", "long")
"""In the order of reading: lengths that were trained, then longer ones. A bucket is read where it is scored first."""


def points(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """Rows of panels by metric, columns by family and by where the decoder starts; a line a memory."""
    (sweep,) = sweeps
    runs = sweep.comparable("memory", "init", "annotations", "annotation_width", "penalty")
    bases = first_of_family(runs)
    buckets = _buckets(runs)
    rows = []
    for metric in BY_LENGTH[::-1]:
        for run in runs:
            line = arm(run, base_of(run, bases), "model.memory", "model.annotations", "model.penalty")
            for bucket, split in buckets.items():
                name = f"{split}/{metric}"
                score = run.score(name, SUBSETS[bucket])
                rows.append(point(run, name, line, bucket, row=metric, column=_column(run), score=score))
    return with_means(rows)


def _column(run: DeclaredRun) -> str:
    init = run.at("model.init")
    starts = f",\n{arm_words(f'init={init}')}" if init else ""
    return f"{run.at('model.family')}{starts}"


def _buckets(runs: Sequence[DeclaredRun]) -> dict[str, str]:
    """Bucket ↦ split that it is read on, of the buckets that any run has."""
    out = {}
    for bucket, subset in SUBSETS.items():
        found = (split for split in SPLITS if any(run.score(f"{split}/{BY_LENGTH[0]}", subset) for run in runs))
        if split := next(found, None):
            out[bucket] = split
    return out


@style.styled()
def draw(table: pd.DataFrame) -> Figure:
    """Panels on common axes; buckets of untrained lengths stand on grey."""
    figure = small_multiples(table, "even", lambda column: "words in the source", height=1.75)
    buckets = dict(zip(table["x"], table["metric"], strict=True))
    beyond = [i for i, metric in enumerate(buckets.values()) if not metric.startswith(SPLITS[0])]
    for axes in figure.axes:
        axes.tick_params(axis="x", rotation=50, labelsize=style.SMALL)
        if beyond:
            axes.axvspan(beyond[0] - 0.5, axes.get_xlim()[1], color="#f0f0f0", linewidth=0, zorder=0)
            axes.set_xlim(right=axes.get_xlim()[1])
    return figure
