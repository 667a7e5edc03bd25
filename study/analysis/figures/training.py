"""Figure of attention through training: entropy of the weights, largest logit, and weight on gold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from study.analysis.figures import panels, style
from study.analysis.figures.scaling import FREE, INIT, SCORE, at_base
from study.analysis.figures.source import CROSS, Sweep, arm, base_of, first_of_family, size_of, with_means
from study.analysis.inference import FEW
from study.analysis.labels import arm_words
from study.analysis.runs import DeclaredRun

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SITE = "cross"
QUANTITIES = {
    "valid_exact": "exact match, %\n(validation)",
    "entropy": "entropy, 0–1",
    "logit_max": "largest logit",
    "gold_mass": "weight on gold",
}
"""Name in the history ↦ words. Diagnostics are the mean over layers and heads."""

WIDE = 30.0
"""Values whose largest is so many times the smallest stand on a logarithmic axis."""


def by_size(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """Panels by family, score and size at the baseline's rate; a line a scale."""
    (sweep,) = sweeps
    runs = [run for run in sweep.comparable(*FREE) if size_of(run) is not None]
    bases = first_of_family(runs)
    kept = [run for run in runs if at_base(run, base_of(run, bases))]
    order = list(dict.fromkeys((run.at("model.family"), run.at(SCORE)) for run in kept))
    kept.sort(key=lambda run: (order.index((run.at("model.family"), run.at(SCORE))), size_of(run)))
    return _table(
        kept,
        lambda run: f"{run.at('model.family')},\n{arm_words('score=' + run.at(SCORE))}, d = {size_of(run)}",
        lambda run: arm(run, base_of(run, bases), f"{CROSS}.scale", INIT),
    )


def by_width(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """Panels by the model's width; a line an initial state of the decoder."""
    (sweep,) = sweeps
    runs = sweep.comparable("width", "init", "encoder_width", "key_width", "value_width")
    bases = first_of_family(runs)
    return _table(
        runs,
        lambda run: f"states of width {run.at('model.width')}",
        lambda run: arm(run, base_of(run, bases), "model.init"),
    )


def _table(
    runs: Sequence[DeclaredRun], column: Callable[[DeclaredRun], str], line: Callable[[DeclaredRun], str]
) -> pd.DataFrame:
    rows = []
    for name in QUANTITIES:
        for run in runs:
            place = {"row": name, "column": column(run), "line": line(run)}
            facts = {"seed": run.experiment.seed, "id": run.id, "state": run.state}
            seen = [{"x": x, "score": value} for x, value in history(run, name)]
            rows += [place | at | facts for at in seen or [{"x": None, "score": None}]]
    known = {row["row"] for row in rows if row["score"] is not None}
    table = with_means([row for row in rows if row["row"] in known])
    return table if table.empty else whole(table).astype({"x": "Int64"})


def history(run: DeclaredRun, name: str) -> list[tuple[int, float | None]]:
    """(Step, value) over the validations of a run, of a quantity of the history itself or of its site."""
    points = run.record.history if run.record else []
    found = [(p["step"], p.get(name, (p.get("diagnostics") or {}).get(SITE, {}).get(name))) for p in points]
    return found if any(value is not None for _, value in found) else []


@style.styled()
def draw(table: pd.DataFrame) -> Figure:
    """Rows of panels by quantity, columns by arm; a thin line a run, a thick one the mean in its interval."""
    rows, columns, lines = (list(dict.fromkeys(table[name])) for name in ("row", "column", "line"))
    looks = panels.arm_looks(lines)
    size = (style.PAGE, 1.15 * len(rows) + 1.0)
    figure, grid = style.subplots(len(rows), len(columns), figsize=size, sharex=True, sharey="row", squeeze=False)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            axes = grid[i][j]
            panel = table[(table["row"] == row) & (table["column"] == column)]
            for line, look in looks.items():
                _curves(axes, panel[panel["line"] == line], look)
            axes.set_title(column if i == 0 else "", loc="left", fontsize=8)
            axes.grid(False, axis="x")
            axes.spines[["top", "right"]].set_visible(False)
        _vertical(grid[i][0], [float(v) for v in table[table["row"] == row]["score"].dropna()])
        grid[i][0].set_ylabel(QUANTITIES[row], fontsize=7.5)
    for axes in grid[-1]:
        axes.set_xlabel("step")
    panels.legend(figure, looks, table)
    panels.key(
        figure, f"thin line: a run · thick line: mean · band: its 95% t interval, unadjusted, of {FEW} runs or more"
    )
    figure.align_ylabels()
    return figure


def whole(table: pd.DataFrame) -> pd.DataFrame:
    """The means only where no run of the arm is missing: an arm's mean ends where its first run does."""
    runs = table.groupby(["row", "column", "line"])["id"].transform("nunique")
    here = table.groupby(["row", "column", "line", "x"])["id"].transform("nunique")
    return table.assign(**{name: table[name].where(runs == here) for name in ("mean", "low", "high")})


def _curves(axes: Axes, rows: pd.DataFrame, look: style.Look) -> None:
    if rows["x"].isna().any():
        axes.plot(0.95, 0.07, color=look.colour, transform=axes.transAxes, **panels.ABSENT["hole"])
    for _, run in rows.dropna(subset=["x"]).groupby("id", sort=False):
        axes.plot(list(run["x"]), list(run["score"]), look.line, color=look.colour, linewidth=0.5, alpha=0.45)
        if run["state"].iloc[0] == "diverged":
            axes.plot(run["x"].iloc[-1], run["score"].iloc[-1], "x", color=look.colour, markersize=4, zorder=5)
    means = rows.drop_duplicates("x").dropna(subset=["mean"]).sort_values("x")
    x = list(means["x"])
    axes.fill_between(x, list(means["low"]), list(means["high"]), color=look.colour, alpha=0.15, linewidth=0)
    axes.plot(
        x,
        list(means["mean"]),
        look.line,
        color=look.colour,
        zorder=4,
        **panels.mark(look, 3.5),
    )


def _vertical(axes: Axes, values: list[float]) -> None:
    """The range of the runs (not of wide bands); logarithmic where it is wide, and positive, and no share of 1."""
    low, high = min(values), max(values)
    if low > 0 and high > max(1.0, WIDE * low):
        axes.set_yscale("log")
        axes.set_ylim(low / 1.3, high * 1.3)
    else:
        room = 0.06 * (high - low or 1.0)
        axes.set_ylim(low - room, high + room)
