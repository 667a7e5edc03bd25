"""Diagnostics as they are kept: whole in the history's file and in W&B, short in the record, which stays small."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from study.training.diagnostics.diagnose import Diagnostics
from study.training.points import NAMES

KEPT = ("logit_max", "entropy", "spread", "gold_mass")
"""Means over layers and heads that a record's history has, where they mean something. The history's file has every
measure of every head."""

DIGITS = 4
"""Significant digits of a diagnostic in a record."""


def site_means(diagnostics: Diagnostics) -> dict[str, dict[str, float | None]]:
    """The mean over layers and heads of every measure, by site; None where no head has a value."""
    names = (*NAMES, "state_mean", "state_variance")
    return {
        site: {name: _mean([value for layer in layers for value in _each(layer[name])]) for name in names}
        for site, layers in diagnostics.items()
    }


def _each(values: list[float | None] | float | None) -> list[float | None]:
    """The values of all heads, or the one of the layer."""
    return values if isinstance(values, list) else [values]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def for_record(last: Diagnostics, initial: Diagnostics, gradients: dict[str, Any]) -> dict[str, Any]:
    """A record's diagnostics: site ↦ layers ↦ name ↦ one value a head, and beside the sites `gradients` by moment.

    Those of the last validation; the heads' standard deviations of logits at step 0 are beside them.
    """
    sites = {
        site: [{**layer, "logit_sd_step_0": initial[site][i]["logit_sd"]} for i, layer in enumerate(layers)]
        for site, layers in last.items()
    }
    tree: dict[str, Any] = brief({**sites, "gradients": gradients} if sites else {})
    return tree


def in_history(diagnostics: Diagnostics) -> dict[str, Any]:
    """Return a validation's diagnostics for the history: the means as `diagnostics`, the values of heads as `heads`."""
    return {"diagnostics": site_means(diagnostics), "heads": brief(diagnostics)}


def short(point: dict[str, Any]) -> dict[str, Any]:
    """A point of the history as the record keeps it."""
    sites = point["diagnostics"].items()
    kept = {site: {name: values[name] for name in KEPT if values[name] is not None} for site, values in sites}
    return {name: value for name, value in point.items() if name != "heads"} | {"diagnostics": brief(kept)}


def brief(tree: Any) -> Any:
    """Every float rounded to `DIGITS` significant digits; NaN and ∞ become None."""
    if isinstance(tree, float):
        return float(f"{tree:.{DIGITS}g}") if math.isfinite(tree) else None
    if isinstance(tree, dict):
        return {key: brief(value) for key, value in tree.items()}
    return [brief(item) for item in tree] if isinstance(tree, list | tuple) else tree
