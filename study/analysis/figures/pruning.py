"""Figure of pruning: BLEU against the share of removed heads, by site and by order of removal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from study.analysis import labels
from study.analysis.figures import panels, style
from study.analysis.figures.source import Sweep, point, with_means
from study.analysis.inference import FEW
from study.metrics import KEPT

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SITES = {site: labels.setting("site", site) for site in ("all", "encoder_self", "decoder_self", "cross")}
"""In the order of reading."""
FREE = ("site", "order", "draws", "penalty", "gate_steps")
"""Fields in which the runs of the figure may differ."""
SCORE, SHARE = "bleu", "free"
CHANCE = "order=random"


def points(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """A panel a site, a line an order; x is the percentage of heads gone, `free` how many of them went for free."""
    (sweep,) = sweeps
    split = sweep.spec.metric[0]
    metric, rows = f"{split}/{SCORE}", []
    runs = sweep.comparable(*FREE, where=lambda run: bool(run.at("pruning.question") == "curve"))
    for run in sorted(runs, key=lambda run: list(SITES).index(run.at("pruning.site"))):
        line, column = f"order={run.at('pruning.order')}", SITES[run.at("pruning.site")]
        free = run.score(f"{split}/{SHARE}")
        for tenth, subset in enumerate(reversed(KEPT)):
            score = run.score(metric, subset)
            rows.append(point(run, metric, line, 10 * tenth, column=column, score=score, free=free))
    return with_means(rows)


@style.styled()
def draw(table: pd.DataFrame) -> Figure:
    """Two panels in a row; thin lines the runs, thick ones their means, with a band of random orders and bars else."""
    columns, lines = (list(dict.fromkeys(table[name])) for name in ("column", "line"))
    looks = panels.arm_looks(lines)
    wide = min(2, len(columns))
    rows = -(-len(columns) // wide)
    figure, grid = style.subplots(
        rows, wide, figsize=(style.PAGE if wide > 1 else style.COLUMN, 2.0 * rows + 0.9), sharex=True, sharey=True,
        squeeze=False,
    )  # fmt: skip
    for i, axes in enumerate(grid.flat):
        axes.set_visible(i < len(columns))
        if i < len(columns):
            _panel(axes, table[table["column"] == columns[i]], looks)
            axes.set_title(columns[i], loc="left", fontsize=8)
            axes.set_ylabel("BLEU" if i % wide == 0 else "")
            below = i + wide >= len(columns)
            axes.set_xlabel("heads removed, %" if below else "")
            axes.tick_params(labelbottom=below)
    panels.limit(grid[0][0], table)
    panels.legend(figure, looks, table)
    panels.key(figure, KEY)
    return figure


KEY = (
    f"thin line: a run (in random orders the mean of several) · thick line: mean · bar, and band of random orders: its "
    f"95% t interval, unadjusted, of {FEW} runs or more"
)


def _panel(axes: Axes, rows: pd.DataFrame, looks: dict[str, style.Look]) -> None:
    here = [line for line in looks if (rows["line"] == line).any()]
    for i, line in enumerate(here):
        aside = 0.0 if line == CHANCE else 0.9 * (i - len(here) / 2)
        _curves(axes, rows[rows["line"] == line], looks[line], line == CHANCE, aside)
        for absence in panels.missing_marks(rows[rows["line"] == line]):
            settings = panels.ABSENT[absence] | {"transform": axes.get_xaxis_transform(), "clip_on": False}
            axes.plot(4 * i, 0.035, color=looks[line].colour, **settings)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlim(-4, 104)
    axes.grid(False, axis="x")
    axes.spines[["top", "right"]].set_visible(False)


def _curves(axes: Axes, rows: pd.DataFrame, look: style.Look, band: bool, aside: float) -> None:
    """One order: its runs, and where none is missing its mean, with the interval so far aside that bars stay apart."""
    for _, run in rows.groupby("id", sort=False):
        axes.plot(list(run["x"]), list(run["score"]), look.line, color=look.colour, linewidth=0.4, alpha=0.35, zorder=2)
    means = rows.drop_duplicates("x").dropna(subset=["mean"]).sort_values("x")
    x, low, high = (list(means[name]) for name in ("x", "low", "high"))
    if band:
        axes.fill_between(x, low, high, color=look.colour, alpha=0.25, linewidth=0, zorder=1)
    else:
        axes.vlines([place + aside for place in x], low, high, color=look.colour, linewidth=0.8, alpha=0.9, zorder=3)
    axes.plot(x, list(means["mean"]), look.line, color=look.colour, linewidth=1.2, zorder=4, **panels.mark(look, 3))
