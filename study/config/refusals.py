"""Refusals of an attention at its place in a model and over a memory, each with its reason in one line.

Refusals ask the facts of mechanisms (`study.config.mechanisms`), not their names, so that they hold for mechanisms of a
user's own too. Those that hold at every place are in `study.config.attention`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from study.config import mechanisms as table
from study.config.attention import AttentionConfig
from study.config.mechanisms import MEMORY, SCORE, VALUES, WEIGHTS

SCORING = (
    "score", *(option for row in SCORE.values() for option in row.options), "scale", "logits", "cap", "maps", "norm",
    "equal_start", "key_width", "weights", "logit_init", "map_rate",
)  # fmt: skip
"""Fields that decide the weights of slots."""
MIXING = ("groups", "values", "value_width", "combine", "output")
"""Fields that decide how states of slots are mixed. All of these functions are linear and have no bias."""


def placed(site: AttentionConfig, name: str, memory: str, slots: int | None) -> Iterable[str]:
    """Refusals of an attention at the site of this name; at cross, over a memory of so many slots."""
    reach, got = table.REACH[site.reach], f"got memory {memory}"
    cross, one = name == "cross", name == "cross" and slots is not None
    if site.whole:
        allowed = table.SITE[site.site].sites
        if name not in allowed:
            yield f"site: {site.site} stands at {' or '.join(allowed)} (facts.sites). Set it there only."
        if cross and slots == 0:
            yield f"site: {site.site} has no effect, because memory {memory} has no slot. Remove it."
        return
    if reach.cross_only and not cross:
        yield f"reach: {site.reach} draws one slot of the source, but {name} is self-attention. Choose another there."
    if cross and site.exclude_self:
        yield "exclude_self: expected a self-attention site, got cross. Set it at encoder_self or decoder_self."
    if cross and reach.local and not MEMORY[memory].ordered:
        yield f"reach: {site.reach} expected ordered source tokens, {got}. Use memory states."
    if one and reach.samples:
        yield f"reach: {site.reach} expected a memory of several slots, {got}. Use memory states."
    if one and VALUES[site.values].keys:
        yield f"values: {site.values} expected several slots, whose keys are read, {got}. Use projected."
    if one and WEIGHTS[site.weights].divides_by_slots:
        yield f"weights: {site.weights} expected several slots, {got}. Use identity or softmax."


def unread(site: AttentionConfig, base: Mapping[str, Any]) -> Iterable[str]:
    """Refusals of fields that the class of a whole site does not read; `base` has the family's own defaults."""
    options = table.SITE[site.site].options
    read = f"which reads {' and '.join(options)}" if options else "which reads no other field"
    for name, field in type(site).model_fields.items() if site.whole else ():
        value = getattr(site, name)
        if name not in ("site", *options) and value not in (None, base.get(name, field.default)):
            yield f"{name}: no part of site {site.site.partition('@')[0]}, {read} (facts.options), got {value}."


def unused(
    site: AttentionConfig, base: Mapping[str, Any], memory: str, slots: int | None, *widths: int
) -> Iterable[str]:
    """Refusals of fields set at cross that change nothing: one slot alone has all the normalised weight.

    The values of the base arm pass, as a record has them.
    """
    if site.whole or slots is None or (slots == 1 and not WEIGHTS[site.weights].sums_to_one):
        return
    usual = {name: base.get(name, field.default) for name, field in type(site).model_fields.items()}
    for name in MIXING if slots == 0 else ():
        if (given := getattr(site, name)) != usual[name]:
            yield f"{name}: {given} has no effect, because the context of memory {memory} is 0. Remove it."
    without = {name: usual[name] for name in SCORING}
    if not any(kind.weights for kind in (VALUES[site.values], VALUES[usual["values"]], table.OUTPUT[site.output])):
        without["heads"] = usual["heads"]  # heads only slice what is joined again
    try:
        unset = type(site)(**site.model_dump() | without).resolved(*widths)
    except ValueError:  # the base arm does not fit these widths, so something else had to be set
        return
    has = "no slot" if slots == 0 else "one slot, whose weight is always 1"
    remedy = "Remove it, set it at other sites, or use memory states."
    for name in (*SCORING, "heads"):
        if (given := getattr(site, name)) != getattr(unset, name):
            yield f"{name}: {given} has no effect: memory {memory} has {has}. {remedy}"


def in_stack(site: AttentionConfig, name: str, width: int, value: str, split: bool) -> Iterable[str]:
    """Refusals of an attention on a residual stream: of its output, of split factors and of these positions."""
    positions, joins = table.POSITIONS[value], site.output_width(width, width)
    if joins != width:
        yield f"output: expected projected, got raw with width {joins}, and the residual stream has width {width}."
    if split and name == "encoder_self":
        if site.whole:
            yield "site: expected parts, as factors split gives queries other states than values, got a class."
        if VALUES[site.values].keys:
            yield "values: expected projected, as factors split gives values other states than keys, got keys."
    if not positions.relative or name == "cross":
        return
    if site.whole:
        if not table.SITE[site.site].positions:
            yield f"site: {site.site} applies no positions {value} (facts.positions). Use others."
        return
    size = site.map_widths(width, width)[0]
    if positions.rotates and not SCORE[site.score].rotary:
        yield f"score: expected dot or cosine with positions {value}, got {site.score}. Use other positions."
    if positions.rotates and size % 2:
        yield f"key_width: expected an even width, to turn pairs by positions {value}, got {size}."
    if positions.biased and WEIGHTS[site.weights].positive:
        yield f"weights: {site.weights} expected positive scores, but positions {value} take some off."
    if positions.biased and table.LOGIT_INIT[site.logit_init].measured:
        yield f"logit_init: expected standard with positions {value}, which add to logits, got {site.logit_init}."
