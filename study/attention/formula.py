"""Formulas of an attention site: the `formula` of each part, in the order of computation.

x is the state of a query, m that of a slot. Per head, projections turn them into q, k and v; e is the score and a the
weight.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from study.attention.combine import Through
from study.attention.maps import Absent, Raw
from study.attention.mixing import Mixing
from study.attention.multihead import MultiHeadAttention
from study.attention.scores import Unscaled
from study.attention.site import Whole


def equations_of(module: MultiHeadAttention | Whole | Mixing, carries: bool) -> list[str]:
    """Return the equations of whatever mixes tokens at a place, in the order of computation.

    `carries` is `Translator.carries`: True if a draw at one step can change the words after it.
    """
    if isinstance(module, Mixing):
        return [module.formula]
    if isinstance(module, Whole):
        own = module.own
        return [f"c = {own.formula}", *(f"{name} = {getattr(own.config, name)}" for name in own.facts.options)]
    return [
        *_mapped(module),
        *_scored(module),
        *_weighed(module),
        *_combined(module),
        *(part.facts.control for part in (module.score, module.combine) if part.facts and ":" in part.facts.control),
        *_sampled(module, carries),
    ]


def _mapped(site: MultiHeadAttention) -> Iterator[str]:
    """Yield queries, keys and values, without those that the score does not read; then what norm and positions do."""
    one = {id(p) for p in site.map_query.parameters()} & {id(p) for p in site.map_key.parameters()}
    for name, part, weight, state in (
        ("q", site.map_query, "W" if one else "W_Q", "x"),
        ("k", site.map_key, "W" if one else "W_K", "m"),
        ("v", site.map_value, "W_V", "m"),
    ):
        formula = re.sub(r"\bx\b", state, re.sub(r"\bW\b", weight, part.formula))
        if name == "v" and part is site.map_key:
            yield "v = k"
        elif not isinstance(part, Absent):
            sliced = isinstance(part, Raw) and part.heads > 1
            yield f"{name} = {formula}" + (", sliced among the heads" if sliced else "")
    if site.norm.formula:
        yield site.norm.formula
    if site.positions is not None and not site.positions.facts.biased:
        yield site.positions.formula


def _scored(site: MultiHeadAttention) -> Iterator[str]:
    """Yield scores and their scale, then what changes scaled scores before they are normalised."""
    scale, score = site.scale, site.score
    factor = _left(site, scale.formula)
    if scale.formula == Unscaled.formula:
        yield f"e = {score.formula}"
    else:
        about = "about " if scale.facts.grows else ""
        start = f", {factor} starting {about}at 1/√d" if scale.facts.learned and scale.facts.power == 0.5 else ""
        yield f"e = ({score.formula}) · {factor}, d = {score.d}{start}"
    if score.facts.unit_logits and scale.facts.divides:
        yield f"over-scaled, a control: e without {scale.formula} starts O(1) whatever d is"
    for option in site.logits.facts.options:
        yield f"e ← {site.logits.formula}, {option[0]} = {getattr(site.config, option):g}"
    if site.positions is not None and site.positions.facts.biased:
        yield f"e ← {site.positions.formula}"
    if site.combine.facts and site.combine.facts.mixes_logits:
        yield site.combine.facts.mixes_logits


def _hides(site: MultiHeadAttention) -> bool:
    """Return True if a window or the own position hides some of the S visible slots."""
    return bool(site.reach.facts.within or site.config.exclude_self)


def _left(site: MultiHeadAttention, formula: str) -> str:
    """Return a formula of S, the visible slots, with S′ where some of them are hidden."""
    return re.sub(r"\bS\b", "S′" if _hides(site) else "S", formula)


def _weighed(site: MultiHeadAttention) -> Iterator[str]:
    """Yield the conditions that hide some of the S visible slots, the normaliser over the others, and later steps."""
    facts, hides = site.reach.facts, _hides(site)
    if facts.formula != facts.composed:
        yield f"reach: {facts.formula}"
    if facts.within:
        yield f"window: {facts.within}, w = {site.config.window}"
    if site.config.exclude_self:
        yield "hidden: its own position, s = t"
    slots = "S′ slots left of the S visible" if hides else "S visible slots"
    yield f"a = {_left(site, site.weights.formula)} over the {slots}, 0 elsewhere"
    if site.combine.facts and site.combine.facts.mixes:
        yield site.combine.facts.mixes
    yield from facts.after


def _combined(site: MultiHeadAttention) -> Iterator[str]:
    """Yield the output of a head and of the site."""
    several, formula = site.config.heads > 1, site.combine.formula
    each = f", n = 1 … {site.config.heads}" if several else ""
    yield f"o{'_n' if several else ''} = {site.reach.facts.mixed}{each}"
    for joined in ("[o_1; …; o_H]", "(1/H Σ_n o_n)", "(Σ_n o_n)", "Σ_n o_n") if not several else ():
        formula = formula.replace(joined, "o")  # what joins or sums one head is that head
    yield f"c = {formula}"
    if isinstance(site.combine, Through):
        yield f"c ← {site.combine.output.formula}"


def _sampled(site: MultiHeadAttention, carries: bool) -> Iterator[str]:
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
