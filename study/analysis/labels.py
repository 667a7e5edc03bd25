"""Labels of tables and figures: numbers, arms and axes as they are printed."""

from __future__ import annotations

from typing import Any

from study import metrics
from study.config.mechanisms import AXES

NOTHING = "–"
VALUES: dict[tuple[str, str], str] = {
    (axis, name): row.label for axis, rows in AXES.items() for name, row in rows.items() if row.label
} | {
    ("bidirectional", "true"): "encoder in both directions",
    ("bidirectional", "false"): "encoder from left to right",
    ("equal_start", "true"): "equal start",
    ("equal_start", "false"): "unequal start",
    ("exclude_self", "true"): "self masked",
    ("exclude_self", "false"): "self visible",
    ("floor", "blind"): "a guess without looking",
    ("floor", "confused"): "by the largest weights of symmetric scores",
    ("input_feeding", "true"): "input feeding",
    ("input_feeding", "false"): "no input feeding",
    ("order", "gradient_normalised"): "gradient, by layer",
    ("order", "leave_one_out"): "leave one out",
    ("order", "random"): "random orders",
    ("site", "all"): "all sites",
    ("site", "cross"): "cross-attention",
    ("site", "decoder_self"): "decoder self-attention",
    ("site", "encoder_self"): "encoder self-attention",
    ("question", "best_head"): "one head a layer",
    ("question", "curve"): "heads removed step by step",
    ("question", "each_head"): "each head by itself",
    ("question", "retrain"): "retrained with the mask",
}
"""(field, value) ↦ its words, where the value does not speak for itself."""
PLAIN = (*AXES, "family", "name", "order", "site", "structure")
"""Fields whose values speak for themselves."""
NOUNS = {"window": "half-width of the window"}
COUNTED = {"annotations": "annotation", "draws": "draw", "heads": "head", "layers": "layer", "targets": "target"}
"""Fields that count things ↦ one of them."""


def arm_words(label: str) -> str:
    """Return the label of an arm or facet in words: `scale=none key_width=512` ↦ `unscaled, key width 512`."""
    return ", ".join(setting(*token.partition("=")[::2]) for token in label.split())


def setting(name: str, value: str) -> str:
    """Return one field and its value in words.

    Args:
        name: the field, also with its section: `heads`, `encoder_self.score`, `model.memory`.
        value: as labels have it.
    """
    *sections, field = name.split(".")
    where = next((f" in {VALUES['site', section]}" for section in sections if ("site", section) in VALUES), "")
    if (field, value) in VALUES:
        return VALUES[field, value] + where
    if not value:
        return field.replace("_", " ")
    if field in PLAIN:
        return value.partition("@")[0].rpartition(":")[2].replace("_", " ") + where
    if field in COUNTED:
        return f"{value} {COUNTED[field]}{'' if value == '1' else 's'}{where}"
    return f"{NOUNS.get(field, field.replace('_', ' '))} {value}{where}"


def number(value: float | None, digits: int = 1, sign: bool = False) -> str:
    """`-3.14159` ↦ `−3.1`, with a true minus sign and no negative zero; a dash for None and NaN."""
    if value is None or value != value:
        return NOTHING
    rounded = round(value, digits) + 0.0
    return f"{rounded:{'+' if sign and rounded else ''},.{digits}f}".replace("-", "−")


def interval(low: float | None, high: float | None, digits: int, sign: bool = True) -> str:
    """`[−1.2, +0.4]`, or a dash where there is none."""
    if low is None or high is None:
        return NOTHING
    return f"[{number(low, digits, sign)}, {number(high, digits, sign)}]"


def p_value(p: float | None) -> str:
    """Three decimals, without the zero that every p begins with: `.012`; below .001 one digit and exponent: `3e-6`."""
    if p is None:
        return NOTHING
    if p == 0:
        return "<1e-300"
    return f"{p:.3f}".removeprefix("0") if p >= 0.001 else f"{p:.0e}".replace("e-0", "e-")


def mean_sd(mean: float | None, sd: float | None, digits: int) -> str:
    """`83.4 ± 1.2`, without the second part where there is one run."""
    return number(mean, digits) if sd is None else f"{number(mean, digits)} ± {number(sd, digits)}"


def axis(metric: str) -> str:
    """`test/exact` ↦ `exact match, %`; other splits than test are named."""
    split = metric.partition("/")[0]
    return metrics.title(metric) + ("" if split == "test" else f" ({split})")


def tick(value: Any) -> str:
    """Return a place on an axis: `512`, `0.5`, `3e-4`, `4–7`."""
    if isinstance(value, str):
        return value
    return f"{value:.0e}".replace("e-0", "e-") if 0 < value < 0.05 else f"{value:g}"
