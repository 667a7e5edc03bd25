"""Saturation of the softmax: weights and gradient for dot products of d terms, with 1/√d and unscaled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from study.analysis.figures import panels, style
from study.analysis.labels import arm_words, tick

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

POWERS = {"scale=none": 0.0, "scale=rsqrt": -0.5}
"""Arm ↦ p, if the logits are dot products times d to the power p."""
DRAWS, SEED = 1000, 1
PANELS = {
    "largest": "largest weight",
    "entropy": "entropy / log S",
    "gradient": "gradient: Σ|∂aᵢ/∂zⱼ|",
}
"""Column of `points` ↦ the label of its panel."""


def jacobian(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ∂a_i/∂z_j = a_i (δ_ij − a_j) of a = softmax(z): weights [..., S] ↦ [..., S, S]."""
    outer: NDArray[np.float64] = weights[..., :, None] * weights[..., None, :]
    return weights[..., None] * np.eye(weights.shape[-1]) - outer


def points(d: Sequence[int], slots: int) -> pd.DataFrame:
    """Return means over draws, one row for each arm and d: arm, d, largest, entropy, gradient.

    Entries of the query and of the S keys are independent standard normals. Given the query q [d], its dot products
    with the keys are independent normals with standard deviation |q|, and |q|² has the χ² distribution with d degrees
    of freedom. So the draws are of |q|, and of S normals, the same for every d.
    """
    import pandas as pd
    from scipy.special import entr, softmax

    random = np.random.default_rng(SEED)
    normals = random.standard_normal((DRAWS, slots))
    lengths = {width: np.sqrt(random.chisquare(width, (DRAWS, 1))) for width in d}
    rows = []
    for arm, power in POWERS.items():
        for width, length in lengths.items():
            weights = softmax(normals * length * float(width) ** power, axis=-1)
            values = {
                "largest": weights.max(axis=-1).mean(),
                "entropy": entr(weights).sum(axis=-1).mean() / np.log(slots),
                "gradient": np.abs(jacobian(weights)).sum(axis=(-2, -1)).mean(),
            }
            rows.append({"arm": arm, "d": width, **values})
    return pd.DataFrame(rows)


@style.styled()
def draw(table: pd.DataFrame, slots: int) -> Figure:
    """Return the figure: panels of the largest weight, the entropy and the gradient over d, a line for each arm."""
    figure, axes = style.subplots(1, len(PANELS), (style.PAGE, 2.4))
    uniform = {"largest": 1 / slots, "entropy": 1.0, "gradient": 2 * (1 - 1 / slots)}
    for panel, (name, label) in zip(axes, PANELS.items(), strict=True):
        panel.axhline(uniform[name], color=style.GREY, linewidth=0.8, linestyle=":")
        for arm, rows in table.groupby("arm", sort=False):
            look = style.look(str(arm))
            panel.plot(rows["d"], rows[name], color=look.colour, **look.mark(4))
            words, last = arm_words(str(arm)), (rows["d"].iloc[-1], rows[name].iloc[-1])
            if name == "largest":
                panel.annotate(words, last, (0, -20), textcoords="offset points", ha="right", color=look.colour)
        panel.set_xscale("log", base=2)
        panel.xaxis.set_major_formatter(lambda width, _: tick(width))
        panel.set(xlabel="d", title=label, ylim=(0, 1.05 * max(uniform[name], table[name].max())))
    panels.key(figure, f"{slots} slots, mean over {DRAWS:,} draws · dotted: equal weights")
    return figure
