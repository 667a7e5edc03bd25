"""Points of the fixed figures: one row a run in its panel (row, column), on its line, at its place x.

Lines are the labels of the sweep's arms, or a part of their words. `placed` says which panel, line and place the runs
of a sweep have, and `with_means` adds means and intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from study import metrics
from study.analysis import labels
from study.analysis.inference import FEW, mean_interval
from study.analysis.labels import arm_words
from study.analysis.runs import Runs, primary
from study.analysis.tables import DECIMALS
from study.scoring import BY_LENGTH
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

CELL = ["row", "column", "line", "x"]
"""Columns that group runs into one mean: the panel, its line and the place on the line."""
BY_RATE = ", by rate"
BUCKETS = {f"{low}–{high}": f"length {low}-{high}" for low, high in metrics.LENGTHS}
LENGTH_SPLITS = ("test", "long")
"""In the order of reading: lengths that were trained, then longer ones. A bucket is read where it is scored first."""
SITES = {site: labels.setting("site", site) for site in ("all", "encoder_self", "decoder_self", "cross")}
"""In the order of reading."""
ALIGNED = ("scores", "rank", "reach", "normaliser")
"""Sweeps whose arms are drawn by alignment error and score."""


def declared(runs: Runs, spec: Spec, scores: Sequence[str] = ()) -> pd.DataFrame:
    """Return the declared runs of a sweep that are experiments: columns of `Runs.declared`, `family`, `experiment`.

    Raises:
        InputError: a record cannot be used.
    """
    experiments: list[Any] = [cell.experiment for cell in spec.cells]
    table = runs.declared(spec, scores).assign(experiment=experiments)
    table = table[table["state"] != "inapplicable"]
    return table.assign(family=[e.model.family for e in table["experiment"]])


def part(arms: pd.Series, *fields: str) -> pd.Series:
    """Return the words of labels of arms that set these fields: `scale=none key_width=16` ↦ `scale=none`."""
    return arms.map(lambda arm: " ".join(word for word in arm.split() if word.partition("=")[0] in fields))


def placed(table: pd.DataFrame, metric: str, line: Any, x: Any, **more: Any) -> pd.DataFrame:
    """Return rows of a figure: each run in its place with its score in `metric`, or `score` of `more`."""
    import pandas as pd

    place = {"row": "", "column": "", "line": line, "x": x} | {k: v for k, v in more.items() if k in ("row", "column")}
    facts = {name: table[name] for name in ("seed", "id", "state")}
    scored = {"metric": metric, "score": table.get(metric, math.nan)}
    return pd.DataFrame(place | facts | scored | more, index=table.index)


def with_means(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return the table of a figure: on every row the mean of its cell and the 95% t interval of that mean.

    Without a row if no run has a score: there is nothing to draw. A mean is missing where a run of its cell has no
    score, and an interval where there are few runs too, or nothing varies.
    """
    import pandas as pd

    table = pd.concat(list(parts), ignore_index=True)
    if table["score"][table["id"] != ""].isna().all():
        return pd.DataFrame()
    cells = table.groupby(CELL, sort=False, dropna=False)
    found = [interval(list(scores)) for _, scores in cells["score"]]
    table[["mean", "low", "high"]] = [found[cell] for cell in cells.ngroup()]
    return table.round(dict.fromkeys(("score", "mean", "low", "high"), DECIMALS))


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95% t interval of it; NaN for what the values do not give, or too few of them (`FEW`)."""
    if not values or any(math.isnan(value) for value in values):
        return math.nan, math.nan, math.nan
    mean = math.fsum(values) / len(values)
    return (mean, math.nan, math.nan) if len(values) < FEW else (mean, *mean_interval(values))


def size_of(experiment: Any) -> int | None:
    """d, the number of terms that the score of cross-attention sums over; None where it sums nothing."""
    site = experiment.model.attention.cross
    sizes = (site.rank, site.additive_width, site.key_width)
    return next((size for size in sizes if size is not None), None)


def scaling(runs: Runs, spec: Spec) -> pd.DataFrame:
    """Panels by size d, one for each family and score, at the baseline's rate; then by rate, at the baseline's size.

    By rate there are the arms that were run at several.
    """
    table, metric = declared(runs, spec), primary(spec)
    experiments = table["experiment"]
    table = table.assign(
        size=experiments.map(size_of),
        rate=experiments.map(lambda e: e.training.learning_rate),
        score=experiments.map(lambda e: e.model.attention.cross.score),
        line=part(table["arm"], "scale", "logit_init"),
    ).dropna(subset=["size"])
    first = table.groupby("facet")[["size", "rate", "score"]].transform("first")
    panel = table["family"] + ",\n" + table["score"].map(lambda score: arm_words(f"score={score}"))
    column = panel + ", d = " + table["size"].astype(str) + BY_RATE
    sized = placed(table, metric, table["line"], table["size"], column=panel)
    rated = placed(table, metric, table["line"], table["rate"], column=column)
    rated = rated[(table["size"] == first["size"]) & (table["score"] == first["score"])]
    several = rated.groupby(["column", "line"])["x"].transform("nunique") > 1
    return with_means([sized[table["rate"] == first["rate"]], rated[several]])


def lengths(runs: Runs, spec: Spec) -> pd.DataFrame:
    """Rows of panels by metric, columns by family and the decoder's start; places by length, lines by memory."""
    names = {(split, m, b): f"{split}/{m}/{BUCKETS[b]}" for split in LENGTH_SPLITS for m in BY_LENGTH for b in BUCKETS}
    table = declared(runs, spec, list(names.values()))
    starts = part(table["arm"], "init").map(lambda start: start and f",\n{arm_words(start)}")
    column, line = table["family"] + starts, part(table["arm"], "memory", "annotations", "penalty")
    parts = []
    for metric in BY_LENGTH[::-1]:
        of_metric = []
        for bucket in BUCKETS:
            scored = (s for s in LENGTH_SPLITS if table[names[s, BY_LENGTH[0], bucket]].notna().any())
            if split := next(scored, None):
                score = table[names[split, metric, bucket]]
                of_metric.append(
                    placed(table, f"{split}/{metric}", line, bucket, row=metric, column=column, score=score)
                )
        parts.append(by_run(of_metric))
    return with_means(parts)


