"""A site in formulas: what each of its parts carries as `formula`, put together in the order of computation.

x is a query's state and m a slot's; per head, q, k and v are what the maps make of them.
"""

from __future__ import annotations

import re

from study.attention.maps import Absent, Map, Raw
from study.attention.multihead import Attention
from study.attention.score import Learned


def equations(site: Attention) -> list[str]:
    """Maps → score · scale → mask and normaliser → reach → combination, with the sizes of this site."""
    config = site.config
    lines = [*mapped(site), _score(site), _weights(site)]
    if site.reach.formula:
        window = f", w = {config.window}" if config.window is not None else ""
        lines.append(f"reach: {site.reach.formula}{window}")
    each = f", h = 1 … {config.heads}" if config.heads > 1 else ""
    return [*lines, f"o_h = Σ_s a_s v_s{each}", combined(site)]


def mapped(site: Attention) -> list[str]:
    """Queries and keys, unless the score reads none, and values."""
    one = {id(p) for p in site.map_query.parameters()} & {id(p) for p in site.map_key.parameters()}
    parts = (("q", site.map_query, "W" if one else "W_Q", "x"), ("k", site.map_key, "W" if one else "W_K", "m"))
    written = (
        (name, _of(part, weight, state)) for name, part, weight, state in (*parts, ("v", site.map_value, "W_V", "m"))
    )
    return [f"{name} = {formula}" for name, formula in written if formula]


def _of(part: Map, weight: str, state: str) -> str:
    if isinstance(part, Absent):
        return ""
    formula = re.sub(r"\bx\b", state, re.sub(r"\bW\b", weight, part.formula))
    return f"{formula}, sliced among the heads" if isinstance(part, Raw) and part.heads > 1 else formula


def _score(site: Attention) -> str:
    scale, fan = site.scale.formula, site.score.fan
    if scale == "1":
        return f"s = {site.score.formula}"
    start = ", exp(g) starting at 1/√d" if isinstance(site.scale, Learned) else ""
    return f"s = ({site.score.formula}) · {scale}, d = {fan}{start}"


def _weights(site: Attention) -> str:
    hidden = ", its own position hidden" if site.config.exclude_self else ""
    return f"a = {site.weights.formula} over the S visible slots{hidden}, 0 elsewhere"


def combined(site: Attention) -> str:
    """From heads to the output."""
    formula = site.combine.formula
    if site.config.heads == 1:  # what joins or sums one head is that head
        for several in ("[o_1; …; o_H]", "(1/H Σ_h o_h)", "(Σ_h o_h)", "Σ_h o_h"):
            formula = formula.replace(several, "o")
    return f"c = {formula}"
