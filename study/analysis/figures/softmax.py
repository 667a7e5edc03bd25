"""Why a scale: the softmax of dot products of random vectors, by their size. Nothing is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from study.analysis.figures import style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SIZES = tuple(2**power for power in range(1, 11))
SCALES = {"1": 0.0, "1/√d": 0.5, "1/d": 1.0}
"""Scale in words ↦ the power of 1/d."""
PANELS = {"entropy": "entropy, share of ln n", "largest": "largest weight", "gradient": "gradient ‖∂a/∂e‖"}
DRAWS = 2000


def table(keys: int = 10) -> pd.DataFrame:
    """Return the means over random queries and keys, entries from N(0, 1), one row for each scale and size d.

    With e_j = scale · q·k_j and a = softmax(e), [n]: entropy −Σ a ln a / ln n, the largest a, and the Frobenius norm of
    the Jacobian diag(a) − a aᵀ, which is what a gradient is multiplied by on its way to queries and keys.

    Args:
        keys: number of keys, n, at least 2.
    """
    import pandas as pd

    rows = []
    for size in SIZES:
        random = np.random.default_rng(1)
        dot = np.einsum("bd,bnd->bn", random.normal(size=(DRAWS, size)), random.normal(size=(DRAWS, keys, size)))
        for name, power in SCALES.items():
            logits = dot / size**power
            weights = np.exp(logits - logits.max(1, keepdims=True))
            weights /= weights.sum(1, keepdims=True)
            square, cube = (weights**2).sum(1), (weights**3).sum(1)
            spread = -(weights * np.log(np.maximum(weights, 1e-300))).sum(1) / np.log(keys)
            # ‖diag(a) − a aᵀ‖² = Σ a² − 2 Σ a³ + (Σ a²)²
            norm = np.sqrt(np.maximum(square - 2 * cube + square**2, 0))
            means = zip(PANELS, (spread, weights.max(1), norm), strict=True)
            rows.append({"scale": name, "d": size} | {panel: float(values.mean()) for panel, values in means})
    return pd.DataFrame(rows)


@style.styled()
def draw_softmax(keys: int = 10) -> Figure:
    """Draw `table`: three panels, a line for each scale. Unscaled, the gradient fades as d grows."""
    import seaborn as sns

    frame = table(keys)
    figure, axes = style.subplots(1, len(PANELS), figsize=(style.PAGE, 2.3))
    for one, (panel, title) in zip(axes, PANELS.items(), strict=True):
        sns.lineplot(frame, x="d", y=panel, hue="scale", style="scale", markers=True, ax=one, legend=panel == "entropy")
        one.set(xlabel="size d of query and key", ylabel="", ylim=(0, None))
        one.set_xscale("log", base=2)
        one.set_title(title, loc="left")
    figure.suptitle(f"Softmax over {keys} dot products of random vectors", fontsize=8.5, x=0.01, ha="left")
    return figure
