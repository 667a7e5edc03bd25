"""Textbook curves in three panels: two of the softmax by the sd of its logits, one of the variance of q·k by its size.

Drawn from random numbers with a fixed seed, nothing trained. n keys · σ standard deviation of the logits · d size of
the query and the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from study.analysis.figures import style
from study.config.mechanisms import SCALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KEYS = (8, 32, 128)
DEVIATIONS = np.logspace(-1.5, 2, 43)
SIZES = 2 ** np.arange(11)
SEED, DRAWS, PAIRS = 1, 2000, 20_000
SCALES = {
    name: (row.formula.replace("1/", "q·k / ") if row.divides else "q·k", 2 * row.power)
    for name, row in SCALE.items()
    if row.divides or row.formula == "1"
}
"""Scale ↦ (formula of the scaled product, power of d that it takes off the variance)."""
ABOVE = ((-4, 4, "right"), (0, 5, "center"), (4, 4, "left"))
"""Places of their names in this order: points right of and above a marker, and the alignment."""
BLUES = ("#9ecae1", "#4292c6", "#08306b")
"""From few keys to many: panel (c) has the colours of arms."""


def saturation(keys: int) -> pd.DataFrame:
    """Softmax of n independent logits N(0, σ²): the largest weight and H / ln n, means over draws, for every σ.

    The same draws at every σ, so that the curves are smooth; at σ → 0 they are exactly 1/n and 1.
    """
    logits = np.random.default_rng(SEED).standard_normal((DRAWS, keys))
    rows = []
    for deviation in DEVIATIONS:
        scaled = deviation * (logits - logits.max(1, keepdims=True))
        weights = np.exp(scaled)
        total = weights.sum(1, keepdims=True)
        weights /= total
        entropy = np.log(total[:, 0]) - (weights * scaled).sum(1)  # of Σ a (ln Z − s): no ln 0
        rows.append((keys, deviation, weights.max(1).mean(), entropy.mean() / np.log(keys)))
    return pd.DataFrame(rows, columns=["keys", "logit_sd", "largest_weight", "entropy"])


def variances() -> pd.DataFrame:
    """Return the variance of q·k for q, k ~ N(0, I_d), times the square of each scale: over drawn pairs, and exactly.

    Exactly it is d, since q·k is a sum of d independent products of variance 1; 1 with 1/√d, and 1/d with 1/d.
    """
    draw = np.random.default_rng(SEED)
    rows = []
    for d in map(int, SIZES):
        product = np.zeros(PAIRS)
        for _ in range(d):
            product += draw.standard_normal(PAIRS) * draw.standard_normal(PAIRS)
        drawn = product.var(ddof=1)
        rows += [(d, scale, drawn / d**power, float(d) ** (1 - power)) for scale, (_, power) in SCALES.items()]
    return pd.DataFrame(rows, columns=["d", "scale", "drawn", "exact"])


def points() -> pd.DataFrame:
    """Table of the figure: the curves of the panels `softmax`, and the products of the panel `variance`."""
    curves = pd.concat([saturation(keys) for keys in KEYS], ignore_index=True)
    products = variances()
    both = pd.concat([curves.assign(panel="softmax"), products.assign(panel="variance")])
    columns = ["panel", *curves.columns, *products.columns]
    return both[columns].astype({"keys": "Int64", "d": "Int64"})


@style.styled()
def draw(table: pd.DataFrame) -> Figure:
    """Three panels: the largest weight, the entropy, the variance of a score."""
    curves, products = (table[table["panel"] == name] for name in ("softmax", "variance"))
    figure, axes = style.subplots(1, 3, figsize=(style.PAGE, 2.35), width_ratios=[1, 1, 1.05])
    _saturation(axes[0], curves, "largest_weight", "largest weight")
    _saturation(axes[1], curves, "entropy", "entropy / ln n")
    _variances(axes[2], products)
    for letter, panel in zip("abc", axes, strict=True):
        panel.set_title(f"({letter}) {panel.get_title()}", loc="left")
        panel.set_title("")
        panel.spines[["top", "right"]].set_visible(False)
    return figure


def _saturation(axes: Axes, curves: pd.DataFrame, column: str, title: str) -> None:
    """One quantity against σ, a line a number of keys; and where q·k of d = 64 stands with and without its scale."""
    for colour, (keys, part) in zip(BLUES, curves.groupby("keys"), strict=True):
        axes.plot(part["logit_sd"], part[column], color=colour, label=f"n = {keys}")
    for deviation, text in ((1, "1/√d"), (8, "no scale,\nd = 64")):
        axes.axvline(deviation, color=style.GREY, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
        axes.annotate(
            text,
            (deviation, 1),
            xycoords=("data", "axes fraction"),
            xytext=(3, -1),
            textcoords="offset points",
            va="top",
            fontsize=6.5,
            color="#444444",
        )
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axes.set_ylim(0, 1.25)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".50", ".75", "1"])
    axes.set_xlabel("standard deviation of the logits")
    axes.set_title(title)
    if column == "largest_weight":
        axes.legend(loc="upper left", bbox_to_anchor=(0, 0.8), frameon=False, handlelength=1.2, borderaxespad=0.2)


def _variances(axes: Axes, products: pd.DataFrame) -> None:
    """Drawn variances as markers over the exact lines."""
    looks = style.palette(list(SCALES))
    for place, (scale, part) in enumerate(products.groupby("scale", sort=False)):
        colour, marker = looks[str(scale)].colour, looks[str(scale)].marker
        axes.plot(part["d"], part["exact"], color=colour, linewidth=1.0, zorder=2)
        axes.plot(part["d"], part["drawn"], marker, color=colour, markersize=3.5, markeredgecolor="white", zorder=3)
        middle, (right, up, alignment) = part.iloc[len(part) // 2], ABOVE[place % len(ABOVE)]
        axes.annotate(
            SCALES[str(scale)][0],
            (middle["d"], middle["exact"]),
            xytext=(right, up),
            textcoords="offset points",
            ha=alignment,
            color=colour,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("size d of query and key")
    axes.set_title("variance of a score")
