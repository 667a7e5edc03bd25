"""Refusals of an attention at its place in a model and over a memory, each in one line.

Refusals that hold at every place are in `study.config.attention`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from study.config.attention import Attention
from study.config.mechanisms import LOGIT_INIT, MEMORY, POSITIONS, REACH, SCORE, SITE, VALUES, WEIGHTS

ONE_ANNOTATION = " with annotations 1"
"""Ending of the name of a memory whose slots are annotations, if there is one annotation."""
SCORING = (
    *("score", *(option for option in Attention.model_fields if SCORE.taking(option))),
    *("scale", "logits", "cap", "maps", "norm", "equal_start", "key_width", "weights", "logit_init", "map_rate"),
)
"""Fields that decide the weights of slots."""
MIXING = ("groups", "values", "value_width", "combine", "output")
"""Fields that decide how states of slots are mixed. All of these maps are linear and have no bias."""


def memory_kind(memory: Any, annotations: object) -> Any:
    """Return the memory, with `ONE_ANNOTATION` added if it has one annotation. Neither value need be valid yet."""
    row = MEMORY.find(memory)
    return memory + ONE_ANNOTATION if row and "annotations" in row.options and str(annotations) == "1" else memory


def _slots(kind: Any) -> int | None:
    """Return the number of slots of a kind of memory; None where that depends on the sentence or on a field."""
    row = MEMORY.find(kind)
    return row.slots if row else 1 if str(kind).endswith(ONE_ANNOTATION) else None


def site_refusals(site: Attention, name: str, memory: str) -> Iterator[str]:
    """Refusals of an attention at the site of this name; at cross, over a memory of this kind."""
    reach, slots, kind = REACH[site.reach], _slots(memory), MEMORY.find(memory)
    if site.whole:
        allowed = SITE[site.site].sites
        if name not in allowed:
            yield f"site: {site.site} stands at {' or '.join(allowed)} (facts.sites). Set it there only."
        elif name == "cross" and slots == 0:
            yield f"site: {site.site} has no effect, because memory {memory} has no slot. Remove it."
        return
    if name != "cross":
        if reach.cross_only:
            yield f"reach: {site.reach} {reach.cross_only}, but this is self-attention. Set it at cross only."
        return
    if site.exclude_self:
        yield "exclude_self: expected a self-attention site, got cross. Set it at encoder_self or decoder_self."
    if reach.local and not (kind and kind.ordered):
        ordered = " or ".join(MEMORY.those(lambda row: row.ordered))
        yield (f"reach: {site.reach} expected ordered source tokens, got memory {memory}. Use memory {ordered}.")
    if reach.samples and slots is not None:
        several = " or ".join(MEMORY.those(lambda row: row.slots is None))
        yield f"reach: {site.reach} expected a memory of several slots, got memory {memory}. Use memory {several}."
    if slots is not None and VALUES[site.values].keys:
        yield f"values: {site.values} expected several slots, whose keys are read, got memory {memory}. Use projected."
    if slots is not None and WEIGHTS[site.weights].divides_by_slots:
        yield f"weights: {site.weights} expected several slots, got memory {memory}. Use identity or softmax."


def scores_matter(weights: Any, memory: Any) -> bool:
    """True if cross-attention over this memory depends on its scores. One slot alone has all the normalised weight."""
    slots, row = _slots(memory), WEIGHTS.find(weights)
    return slots is None or (slots == 1 and not (row and row.sums_to_one))


def unused_scores(site: Attention, unset: Attention, memory: str) -> Iterator[str]:
    """Refusals of fields set at cross that change nothing, because scores do not matter.

    `unset` is the site without these fields.
    """
    slots = "no slot" if _slots(memory) == 0 else "one slot, whose weight is always 1"
    for name in (*SCORING, "heads"):
        if (given := getattr(site, name)) != getattr(unset, name):
            yield f"{name}: {given} has no effect: memory {memory} has {slots}. Remove it, or use memory states."


def unused_mixing(site: Attention, base: dict[str, Any], memory: str) -> Iterator[str]:
    """Refusals of fields set at cross that only multiply the zero context of a memory without slots.

    `base` has the family's own values.
    """
    for name in MIXING if _slots(memory) == 0 else ():
        if (given := getattr(site, name)) != base.get(name, type(site).model_fields[name].default):
            yield f"{name}: {given} has no effect, because the context of memory {memory} is 0. Remove it."


def position_refusals(sites: Any, value: str, width: int) -> Iterator[str]:
    """Refusals of relative positions at the self-attention sites of a transformer of this width."""
    positions = POSITIONS[value]
    for name in ("encoder_self", "decoder_self"):
        site: Attention | None = getattr(sites, name)
        if site is None or not positions.relative:
            continue
        if site.whole:
            if not SITE[site.site].positions:
                yield f"attention.{name}.site: {site.site} applies no positions {value} (facts.positions). Use others."
            continue
        score, where = SCORE[site.score], f"attention.{name}"
        size = site.map_widths(width, width)[0]
        if positions.rotates and not score.rotary:
            rotary = " or ".join(SCORE.those(lambda row: row.rotary))
            yield f"{where}.score: expected {rotary} with positions {value}, got {site.score}. Use other positions."
        elif positions.rotates and size % 2:
            yield f"{where}.key_width: expected an even width, to turn pairs by positions {value}, got {size}."
        if positions.biased and WEIGHTS[site.weights].positive:
            yield f"{where}.weights: {site.weights} expected positive scores, but positions {value} take some off."
        if positions.biased and LOGIT_INIT[site.logit_init].measured:
            yield f"{where}.logit_init: expected standard with positions {value}, which add to logits, got matched."
