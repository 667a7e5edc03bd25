"""Fields and their values in words, for tables, figures and names of runs."""

from __future__ import annotations

from study.config.mechanisms import AXES

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
    return ", ".join(label_words(label))


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


def label_words(label: str) -> tuple[str, ...]:
    """Return each setting of the label of an arm or facet in words."""
    return tuple(setting(*token.partition("=")[::2]) for token in label.split())
