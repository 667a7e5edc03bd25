"""Arms and axes as figures word them."""

from __future__ import annotations

from typing import Any

from study.report import style, wording

WORDS = {
    "scale=rsqrt": "1/√d",
    "scale=none": "unscaled",
    "scale=inverse": "1/d",
    "scale=learned": "learned scale",
    "logit_init=matched": "logits start at sd 1",
    "score=concat_luong": "concat (Luong)",
    "bilinear_init=identity": "from identity",
    "memory=states": "all states",
    "memory=final": "final state",
    "memory=mean": "mean state",
    "memory=max": "largest components",
    "memory=empty": "nothing",
    "memory=structured": "annotations",
    "maps=separate": "separate maps",
    "maps=tied": "tied maps",
    "maps=tied_signed": "tied maps with signs",
    "equal_start=true": "equal start",
    "exclude_self=true": "self masked",
    "init=final": "starts from the final state",
    "init=zero": "starts from zero",
    "init=mean": "starts from the mean state",
    "init=direct": "starts unmapped",
    "reach=local_m": "local, monotonic",
    "reach=local_p": "local, predicted",
    "reach=hard": "one sampled slot",
    "order=random": "random orders",
    "order=gradient_normalised": "gradient, by layer",
    "order=leave_one_out": "leave one out",
    "weights=entmax15": "entmax 1.5",
    "weights=identity_mean": "identity / S",
}
WORDS |= {"floor=confused": "by the largest weights of symmetric scores", "floor=blind": "a guess without looking"}
PLAIN = (*style.ARMS, "family")
"""Fields whose values speak for themselves."""
SYMBOLS = {"additive_width": "A"}


def words(arm: str) -> str:
    """`scale=none logit_init=matched` ↦ `unscaled, logits start at sd 1`."""
    return ", ".join(_word(token) for token in arm.split())


def _word(token: str) -> str:
    field, _, value = token.partition("=")
    plain = value.replace("_", " ") if field in PLAIN else f"{SYMBOLS.get(field, field)} = {value}"
    return WORDS.get(token, plain)


def axis(metric: str) -> str:
    """`test/exact` ↦ `exact match, %`; other splits than test are named."""
    split = metric.partition("/")[0]
    return wording.title(metric) + ("" if split == "test" else f" ({split})")


def tick(value: Any) -> str:
    """A place on an axis: `512`, `0.5`, `3e-4`, `4–7`."""
    if isinstance(value, str):
        return value
    return f"{value:.0e}".replace("e-0", "e-") if 0 < value < 0.05 else f"{value:g}"
