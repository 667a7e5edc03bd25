"""Small multiples of the study: exact match by size of the dot product, BLEU by length, BLEU by heads removed.

`…_points` makes the table of a figure: one row a run in its panel (row, column), on its line, at its place x. Lines and
places are read from the labels of arms. A run without a score is a row, too, and its arm has no mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from study.analysis.figures import naming, panels, style
from study.analysis.inference import FEW, Arm, contrast
from study.analysis.labels import arm_words, setting
from study.analysis.runs import Runs
from study.analysis.tables import DECIMALS
from study.config import Experiment
from study.scores import metrics
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
RANDOM = "order=random"
APART = 8
"""Points between the mean of an arm and those of others at which its line has its name beside it."""
FIFTH, MOST, LOSS = 20, 30, 0.5
"""Percentages of heads: what claim 14 asks about, and how far the curves are drawn."""
SITES = ("all", *metrics.SITES)
"""In the order of reading."""


def scale_points(runs: Runs, *specs: Spec) -> pd.DataFrame:
    """Panel for each family over d: with 1/√d, unscaled, with each part of 1/√d alone, with 1/d and a learned scale.

    1/d and the largest 1/√d are from `inverse_scale`, learned scales from `learned_scale`, all at one recipe and size.
    """
    points: dict[str, Point] = {}
    for spec in specs:
        for e, run in _declared(runs, spec, ["test/exact"]):
            site = e.model.attention.aligning
            alone = site.norm == "none" and site.cap is None and e.training.learning_rate == 1e-2
            whole = site.scale != "none" or spec.name == "learned_scale"
            if spec.name == "scale_parts" or (alone and whole):
                line = _line(run, "scale", "logit_init", "map_rate")
                place = {"column": e.model.family, "line": line, "x": site.key_width}
                points.setdefault(run["id"], _point(run, "test/exact", **place, recipe=_recipe(e)))
    return _with_means(list(points.values()))


@style.styled()
def scale(table: pd.DataFrame) -> Figure:
    """Draw a panel for each family with the scaled arms, and below it one with the unscaled arms beside 1/√d."""
    unscaled = table["line"].str.startswith("scale=none")
    rows = {
        ", with a scale": table[~unscaled],
        ", without a scale (grey: 1/√d)": table[unscaled | (table["line"] == "scale=rsqrt")],
    }
    panes = {f"{family}{words}": of_row[of_row["column"] == family]
             for words, of_row in rows.items() for family in dict.fromkeys(of_row["column"])}  # fmt: skip
    note = f"{_held(table)} · upper panels: a cut axis"
    halves = [line for line in dict.fromkeys(table["line"]) if " " in line]
    figure = panels.small_multiples(panes, 2, "key width d, terms of the dot product", 2, note, halves)
    for axes in figure.axes:
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted(set(table["x"])), [f"{d:,}" for d in sorted(set(table["x"]))])
    names = {}
    for axes, panel in zip(figure.axes, panes.values(), strict=True):
        whole = panel[~panel["line"].isin(halves)].dropna(subset="mean").sort_values("x")
        ends = whole.drop_duplicates("line", keep="last").set_index("line")[["x", "mean"]]
        names[axes] = [(arm_words(str(line)), place.to_numpy(dtype=float)) for line, place in ends.iterrows()]
    style.heading(figure, "Which scale does a dot product of d terms need?")
    naming.name(figure, names)
    return figure


def _recipe(e: Experiment) -> str:
    """Return what a figure says about the training of a run."""
    tested = "last update" if e.training.select == "last" else "best update on validation"
    return f"{e.data.name}, {e.training.steps} updates, learning rate {e.training.learning_rate:g}, {tested}"


def _held(table: pd.DataFrame) -> str:
    """Return what the runs of a figure have in common."""
    return f"{' or '.join(table['recipe'].unique())}, {table['seed'].nunique()} seeds"


def lengths_points(runs: Runs, spec: Spec) -> pd.DataFrame:
    """Panel for each family and start of the decoder; places by length, lines by memory."""
    points = []
    names = {bucket: name.format("bleu") for bucket, name in BUCKETS.items()}
    for e, run in _declared(runs, spec, list(names.values())):
        init = getattr(e.model, "init", None)
        column = e.model.family + (f",\n{setting('init', init)}" if init else "")
        for bucket, name in names.items():
            place = {"column": column, "line": _line(run, "memory"), "x": bucket}
            points.append(_point(run, name, **place, recipe=_recipe(e)))
    return _with_means(points)


@style.styled()
def lengths(table: pd.DataFrame) -> Figure:
    """Draw panels on common axes; buckets of untrained lengths stand on grey."""
    longest = [length.rpartition("–")[2] for length in BUCKETS]
    numbers = table.assign(x=table["x"].map(list(BUCKETS).index))
    panes = {str(column): rows for column, rows in numbers.groupby("column", sort=False)}
    note = f"{_held(table)} · grey: longer than in training"
    note += " · maximum: of each component · no memory: zeros, no attention"
    figure = panels.small_multiples(panes, len(panes), "words in the source, up to", 2.2, note)
    for axes in figure.axes:
        axes.axvspan(longest.index(str(TRAINED)) + 0.5, len(longest) - 0.7, color="#f0f0f0", linewidth=0, zorder=0)
        axes.set_xticks(range(len(longest)), longest)
        axes.set_xlim(-0.3, len(longest) - 0.7)
    style.heading(figure, "What does one vector lose on long sentences?")
    naming.name(figure, dict(zip(figure.axes, map(_apart, panes.values()), strict=True)))
    return figure


def _apart(panel: pd.DataFrame) -> list[tuple[str, Any]]:
    """Return names of the lines that are apart from all others, each with its place where it is farthest from them."""
    means = panel.drop_duplicates(["line", "x"]).pivot(index="x", columns="line", values="mean")
    names = []
    for line in means:
        distance = means.drop(columns=line).sub(means[line], axis=0).abs().min(axis=1)
        if distance.max() > APART:
            place = int(distance.argmax())
            names.append((arm_words(str(line)), np.array([means.index[place], means[line].iloc[place]])))
    return names


def pruning_points(runs: Runs, spec: Spec) -> pd.DataFrame:
    """Panel for each site, a line an order; x: percentage of heads gone, `free`: how many of them went for free."""
    split = spec.metric.partition("/")[0]
    points = []
    kept = {10 * tenth: f"{split}/bleu/{subset}" for tenth, subset in enumerate(reversed(metrics.KEPT))}
    declared = list(_declared(runs, spec, [f"{split}/free", *kept.values()]))
    for site in SITES:
        for experiment, run in declared:
            if experiment.pruning.site != site:
                continue
            panel = {"column": setting("site", site), "line": _line(run, "order"), "free": run[f"{split}/free"]}
            points += [_point(run, name, x=x, **panel) for x, name in kept.items()]
    return _with_means(points)


@style.styled()
def pruning(table: pd.DataFrame) -> Figure:
    """Draw a panel for each order of heads at all sites, against random orders, and beside them what is free."""
    everywhere = table[(table["column"] == setting("site", SITES[0])) & (table["x"] <= MOST)]
    panes = {
        f"{arm_words(line)}, {SITES[0]} sites": everywhere[everywhere["line"].isin((RANDOM, line))]
        for line in dict.fromkeys(everywhere["line"])
        if line != RANDOM
    }
    note = "dotted: a fifth of the heads, half a point of BLEU less · grey: random orders, a run is the mean of several"
    note += " · no bar at the right: all runs are equal"
    figure = panels.small_multiples(panes, 2, "heads removed, %", 1.45, note, (), beside=1.3)
    *curves, free = figure.axes
    for axes in figure.axes:
        axes.axvline(FIFTH, linestyle=":", color=panels.INK, linewidth=0.9, zorder=1)
    for axes in curves:
        axes.axhline(
            everywhere[everywhere["x"] == 0]["mean"].mean() - LOSS, linestyle=":", color=panels.INK, linewidth=0.9
        )
        panels.limit(axes, everywhere)
    _free(free, table.drop_duplicates("id"))
    style.heading(figure, "Can a fifth of the heads go?")
    return figure


def _free(axes: Axes, runs: pd.DataFrame) -> None:
    """Draw the percentage of heads that each order finds free at each site: a dot a run, the mean and its interval."""
    names: list[str] = []
    for site, orders in runs.groupby("column", sort=False):
        names.append(str(site))
        means = orders.groupby("line", sort=False)["free"].mean()
        for line in means.sort_values(ascending=False, kind="stable").index:
            look, place = style.look(line), len(names)
            rows = orders[orders["line"] == line]
            names.append(arm_words(str(line)))
            mean, *ends = np.clip(np.array(interval(list(rows["free"])), dtype=float), 0, 100)
            stacked = place - 0.05 - rows.groupby("free").cumcount() * 0.13
            axes.plot(rows["free"], stacked, ".", color=look.colour, markersize=3.5, markeredgewidth=0)
            axes.plot(ends, [place + 0.22] * 2, color=look.colour)
            axes.plot([mean], [place + 0.22], color=look.colour, **look.mark(4.5))
    axes.set_yticks(range(len(names)), names)
    for words in axes.get_yticklabels():
        words.set_fontweight("bold" if words.get_text() in {*runs["column"]} else "normal")
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.set_title("Which share of the heads can go?", loc="right", fontsize=8)
    axes.set_xlabel("at a loss of half a BLEU, in steps of 10%", loc="right")


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
    intervals = np.array([interval(list(scores)) for _, scores in cells["score"]], dtype=float)
    table[["mean", "low", "high"]] = intervals[cells.ngroup()]
    return table.round(dict.fromkeys(("score", "mean", "low", "high"), DECIMALS))


def interval(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Mean and 95% t interval of it; None for what the values do not give, or too few of them (`FEW`)."""
    if any(math.isnan(value) for value in values):
        return None, None, None
    test = contrast([(1.0, Arm("", dict(enumerate(values))))])
    return (test.difference, test.low, test.high) if len(values) >= FEW else (test.difference, None, None)
