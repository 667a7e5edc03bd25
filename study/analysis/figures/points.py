"""Points of the small multiples: one row a run in its panel (row, column), on its line, at its place x.

A figure gives a function that places one run. `_rows` calls it for every declared run of a sweep, and `_with_means`
adds means and intervals. A mean over a hole does not exist, and a run without a score is a row, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from study import metrics
from study.analysis import labels
from study.analysis.inference import FEW, mean_interval
from study.analysis.labels import arm_words
from study.analysis.runs import Runs
from study.analysis.tables import DECIMALS
from study.config import Experiment, mechanisms
from study.config.identity import scientific
from study.scoring import BY_LENGTH
from study.sweep.grid import text
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

Point = dict[Any, Any]
CELL = ["row", "column", "line", "x"]
"""Columns that group runs into one mean: the panel, its line and the place on the line."""
CROSS = "model.attention.cross"
BUCKETS = {f"{low}–{high}": f"length {low}-{high}" for low, high in metrics.LENGTHS}
LENGTH_SPLITS = ("test", "long")
"""In the order of reading: lengths that were trained, then longer ones. A bucket is read where it is scored first."""
SITES = {site: labels.setting("site", site) for site in ("all", "encoder_self", "decoder_self", "cross")}
"""In the order of reading."""


def scale(runs: Runs, *specs: Spec) -> pd.DataFrame:
    """Panel for each family over d: with the scale, without, with each part of it alone, and with 1/d.

    The sweep `scaling` has 1/d, at the same recipe and size.
    """
    found = []
    for spec in specs:

        def place(e: Any, base: Experiment, run: Point, name: str = spec.name) -> Iterable[Point]:
            if name == "scale_parts" or mechanisms.SCALE[e.model.attention.cross.scale].power == 1:
                line = _line(e, base, f"{CROSS}.scale", f"{CROSS}.logit_init", f"{CROSS}.map_rate")
                x = e.model.attention.cross.key_width
                yield {"column": e.model.family, "line": line, "x": x, "metric": "test/exact"}

        found += _rows(runs, spec, ("scale", "logit_init", "map_rate", "key_width"), ["test/exact"], place)
    return _with_means(found)


def lengths(runs: Runs, spec: Spec) -> pd.DataFrame:
    """Rows of panels by metric, columns by family and the decoder's start; places by length, lines by memory."""
    names = {(split, m, b): f"{split}/{m}/{BUCKETS[b]}" for split in LENGTH_SPLITS for m in BY_LENGTH for b in BUCKETS}
    scored = runs.declared(spec, list(names.values())).notna().any()
    splits = {b: split for split in LENGTH_SPLITS[::-1] for b in BUCKETS if scored[names[split, BY_LENGTH[0], b]]}

    def place(e: Any, base: Experiment, run: Point) -> Iterable[Point]:
        line = _line(e, base, "model.memory", "model.annotations", "model.penalty")
        init = getattr(e.model, "init", None)
        column = e.model.family + (f",\n{arm_words(f'init={init}')}" if init else "")
        for metric in BY_LENGTH:
            for bucket in (one for one in BUCKETS if one in splits):
                score = run[names[splits[bucket], metric, bucket]]
                where = {"row": metric, "column": column, "line": line, "x": bucket}
                yield where | {"metric": f"{splits[bucket]}/{metric}", "score": score}

    free = ("memory", "init", "annotations", "annotation_width", "penalty")
    found = _rows(runs, spec, free, list(names.values()), place)
    return _with_means(sorted(found, key=lambda point: -BY_LENGTH.index(point["row"])))


def pruning(runs: Runs, spec: Spec) -> pd.DataFrame:
    """Panel for each site, a line an order; x: percentage of heads gone, `free`: how many of them went for free."""
    metric, free = (f"{spec.metric[0]}/{name}" for name in ("bleu", "free"))
    kept = {10 * tenth: f"{metric}/{subset}" for tenth, subset in enumerate(reversed(metrics.KEPT))}

    def place(e: Any, base: Experiment, run: Point) -> Iterable[Point]:
        if e.pruning and e.pruning.question == "curve":
            where = {"column": SITES[e.pruning.site], "line": f"order={e.pruning.order}", "metric": metric}
            yield from (where | {"x": x, "score": run[name], "free": run[free]} for x, name in kept.items())

    found = _rows(runs, spec, ("site", "order", "draws", "penalty", "gate_steps"), [free, *kept.values()], place)
    return _with_means(sorted(found, key=lambda point: [*SITES.values()].index(point["column"])))


def _rows(
    runs: Runs,
    spec: Spec,
    free: Collection[str],
    scores: Sequence[str],
    place: Callable[[Any, Experiment, Point], Iterable[Point]],
) -> list[Point]:
    """Return the points of the declared runs of a sweep that are as the first of their kind in all but some fields.

    Args:
        runs: the runs.
        spec: the sweep.
        free: fields that may differ; last parts of dotted names (`scale`), so that they hold for every site.
        scores: scores to read, as `split/metric` or `split/metric/subset`.
        place: yields points of an experiment, from the first one of its corpus and family and from its declared row.
    """
    first: dict[Any, tuple[Point, Experiment]] = {}
    found = []
    for cell, run in zip(spec.cells, runs.declared(spec, scores).to_dict("records"), strict=True):
        if (e := cell.experiment) is None:
            continue
        fixed = {name: value for name, value in scientific(e).items() if name.rpartition(".")[2] not in free}
        kind = e.data.name, e.model.family, e.pruning and e.pruning.question
        usual, base = first.setdefault(kind, (fixed, e))
        for point in place(e, base, run) if fixed == usual else ():
            facts = {"seed": run["seed"], "id": run["id"], "state": run["state"], "metric": point["metric"]}
            found.append(dict.fromkeys(CELL, "") | facts | {"score": run.get(point["metric"])} | point)
    return found


def _line(experiment: Experiment, base: Experiment, main: str, *variants: str) -> str:
    """Name an arm as `style.look` takes it: the value of `main`, and variants that are not the base's."""

    def value(one: Any, path: str) -> Any:
        return reduce(lambda section, name: getattr(section, name, None), path.split("."), one)

    named = [path for path in variants if value(experiment, path) not in (None, value(base, path))]
    return " ".join(f"{path.rpartition('.')[2]}={text(value(experiment, path))}" for path in (main, *named))


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