def pruning(runs: Runs, spec: Spec) -> pd.DataFrame:
    """Panel for each site, a line an order; x: percentage of heads gone, `free`: how many of them went for free."""
    metric, free = (f"{spec.metric[0]}/{name}" for name in ("bleu", "free"))
    kept = {10 * tenth: f"{metric}/{subset}" for tenth, subset in enumerate(reversed(metrics.KEPT))}
    table = declared(runs, spec, [free, *kept.values()])
    site = table["experiment"].map(lambda e: e.pruning.site)
    table = table.assign(site=site, at=site.map(list(SITES).index)).sort_values("at", kind="stable", ignore_index=True)
    rows = {"column": table["site"].map(SITES), "free": table[free]}
    parts = [placed(table, metric, table["arm"], x, score=table[name], **rows) for x, name in kept.items()]
    return with_means([by_run(parts)])


def aer(runs: Runs, *specs: Spec) -> pd.DataFrame:
    """Panel for each sweep and family: BLEU and AER of every run on the deciding split, and both means of its arm."""
    parts = []
    for spec in specs:
        bleu, error = (f"{spec.metric[0]}/{name}" for name in ("bleu", "aer"))
        table = declared(runs, spec, [bleu, error])
        column = spec.name + (", " + table["family"] if table["family"].nunique() > 1 else "")
        made = placed(table, bleu, table["arm"], 0, column=column, aer=table[error])
        known = set(made["column"][made[["score", "aer"]].notna().all(axis=1)])
        parts.append(made[made["column"].isin(known)])
    table = with_means(parts)
    if table.empty:
        return table
    arms = table.groupby(["column", "line"], sort=False)
    found = [interval(list(errors)) for _, errors in arms["aer"]]
    errors = ["aer_mean", "aer_low", "aer_high"]
    table[errors] = [found[arm] for arm in arms.ngroup()]
    return table.round(dict.fromkeys(["aer", *errors], DECIMALS)).drop(columns=["x", "row"])


def by_run(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Join rows of the same runs, all of a run one below another instead of all of a place."""
    import pandas as pd

    return pd.concat(list(parts)).sort_index(kind="stable")
