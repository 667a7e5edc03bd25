"""Points of the small multiples: one row a run in its panel (row, column), on its line, at its place x.

Lines and places are read from the labels of arms. A run without a score is a row, too, and its arm has no mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from study import metrics
from study.analysis.inference import FEW, mean_interval
from study.analysis.labels import setting
from study.analysis.runs import Runs
from study.analysis.tables import DECIMALS
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

Point = dict[Any, Any]
CELL = ["row", "column", "line", "x"]
"""Columns that group runs into one mean: the panel, its line and the place on the line."""
TRAINED, LONGEST = 16, 32
"""Words of the longest sentences of the splits `test` and `long`. Training has those of `test`."""
BUCKETS = {
    f"{low}–{high}": f"{'test' if high <= TRAINED else 'long'}/{{}}/length {low}-{high}"
    for low, high in metrics.LENGTHS
    if high <= LONGEST
}
"""Words in the source ↦ the score over these sentences, with a gap for the metric."""
SITES = ("all", "encoder_self", "decoder_self", "cross")
"""In the order of reading."""


def scale(runs: Runs, *specs: Spec) -> pd.DataFrame:
    """Panel for each family over d: with the scale, without, with each part of it alone, and with 1/d.

    The sweep `scaling` has 1/d, at the same recipe and size.
    """
    found = []
    for spec in specs:
        for e, run in _declared(runs, spec, ["test/exact"]):
            cross = e.model.attention.cross
            if spec.name == "scale_parts" or cross.scale == "inverse":
                line = _line(run, "scale", "logit_init", "map_rate")
                found.append(_point(run, "test/exact", column=e.model.family, line=line, x=cross.key_width))
    return _with_means(found)


def lengths(runs: Runs, spec: Spec) -> pd.DataFrame:
    """Rows of panels by metric, columns by family and the decoder's start; places by length, lines by memory."""
    found = []
    for metric in ("exact", "bleu"):
        names = {bucket: name.format(metric) for bucket, name in BUCKETS.items()}
        for e, run in _declared(runs, spec, list(names.values())):
            init = getattr(e.model, "init", None)
            column = e.model.family + (f",\n{setting('init', init)}" if init else "")
            for bucket, name in names.items():
                found.append(_point(run, name, row=metric, column=column, line=_line(run, "memory"), x=bucket))
    return _with_means(found)


def pruning(runs: Runs, spec: Spec) -> pd.DataFrame:
    """Panel for each site, a line an order; x: percentage of heads gone, `free`: how many of them went for free."""
    split, found = spec.metric[0], []
    kept = {10 * tenth: f"{split}/bleu/{subset}" for tenth, subset in enumerate(reversed(metrics.KEPT))}
    declared = list(_declared(runs, spec, [f"{split}/free", *kept.values()]))
    for site in SITES:
        for _, run in (pair for pair in declared if pair[0].pruning.site == site):
            where = {"column": setting("site", site), "line": _line(run, "order"), "free": run[f"{split}/free"]}
            found += [_point(run, name, x=x, **where) for x, name in kept.items()]
    return _with_means(found)


def _declared(runs: Runs, spec: Spec, scores: Sequence[str]) -> Iterator[tuple[Any, Point]]:
    """Yield the experiment and the row of every declared run."""
    for cell, run in zip(spec.cells, runs.declared(spec, scores).to_dict("records"), strict=True):
        if cell.experiment:
            yield cell.experiment, run


def _line(run: Point, *names: str) -> str:
    """Return the settings of these fields in the label of an arm, as `style.look` takes them."""
    return " ".join(setting for setting in run["arm"].split() if setting.partition("=")[0] in names)


def _point(run: Point, name: str, **place: Any) -> Point:
    """Return a run in a figure by its score, `split/metric` or `split/metric/subset`."""
    facts = {"seed": run["seed"], "id": run["id"], "state": run["state"], "metric": "/".join(name.split("/")[:2])}
    return dict.fromkeys(CELL, "") | facts | {"score": run[name]} | place


def _with_means(points: list[Point]) -> pd.DataFrame:
    """Return the table of a figure: on every row the mean of its cell and the 95% t interval of that mean.

    Without a row if no run has a score: there is nothing to draw. A mean is missing where a run of its cell has no
    score, and an interval where there are few runs too, or nothing varies.
    """
    import pandas as pd

    table = pd.DataFrame(points)
    if table.empty or table["score"].isna().all():
        return pd.DataFrame()
    cells = table.groupby(CELL, sort=False, dropna=False)
    found = [interval(list(scores)) for _, scores in cells["score"]]
    table[["mean", "low", "high"]] = [found[cell] for cell in cells.ngroup()]
    return table.round(dict.fromkeys(("score", "mean", "low", "high"), DECIMALS))


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95% t interval of it; NaN for what the values do not give, or too few of them (`FEW`)."""
    if any(math.isnan(value) for value in values):
        return math.nan, math.nan, math.nan
    mean = math.fsum(values) / len(values)
    return (mean, math.nan, math.nan) if len(values) < FEW else (mean, *mean_interval(values))
