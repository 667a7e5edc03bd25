"""Style of all figures, and a writer that turns the same data into the same bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from study import files, lettering
from study.config import mechanisms
from study.config.mechanisms import VARIANTS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure, FigureBase

COLUMN, PAGE = 3.3, 6.9
"""Printed widths in inches: one column, the whole page. Figures are drawn at the size at which they are read."""
GREY = "#7a7a7a"
MARKERS, HOLLOW = "osD^vPX*<>", "sD<>v^o*"
"""Markers of arms, and of variants in the order of `VARIANTS`."""
DPI, SCREEN = 200, 130
"""Pixels per inch of a file, and in a notebook."""
SMALL = 7
"""The smallest letters, in points at printed size."""
COLOURS = (0, 1, 2, 3, 4, 9, 5, 8, 6)
"""Seaborn's `colorblind` in the order in which it is used: without its grey, which is the baseline's, the pale last."""

ARMS = {axis: tuple(mechanisms.AXES[axis]) for axis in mechanisms.COLOURED} | {
    "order": ("random", "gradient", "gradient_normalised", "weight_norm", "leave_one_out", "greedy", "gates"),
}
"""Field ↦ its values in the order of colours and markers, so that an arm always looks alike; first the base arm's."""
SETTINGS: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "lines.linewidth": 1.2,
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#555555",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.linewidth": 0.5,
    "grid.color": "#e3e3e3",
    "xtick.bottom": True,
    "xtick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "svg.hashsalt": "attention-ablation",
    "svg.fonttype": "path",
    "figure.constrained_layout.use": True,
    "savefig.dpi": DPI,
    "figure.dpi": 100,
}
ABOVE: dict[str, Any] = {"loc": "outside upper left", "alignment": "left", "frameon": False, "borderaxespad": 0.1}
"""Settings of a legend above all panels."""
NAMED = re.compile(r"(?<=[\"#])([a-z])[0-9a-f]{10}(?=[\")])")


@contextmanager
def styled() -> Iterator[None]:
    """Draw under the house style, also as a decorator: `@styled()`. Settings are put back; no backend is chosen."""
    import matplotlib
    import seaborn as sns

    with matplotlib.rc_context():
        settings = SETTINGS | lettering.settings()  # before the theme changes the reader's fonts
        sns.set_theme(style="whitegrid", context="paper", palette="colorblind", rc=settings)
        yield


def subplots(
    rows: int = 1, columns: int = 1, figsize: tuple[float, float] | None = None, **grid: Any
) -> tuple[Figure, Any]:
    """Return a figure with a grid of axes, as `pyplot.subplots` makes it, which no window and no global list knows."""
    figure = NotebookFigure(figsize=figsize)
    return figure, figure.subplots(rows, columns, **grid)


def heading(figure: FigureBase, words: str) -> None:
    """Write what a figure or a half of it shows, as a question or in a few words, above all else, also its legend."""
    if figure.legends:
        figure.legends[0].set_title(words)
        figure.legends[0].get_title().set(fontsize=9, fontweight="bold")
    else:
        figure.suptitle(words, x=0.01, ha="left", fontsize=9, fontweight="bold")


class NotebookFigure(lettering.TextFigure):
    """A figure that a notebook shows by itself, whatever its backend."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        with styled():
            self.savefig(buffer, format="png", dpi=SCREEN, metadata={"Software": None})
        return buffer.getvalue()


@dataclass(frozen=True)
class Look:
    """Style of an arm's marks. Variants of an arm share its colour, with hollow markers and dashed lines."""

    colour: Any
    marker: str = "o"
    hollow: bool = False

    @property
    def line(self) -> Literal["-", "--"]:
        """Style of its line."""
        return "--" if self.hollow else "-"

    def mark(self, size: float) -> dict[str, Any]:
        """Return the settings of its marker."""
        fill, edge, width = ("white", self.colour, 0.8) if self.hollow else (self.colour, "white", 0.5)
        settings = {"marker": self.marker, "markersize": size, "markerfacecolor": fill}
        return settings | {"markeredgecolor": edge, "markeredgewidth": width}


def look(arm: str) -> Look:
    """Return the look of an arm such as `scale=none` or `scale=none logit_init=matched`, the same in every figure."""
    import seaborn as sns

    first, _, variant = arm.partition(" ")
    field, _, value = first.partition("=")
    place = ARMS[field].index(value)
    colour = sns.color_palette("colorblind").as_hex()[COLOURS[(place - 1) % len(COLOURS)]] if place else GREY
    if variant:
        return Look(colour, HOLLOW[VARIANTS.index(variant) if variant in VARIANTS else len(VARIANTS)], hollow=True)
    return Look(colour, MARKERS[place % len(MARKERS)])


@styled()
def write(figure: Figure, data: pd.DataFrame, path: Path) -> list[Path]:
    """Write a figure and its data: `path` with the endings .svg and .csv, without dates.

    Returns:
        The paths written.

    Raises:
        OSError: a file cannot be written.
    """
    picture, table = (path.with_name(path.name + suffix) for suffix in (".svg", ".csv"))
    write_picture(figure, picture)
    files.write(table, data.to_csv(index=False, lineterminator="\n"))
    return [picture, table]


@styled()
def write_picture(figure: Figure, path: Path) -> None:
    """Write a figure as a PNG, or as an SVG or PDF if the name ends so; without dates.

    Raises:
        OSError: the file cannot be written.
    """
    with files.replacing(path) as temporary:
        if path.suffix == ".svg":
            figure.savefig(temporary, metadata={"Date": None, "Creator": None}, format="svg")
            temporary.write_text(renamed(temporary.read_text(encoding="utf-8")), encoding="utf-8")
        elif path.suffix == ".pdf":
            figure.savefig(temporary, metadata={"CreationDate": None}, format="pdf")
        else:
            figure.savefig(temporary, metadata={"Software": None}, format="png")


def renamed(svg: str) -> str:
    """Markers and clips numbered in the order of the text, `m1`, `p2`.

    matplotlib names them by a hash of coordinates to the last bit, and the layout that gives these is not exact: two
    processes may differ in names where every number that is printed is the same.
    """
    names: dict[str, str] = {}
    return NAMED.sub(lambda found: names.setdefault(found[0], f"{found[1]}{len(names) + 1}"), svg)
