"""Points of the fixed figures: one row a run in its panel (row, column), on its line, at its place x.

A figure's builder takes the runs of a sweep that differ in the fields of its question alone (`comparable`), and says
which field is the panel, which the line and which the place (`placed`). `with_means` adds means and intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from study import metrics
from study.analysis import labels
from study.analysis.inference import FEW, mean_interval
from study.analysis.labels import arm_words
from study.analysis.runs import Runs
from study.analysis.tables import DECIMALS
from study.config import Experiment
from study.config.identity import scientific
from study.scoring import BY_LENGTH
from study.sweep.grid import text
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

CELL = ["row", "column", "line", "x"]
"""Columns that group runs into one mean: the panel, its line and the place on the line."""

FAMILY, CROSS = "model.family", "model.attention.cross"
SCORE, SCALE, INIT = f"{CROSS}.score", f"{CROSS}.scale", f"{CROSS}.logit_init"
BUCKETS = {f"{low}–{high}": f"length {low}-{high}" for low, high in metrics.LENGTHS}
LENGTH_SPLITS = ("test", "long")
"""In the order of reading: lengths that were trained, then longer ones. A bucket is read where it is scored first."""

SITES = {site: labels.setting("site", site) for site in ("all", "encoder_self", "decoder_self", "cross")}
"""In the order of reading."""

ALIGNED: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "scores": (
        SCORE,
        (f"{CROSS}.bilinear_init", "model.init"),
        ("score", "scale", "bilinear_init", "init", "key_width", "additive_width", "rank"),
    ),
    "rank": (
        SCORE,
        (f"{CROSS}.rank", f"{CROSS}.additive_width"),
        ("score", "scale", "rank", "additive_width", "key_width"),
    ),
    "reach": (f"{CROSS}.reach", (), ("reach", "window", "entropy_bonus")),
    "normaliser": (f"{CROSS}.weights", (), ("weights",)),
}
"""Sweep ↦ the field that tells its arms apart, those that make variants of them, and all that may differ with these."""


def at(experiment: Experiment, path: str) -> Any:
    """Return a field of an experiment by its dotted name; None where the experiment has no such field."""
    found: Any = experiment
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def comparable(
    runs: Runs,
    spec: Spec,
    free: Collection[str],
    scores: Sequence[str] = (),
    where: Callable[[Experiment], bool] = lambda experiment: True,
) -> pd.DataFrame:
    """Return the declared runs of a sweep that are as the first of their corpus and family in all but some fields.

    Columns: those of `Runs.declared`, `experiment`, and `base`: the first experiment of its corpus and family.

    Args:
        runs: the runs.
        spec: the sweep.
        free: fields that may differ; last parts of dotted names (`scale`), so that they hold for every site.
        scores: scores to read, as `split/metric` or `split/metric/subset`.
        where: choose runs.

    Raises:
        InputError: a record cannot be used.
    """
    experiments: list[Any] = [cell.experiment for cell in spec.cells]
    table = runs.declared(spec, scores).assign(experiment=experiments)
    table = table[[e is not None and where(e) for e in table["experiment"]]]
    first: dict[Any, tuple[dict[str, Any], Experiment]] = {}
    kept: list[bool] = []
    bases: list[Any] = []
    for e in table["experiment"]:
        fixed = {name: value for name, value in scientific(e).items() if name.rpartition(".")[2] not in free}
        usual, base = first.setdefault((e.data.name, e.model.family), (fixed, e))
        kept.append(fixed == usual)
        bases.append(base)
    return table.assign(base=bases)[kept]


def values(table: pd.DataFrame, path: str) -> list[Any]:
    """Return a field of each row's experiment."""
    return [at(experiment, path) for experiment in table["experiment"]]


def lines(table: pd.DataFrame, main: str, *variants: str) -> list[str]:
    """Name the arm of each row as `style.look` takes it: the value of `main`, and variants that are not the base's."""

    def name(experiment: Experiment, base: Experiment) -> str:
        found = {path: at(experiment, path) for path in (main, *variants)}
        named = {path: v for path, v in found.items() if path == main or v not in (None, at(base, path))}
        return " ".join(f"{path.rpartition('.')[2]}={text(value)}" for path, value in named.items())

    return [name(*pair) for pair in zip(table["experiment"], table["base"], strict=True)]


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


def lengths(runs: Runs, spec: Spec) -> pd.DataFrame:
    """Rows of panels by metric, columns by family and the decoder's start; places by length, lines by memory."""
    free = ("memory", "init", "annotations", "annotation_width", "penalty")
    names = {(split, m, b): f"{split}/{m}/{BUCKETS[b]}" for split in LENGTH_SPLITS for m in BY_LENGTH for b in BUCKETS}
    table = comparable(runs, spec, free, list(names.values()))
    starts = [f",\n{arm_words(f'init={init}')}" if init else "" for init in values(table, "model.init")]
    column = [f"{family}{start}" for family, start in zip(values(table, FAMILY), starts, strict=True)]
    line = lines(table, "model.memory", "model.annotations", "model.penalty")
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
    fields = ("site", "order", "draws", "penalty", "gate_steps")
    table = comparable(runs, spec, fields, [free, *kept.values()], lambda e: at(e, "pruning.question") == "curve")
    order = [list(SITES).index(site) for site in values(table, "pruning.site")]
    table = table.assign(order=order).sort_values("order", kind="stable", ignore_index=True)
    line = [f"order={order}" for order in values(table, "pruning.order")]
    column = [SITES[site] for site in values(table, "pruning.site")]
    rows = {"column": column, "free": table[free]}
    return with_means([by_run([placed(table, metric, line, x, score=table[name], **rows) for x, name in kept.items()])])


def aer(runs: Runs, *specs: Spec) -> pd.DataFrame:
    """Panel for each sweep and family: BLEU and AER of every run on the deciding split, and both means of its arm."""
    parts = []
    for spec in specs:
        main, variants, free = ALIGNED[spec.name]
        bleu, error = (f"{spec.metric[0]}/{name}" for name in ("bleu", "aer"))
        table = comparable(runs, spec, free, [bleu, error])
        families = values(table, FAMILY)
        column = [f"{spec.name}, {family}" if len(set(families)) > 1 else spec.name for family in families]
        part = placed(table, bleu, lines(table, main, *variants), 0, column=column, aer=table[error])
        known = set(part["column"][part[["score", "aer"]].notna().all(axis=1)])
        parts.append(part[part["column"].isin(known)])
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
