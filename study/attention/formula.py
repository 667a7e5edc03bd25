"""Formulas of an attention site: the `formula` of each part, in the order of computation.

x is the state of a query, m that of a slot. Per head, the maps turn them into q, k and v; e is the score, a the weight.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from study.attention.combine import Through
from study.attention.maps import Absent, Map, Raw
from study.attention.mixing import Mixing
from study.attention.multihead import Attention
from study.attention.scores import Unscaled
from study.attention.site import Whole


def equations_of(module: Attention | Whole | Mixing, carries: bool) -> list[str]:
    """Return the equations of whatever mixes tokens at a place; see `equations`."""
    if isinstance(module, Attention):
        return equations(module, carries)
    if isinstance(module, Mixing):
        return [module.formula]
    own = module.own
    return [f"c = {own.formula}", *(f"{name} = {getattr(own.config, name)}" for name in own.facts.options)]


def equations(site: Attention, carries: bool) -> list[str]:
    """Return the equations of a site: maps, score · scale, reach and mask, normaliser, reach, mix, combination.

    `carries` is `Translator.carries`: True if a draw at one step can change the words after it.
    """
    each = f", n = 1 … {site.config.heads}" if site.config.heads > 1 else ""
    return [
        *mapped(site),
        *_normed(site),
        *_score(site),
        *_logits(site),
        *_weights(site),
        *([mixes] if (mixes := site.combine.facts and site.combine.facts.mixes) else []),
        *site.reach.facts.after,
        f"o{'_n' if each else ''} = {site.reach.facts.mixed}{each}",
        combined(site),
        *([f"c ← {site.combine.output.formula}"] if isinstance(site.combine, Through) else []),
        *(part.facts.control for part in (site.score, site.combine) if part.facts and ":" in part.facts.control),
        *_sampled(site, carries),
    ]


def mapped(site: Attention) -> list[str]:
    """Return the equations of queries, keys and values; none for queries or keys that the score does not read."""
    one = {id(p) for p in site.map_query.parameters()} & {id(p) for p in site.map_key.parameters()}
    parts = (("q", site.map_query, "W" if one else "W_Q", "x"), ("k", site.map_key, "W" if one else "W_K", "m"))
    written = (
        (name, _of(part, weight, state)) for name, part, weight, state in (*parts, ("v", site.map_value, "W_V", "m"))
    )
    lines = [f"{name} = {formula}" for name, formula in written if formula]
    return [*lines[:-1], "v = k"] if site.map_value is site.map_key else lines


def _normed(site: Attention) -> Iterator[str]:
    """Yield what changes queries and keys, but not values that are keys."""
    if site.norm.formula:
        yield site.norm.formula
    if site.positions is not None and not site.positions.facts.biased:
        yield site.positions.formula


def _logits(site: Attention) -> Iterator[str]:
    """Yield what changes scaled scores before they are normalised."""
    for option in site.logits.facts.options:
        yield f"e ← {site.logits.formula}, {option[0]} = {getattr(site.config, option):g}"
    if site.positions is not None and site.positions.facts.biased:
        yield f"e ← {site.positions.formula}"
    if site.combine.facts and site.combine.facts.mixes_logits:
        yield site.combine.facts.mixes_logits


def _of(part: Map, weight: str, state: str) -> str:
    if isinstance(part, Absent):
        return ""
    formula = re.sub(r"\bx\b", state, re.sub(r"\bW\b", weight, part.formula))
    return f"{formula}, sliced among the heads" if isinstance(part, Raw) and part.heads > 1 else formula


def _score(site: Attention) -> Iterator[str]:
    scale, score = site.scale, site.score
    if scale.formula == Unscaled.formula:
        yield f"e = {score.formula}"
    else:
        start = (
            f", {scale.formula} starting {'about ' if scale.facts.grows else ''}at 1/√d" if scale.facts.learned else ""
        )
        yield f"e = ({score.formula}) · {scale.formula}, d = {score.d}{start}"
    if score.facts.unit_logits and scale.facts.divides:
        yield f"over-scaled, a control: e without {scale.formula} starts O(1) whatever d is"


def _weights(site: Attention) -> Iterator[str]:
    """Yield the conditions that hide some of the S visible slots, then the normaliser over the others."""
    facts, count = site.reach.facts, "S"
    within = facts.within
    if facts.formula != facts.composed:
        yield f"reach: {facts.formula}"
    if within:
        yield f"window: {within}, w = {site.config.window}"
    if site.config.exclude_self:
        yield "hidden: its own position, s = t"
    over = "the S visible slots"
    if within or site.config.exclude_self:
        count, over = "S′", "the S′ slots left of the S visible"
    formula = re.sub(r"\bS\b", count, site.weights.formula)
    yield f"a = {formula} over {over}, 0 elsewhere"


def combined(site: Attention) -> str:
    """Return the equation of the output."""
    formula = site.combine.formula
    if site.config.heads == 1:  # what joins or sums one head is that head
        for several in ("[o_1; …; o_H]", "(1/H Σ_n o_n)", "(Σ_n o_n)", "Σ_n o_n"):
            formula = formula.replace(several, "o")
    return f"c = {formula}"


def _sampled(site: Attention, carries: bool) -> Iterator[str]:
    """Yield the terms that sampling adds to the loss, per target token (`study.training.step`)."""
    bonus = site.config.entropy_bonus
    if bonus is None:
        return
    every, one = ("Σ_n ", "a_n") if site.config.heads > 1 else ("", "a")
    entropy = f" + β {every}entropy({one})" if bonus else ""
    yield f"loss in training (REINFORCE): the mean over t of −[(R_t − b_t) · {every}log {one}(z){entropy}]"
    weight = f", β = {bonus:g}" if bonus else ""
    if carries:
        yield f"  R_t = Σ_{{t′ ≥ t}} log p(y_t′), b_t = the running mean of log p × the tokens from t on{weight}"
    else:
        yield f"  R_t = log p(y_t), b_t = the running mean of log p{weight}"
