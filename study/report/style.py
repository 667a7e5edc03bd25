"""How every figure looks, and how it is written so that the same data give the same bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.3, 6.9
"""Printed widths in inches: one column, the whole page. Figures are drawn at the size at which they are read."""

GREY = "#7a7a7a"
MARKERS = "osD^vPX*<>"
DPI = 200

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
    "grid.linewidth": 0.5,
    "grid.color": "#e3e3e3",
    "xtick.bottom": True,
    "xtick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "svg.hashsalt": "attention-ablation",
    "svg.fonttype": "path",
    "figure.constrained_layout.use": True,
    "savefig.dpi": DPI,
}


@contextmanager
def styled() -> Iterator[Any]:
    """`matplotlib.pyplot` under the house style, without a display; figures are closed afterwards."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns

    with matplotlib.rc_context():
        sns.set_theme(style="whitegrid", context="paper", palette="colorblind", font="DejaVu Sans", rc=SETTINGS)
        try:
            yield plt
        finally:
            plt.close("all")


def palette(labels: list[str], baseline: str | None = None) -> dict[str, tuple[Any, str]]:
    """Label ↦ (colour, marker): by position in the sweep, so that an arm keeps both; the baseline is grey.

    Colours repeat after ten arms and markers after nine, so that the pair does not.
    """
    import seaborn as sns

    colours = sns.color_palette("colorblind")
    looks: dict[str, tuple[Any, str]] = {}
    for i, label in enumerate(label for label in labels if label != baseline):
        looks[label] = (colours[i % len(colours)], MARKERS[1 + i % (len(MARKERS) - 1)])
    return looks | ({baseline: (GREY, MARKERS[0])} if baseline else {})


def save(figure: Figure, path: Path) -> list[Path]:
    """Write `path` with the endings .svg and .png, without dates; missing folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for suffix, metadata in ((".svg", {"Date": None, "Creator": None}), (".png", {"Software": None})):
        target = path.with_name(path.name + suffix)
        temporary = path.with_name(f".{path.name}.{os.getpid()}{suffix}")
        figure.savefig(temporary, metadata=metadata)
        os.replace(temporary, target)
        written.append(target)
    return written
