"""The picture of the study: exact match by the size of the dot product, and what attention reads with and without 1/√d.

Its lines are three of the figure `scale`, at one learning rate.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from study import attention_map
from study.analysis.figures import multiples, panels, style
from study.analysis.runs import Runs
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WITHOUT = "without a scale"
LINES = {"1/d": "#a86200", "1/√d": "#4d4d4d", WITHOUT: "#0072b2"}
"""Line ↦ its colour, that of the arm in other figures, dark enough for letters."""
ARMS = {"scale=inverse": "1/d", "scale=rsqrt": "1/√d", "scale=none": WITHOUT}
"""Line of the figure `scale` ↦ line of this one."""
SPOTS = {
    "recurrent": {"1/d": (1024, 90), "1/√d": (1024, 71), WITHOUT: (17, 12)},
    "transformer": {"1/d": (1024, 92), "1/√d": (80, 66), WITHOUT: (1024, 42)},
}
"""Family and line ↦ the d and the percentage at which the name of the line stands."""
HEADINGS = ("Sentences translated exactly, %", "Attention at d = 512 (recurrent)")
"""What the lines and the maps show."""
MAPS = {"with 1/√d": "grammar-recurrent-dot-10a1cf6c-s1", WITHOUT: "grammar-recurrent-dot-6b079020-s1"}
"""Published runs of recurrent models with d = 512 whose maps are drawn."""
TICKS = (16, 64, 256, 1024)
PHONE, LETTERS = 3.75, 8
"""Inches of the narrow picture, and points of its smallest letters: on the screen of a phone they are larger."""
COLUMNS = ["column", "line", "x", "id", "score", "content"]
"""Family, line, d, run and exact match; of a map what `attention.json` has."""


def points(runs: Runs, *specs: Spec) -> pd.DataFrame:
    """Return one row a run and one row a map: `COLUMNS`."""
    import pandas as pd

    table = multiples.scale_points(runs, *specs)
    if table.empty:
        return table
    drawn = table["line"].isin(ARMS) & (table["x"] >= TICKS[0])
    table = table[drawn].assign(line=table["line"].map(ARMS))
    maps = []
    for line, identity in MAPS.items():
        content = runs.store.content(identity, "attention.json") if identity in runs.store else None
        if content:
            maps.append({"column": "map", "line": line, "id": identity, "content": content.decode("utf-8").strip()})
    table = pd.concat([table, pd.DataFrame(maps)]).reindex(columns=COLUMNS)
    return table.sort_values(["column", "line", "x", "id"], kind="stable")


@style.styled()
def draw(table: pd.DataFrame, narrow: bool = False) -> Figure:
    """Draw a panel for each family, and the two maps: beside them, or below them if the picture is narrow."""
    maps = table[table["column"] == "map"]
    figure = style.NotebookFigure(figsize=(PHONE, 5.2) if narrow else (style.PAGE, 2.9))
    shape: dict[str, Any] = (
        {"nrows": 2, "height_ratios": [1, 1.45]} if narrow else {"ncols": 2, "width_ratios": [1.3, 1]}
    )
    parts = list(figure.subfigures(squeeze=False, **shape).flat) if len(maps) else [figure]
    panes = [
        part.subplots(1, count, squeeze=False).flat for part, count in zip(parts, (len(SPOTS), len(maps)), strict=False)
    ]
    for part, words in zip(parts, HEADINGS, strict=False):
        style.heading(part, words)
    small = LETTERS if narrow else style.SMALL
    for i, (axes, family) in enumerate(zip(panes[0], SPOTS, strict=True)):
        _lines(axes, table[table["column"] == family], family)
        axes.set_title(family, loc="left", fontsize=LETTERS)
        axes.set_xlabel("key width d")
        axes.tick_params(labelsize=small, labelleft=i == 0)
    for i, (axes, (_, row)) in enumerate(zip(panes[-1], maps.iterrows(), strict=False)):
        attention = json.loads(row["content"])
        attention_map.draw(axes, attention)
        for frame in axes.patches:  # the colour of attention_map is that of 1/d here
            frame.set_edgecolor("black")
        colour = LINES.get(row["line"].replace("with ", ""), LINES[WITHOUT])
        axes.set_title(row["line"], loc="left", fontsize=LETTERS, color=colour)
        axes.set_xticks(axes.get_xticks(), attention["source"], rotation=90, ha="center", rotation_mode="default")
        axes.tick_params(labelsize=small, labelleft=i == 0)
        axes.set_xlabel("German")
        axes.set_ylabel("" if i else "English")
    return figure


def _lines(axes: Axes, rows: pd.DataFrame, family: str) -> None:
    """Draw the lines of a family over d, a dot for each run, and their names on them."""
    axes.set_xscale("log", base=2)
    for line, colour in LINES.items():
        of_line = rows[rows["line"] == line]
        means = of_line.groupby("x")["score"].mean()
        axes.plot(of_line["x"], of_line["score"], ".", color=colour, markersize=3, alpha=0.6, markeredgewidth=0)
        axes.plot(means.index, means, color=colour, linewidth=1.8)
        d, height = SPOTS[family][line]
        axes.text(d, height, line, color=colour, ha="right" if d == 1024 else "left", weight="bold", fontsize=LETTERS)
    axes.set_xticks(TICKS, [f"{d:,}" for d in TICKS])
    axes.get_xticklabels()[-1].set_horizontalalignment("right")
    axes.set_xticks([], minor=True)
    axes.set_ylim(0, 100)
    axes.grid(False, axis="x")
    for spine in axes.spines.values():
        spine.set_color(panels.INK)
