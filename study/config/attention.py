"""One attention site, as declared and as resolved.

Axes named in the descriptions: D width of the model, Dq and Dk widths of the query's and the key's
states, H heads, K key width per head, V value width per head, A additive width, R rank. q and k are
what the projections make of the states. Values and their facts are in `study.config.mechanisms`.

A field whose default is None is *derived*: `Attention.resolved` fills it in for the mechanism at hand, and
setting it for a mechanism that does not use it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, model_validator

from study.config import mechanisms as table
from study.config.mechanisms import MAPS, SCORE, Choice, chosen
from study.config.plugins import is_own
from study.schema import Frozen, Size


class AttentionConfig(Frozen):
    """One attention site: projections → score · scale → weights → mix → combine."""

    score: str = chosen("score", "dot")
    additive_width: Size | None = Field(None, description="A, the hidden width of an additive score (derived: K).")
    rank: Size | None = Field(None, description="R, the rank of score low_rank (derived: a quarter of K).")
    bilinear_init: str = chosen("bilinear_init", "xavier", "Initial W of bilinear.")
    scale: Annotated[str, Choice("scale")] | None = Field(
        None,
        description=f"Factor on the score. {table.SCALE.described} d is the number of terms that the score sums over, "
        "such as K for dot and A for additive (derived: rsqrt for products, learned for cosine, else none).",
    )
    logits: str = chosen("logits", "plain", "From scaled scores e to logits.")
    cap: float | None = Field(
        None, gt=0, allow_inf_nan=False, description=f"c of logits cap (derived: {table.DERIVED['cap']:g})."
    )
    maps: str = chosen("maps", "separate", "Projections from states to queries and keys.")
    equal_start: bool = Field(False, description="Separate projections that start with the same values, W_K = W_Q.")
    norm: str = chosen("norm", "none", "Queries and keys.")
    weights: str = chosen("weights", "softmax", "From logits e to weights, over S visible slots.")
    heads: Size = Field(1, description="H, the number of heads.")
    groups: Size | None = Field(
        None,
        description="G, the number of key and value heads, each shared by H/G query heads: 1 is multi-query attention "
        "(Shazeer 2019), others grouped-query attention (Ainslie et al. 2023; derived: H).",
    )
    key_width: Size | None = Field(
        None, description="K per head, unless maps is raw (derived: Dq/H; half of it with combine differential)."
    )
    value_width: Size | None = Field(None, description="V per head, with projected values (derived: D/H).")
    values: str = chosen("values", "projected")
    combine: str = chosen("combine", "concat", "Combination of the heads.")
    output: str = chosen("output", "projected")
    reach: str = chosen("reach", "global", "Visible slots that a query attends to.")
    window: int | None = Field(
        None,
        ge=0,
        le=10**8,
        description=f"Half-width of the window of a local reach; 0: its centre (derived: {table.DERIVED['window']}).",
    )
    entropy_bonus: float | None = Field(
        None,
        ge=0,
        description=f"β, weight of the entropy in reach hard (derived: {table.DERIVED['entropy_bonus']}).",
    )
    exclude_self: bool = Field(False, description="Self-attention only: no query sees the slot of its own position.")
    logit_init: Annotated[str, Choice("logit_init")] = Field(
        "standard",
        description="matched: the initial scale of the score or of W_Q and W_K is set so that each head's logits have "
        "standard deviation 1 at step 0, measured on the first training batch. rsqrt, inverse: W_Q and W_K start "
        "at d^−¼ or d^−½ of their standard values, so that unscaled logits start as those with that scale.",
    )
    map_rate: Annotated[str, Choice("map_rate")] = Field(
        "common",
        description="Learning rate of W_Q and W_K. common: that of all parameters. rsqrt, inverse, inverse_rsqrt: "
        "d^−¼, d^−½ and d^−¾ of it. If logit_init has the same value, Adam trains an unscaled dot product as one with "
        "that scale. With logit_init rsqrt, they are 1, d^−¼ and d^−½ of the rate of W_Q and W_K under 1/√d.",
    )
    site: Annotated[str, Choice("site")] = Field(
        "parts",
        description="A class of your own that computes the whole site (FILE.py:CLASS), in place of projections, scores "
        "and all other parts.",
    )

    @model_validator(mode="after")
    def _only_what_is_used(self) -> Self:
        if not self.whole:
            check(_alone(self))
        return self

    @property
    def whole(self) -> bool:
        """True if a class of a user's own computes the site."""
        return self.site != "parts"

    def resolved(self, query_width: int, memory_width: int) -> AttentionConfig:
        """This site with every derived field filled in, checked against the widths it joins.

        Raises:
            ValueError: heads do not divide a width that they slice, or widths that must be equal are not.
        """
        if self.whole:
            return self._filled(table.SITE[self.site].options, query_width)
        score, combine = SCORE[self.score], table.COMBINE[self.combine]
        fixed: dict[str, Any] = {"scale": self.scale or score.scale}
        if self.groups == self.heads:
            fixed["groups"] = None
        if score.content_free:
            fixed["maps"] = MAPS.those(lambda row: not row.weights)[0]
        if combine.wide:
            fixed |= {"value_width": self.value_width or query_width, "output": combine.outputs[0]}
        site = self.model_copy(update=fixed)
        options = (*table.REACH[self.reach].options, *table.LOGITS[self.logits].options)
        if MAPS[site.maps].weights and "key" in score.reads:
            options += ("key_width",)
        if table.VALUES[self.values].weights:
            options += ("value_width",)
        site = site._filled(options, query_width)
        query, key = site.map_widths(query_width, memory_width)
        check(_sized(site, query_width, memory_width, query, key))
        site = site._filled(score.options, key)
        site.mixed_width(memory_width)
        return site

    def _filled(self, options: Iterable[str], width: int) -> AttentionConfig:
        """Return this site with those of the options that it lacks, for states or keys of this width."""
        parts = {"key_width": self.score_heads, "value_width": self.heads}
        lacking = [name for name in options if name in (*parts, *table.DERIVED) and getattr(self, name) is None]
        values = {n: _share(width, parts[n], n) if n in parts else table.derived(n, width) for n in lacking}
        return self.model_copy(update=values)

    def map_widths(self, query_width: int, memory_width: int) -> tuple[int, int]:
        """Return the widths per head of the query and the key that the score reads; 0 if it does not read one."""
        score = SCORE[self.score]
        if score.content_free:
            return 0, 0
        if "key" not in score.reads:
            return _share(query_width, self.score_heads), 0
        if MAPS[self.maps].weights:
            assert self.key_width is not None
            return self.key_width, self.key_width
        return _share(query_width, self.score_heads), _share(memory_width, self.score_heads)

    @property
    def score_heads(self) -> int:
        """Number of score maps: H, or 2 H if a head has two."""
        return self.heads * table.COMBINE[self.combine].maps

    def mixed_width(self, memory_width: int) -> int:
        """V, the width of one head's output."""
        if table.VALUES[self.values].keys:
            assert self.key_width is not None
            return self.key_width
        return self.value_width or _share(memory_width, self.heads)

    def output_width(self, query_width: int, memory_width: int) -> int:
        """Return the width of the site's output: H·V if it is concatenated and raw, else D."""
        if self.whole or table.OUTPUT[self.output].weights or table.COMBINE[self.combine].wide:
            return query_width
        return self.heads * self.mixed_width(memory_width)


def _share(width: int, heads: int, field: str = "") -> int:
    """Return the width of one head, which the field may set instead, if there is one."""
    if width % heads:
        divisors = ", ".join(str(h) for h in range(1, width + 1) if width % h == 0 and h <= 64)
        mend = f" Or set {field}." if field else ""
        raise ValueError(f"heads: expected a divisor of the width {width} ({divisors}), got {heads}.{mend}")
    return width // heads


def check(problems: Iterable[str]) -> None:
    """Raise the first refusal.

    Raises:
        ValueError: there is one.
    """
    for problem in problems:
        raise ValueError(problem)


def foreign(section: BaseModel, *axes: str) -> Iterable[str]:
    """Refusals of options that the chosen values of these axes do not take."""
    for axis in axes:
        value, rows = getattr(section, axis), table.AXES[axis]
        for option in dict.fromkeys(option for row in rows.values() for option in row.options):
            default = type(section).model_fields[option].default
            if option not in rows[value].options and getattr(section, option) != default:
                owners = " or ".join(name for name, row in rows.items() if option in row.options)
                yield f"{option}: expected {axis} {owners}, got {axis} {value}. Remove it."


def _alone(site: AttentionConfig) -> Iterable[str]:
    """Refusals of options that a mechanism does not use, and of mechanisms that mean nothing together."""
    yield from foreign(site, "score", "logits", "reach")
    rows = _Rows(site)
    for refusals in (_of_maps, _of_weights, _of_heads, _of_reach):
        yield from refusals(site, rows)


class _Rows:
    """Rows of the tables of mechanisms that a site names, and what follows from several of them.

    Attributes:
        keyed: its score reads keys.
        norm: queries and keys are normalised.
        mapped: its projections are matrices of the study.
        here: its score and its projections in words.
    """

    def __init__(self, site: AttentionConfig) -> None:
        self.score, self.maps, self.values = SCORE[site.score], MAPS[site.maps], table.VALUES[site.values]
        self.weights, self.output = table.WEIGHTS[site.weights], table.OUTPUT[site.output]
        self.combine, self.reach = table.COMBINE[site.combine], table.REACH[site.reach]
        self.scale_name = site.scale or self.score.scale
        self.scale = table.SCALE[self.scale_name]
        self.keyed, self.norm = "key" in self.score.reads, site.norm != "none"
        self.mapped = self.maps.weights and not is_own(site.maps)
        self.here = f"score {site.score} and maps {site.maps}"


def _of_maps(site: AttentionConfig, rows: _Rows) -> Iterable[str]:
    """Refusals of projections, and of what they make."""
    score, maps, values, scale, scale_name = rows.score, rows.maps, rows.values, rows.scale, rows.scale_name
    keyed, mapped, norm, here = rows.keyed, rows.mapped, rows.norm, rows.here
    if score.content_free:
        given_maps = maps.weights and "maps" in site.model_fields_set
        for name, given in (("maps", given_maps), ("scale", scale_name != score.scale), ("norm", norm)):
            if given:
                got = f"which has no query or key, got {getattr(site, name)}. Remove it."
                yield f"{name}: expected none with score {site.score}, {got}"
    if site.equal_start and (maps.one or not mapped):
        yield f"equal_start: expected maps separate, got {site.maps}. Remove it, or use maps separate."
    if site.key_width is not None and not (keyed and maps.weights):
        yield f"key_width: expected none with {here}, got {site.key_width}. Remove it."
    if not keyed and (maps.one or site.equal_start):
        yield f"maps: score {site.score} has no projection of keys to share. Use separate or raw."
    if maps.signed and score.matrix:
        yield f"maps: {site.maps} has no effect: the matrix of {site.score} absorbs the signs. Use score dot."
    if norm and score.own_scale:
        yield f"norm: {site.norm} adds no function to score {site.score}, which has a norm of its own. Remove it."
    for name in ("logit_init", "map_rate"):
        value = getattr(site, name)
        if not table.AXES[name][value].power:
            continue
        if not (mapped and score.d) or score.matrix:
            yield f"{name}: {value} divides W_Q and W_K of score dot, got {here}. Remove it."
        if (site.groups or site.heads) != site.heads or values.keys:
            yield f"{name}: {value} divides the W_Q and W_K of every head alike, which shared keys do not. Remove it."
        if norm:
            yield f"{name}: {value} has no effect with norm {site.norm}, which undoes the size of W_Q, W_K. Remove it."
        if scale.divides or scale.learned:
            yield f"{name}: {value} stands in for the scale, but scale is {scale_name}. Use scale none."
    learns_size = scale.learned if score.own_scale else keyed and not score.positive and (mapped or norm)
    if table.LOGIT_INIT[site.logit_init].measured and not (score.matrix or learns_size):
        yield f"logit_init: {site.logit_init} sets a parameter, but {here} have none. Use maps separate, or standard."


def _of_weights(site: AttentionConfig, rows: _Rows) -> Iterable[str]:
    """Refusals of scale, logits and weights."""
    score, weights, combine, scale, scale_name = rows.score, rows.weights, rows.combine, rows.scale, rows.scale_name
    if not score.d and site.scale is not None and scale.divides:
        yield f"scale: expected none or learned with score {site.score}, which has no d, got {site.scale}."
    if weights.scale and scale_name != weights.scale:
        yield f"scale: expected {weights.scale} with weights {site.weights}, got {scale_name}."
    if not score.reads and site.logits != "plain":
        yield f"logits: {site.logits} has no effect on score {site.score}, which is 0. Remove it."
    if not score.reads and (weights.zero or (weights.sums_to_one and not weights.softmax)):
        yield f"weights: {site.weights} of score {site.score} are 0, or those of softmax. Use softmax or sigmoid."
    if weights.positive and not score.positive:
        yield f"weights: {site.weights} expected positive scores, got score {site.score}. Use score elu_kernel."
    if weights.positive and combine.mixes_logits:
        yield f"weights: {site.weights} expected positive scores, but combine {site.combine} mixes them with signs."


def _of_heads(site: AttentionConfig, rows: _Rows) -> Iterable[str]:
    """Refusals of heads, their values and their combination."""
    score, maps, values, output, combine = rows.score, rows.maps, rows.values, rows.output, rows.combine
    keyed, mapped, here = rows.keyed, rows.mapped, rows.here
    if site.value_width is not None and not values.weights:
        yield f"value_width: expected none with {site.values} values, got {site.value_width}. Remove it."
    if not output.weights and site.output not in combine.outputs:
        yield f"output: expected projected with combine {site.combine}, which has W_O, got {site.output}."
    if is_own(site.output) and site.combine != "concat":
        yield f"output: {site.output} expected combine concat, whose heads it reads side by side, got {site.combine}."
    if combine.wide and not values.weights:
        yield f"values: expected projected with combine {site.combine}, got {site.values}."
    if combine.alone and site.heads == 1:
        yield f"combine: {site.combine} of one head is {combine.alone}. Use combine {combine.alone}, or more heads."
    if values.keys and not (keyed and maps.weights):
        yield f"values: {site.values} expected keys with a projection, got {here}."
    if combine.maps > 1 and score.content_free:
        yield f"combine: {site.combine} reads the query, which score {site.score} does not have. Use combine concat."
    if values.keys and table.LOGIT_INIT[site.logit_init].measured:
        yield f"logit_init: {site.logit_init} would change values {site.values}, too. Use projected values."
    if values.keys and combine.maps > 1:
        yield f"values: expected projected or raw with combine {site.combine}, whose heads have two keys, got keys."
    if site.groups:
        if site.heads % site.groups:
            yield f"groups: expected a divisor of heads {site.heads}, got {site.groups}."
        if not (keyed and mapped) or maps.one or site.equal_start:
            yield f"groups: expected maps separate without equal_start, and a score with keys, got {here}."
        if not (values.weights or values.keys) or is_own(site.values):
            yield f"groups: expected values projected or keys, got {site.values}."


def _of_reach(site: AttentionConfig, rows: _Rows) -> Iterable[str]:
    """Refusals of reach."""
    score, weights, combine, reach = rows.score, rows.weights, rows.combine, rows.reach
    if combine.mixes and (reach.reads_query or reach.samples):
        yield f"reach: {site.reach} chooses slots by head, but combine {site.combine} mixes weights. Use global."
    if reach.reads_query and score.content_free:
        yield f"reach: {site.reach} needs a query, but score {site.score} has none. Use local_m."
    if reach.samples and not weights.softmax:
        yield f"weights: expected softmax with reach {site.reach}, got {site.weights}."
    if site.window is not None and site.window < reach.narrowest:
        yield f"window: expected {reach.narrowest} or more with reach {site.reach}, got {site.window}."
    # A window of 0 leaves one slot, whatever its score, and is allowed all the same: it is a mask, by which sweeps hold
    # a decoder to one place while another site varies.
    if site.window == 0 and site.exclude_self:
        yield "window: expected 1 or more with exclude_self, which hides the only slot of window 0, got 0."


def _sized(site: AttentionConfig, query_width: int, memory_width: int, query: int, key: int) -> Iterable[str]:
    """Refusals of a site by the widths of its states, and of a head's query and key."""
    start, widths = table.BILINEAR_INIT[site.bilinear_init], f"{query_width} and {memory_width}"
    if table.COMBINE[site.combine].wide and site.value_width != query_width:
        yield f"value_width: expected {query_width} with combine {site.combine}, got {site.value_width}."
    if query_width != memory_width and (MAPS[site.maps].one or site.equal_start):
        yield f"maps: expected states of one width for {site.maps}, got {widths}. Use separate."
    if query != key and SCORE[site.score].equal_sizes:
        yield f"score: expected queries and keys of one size for {site.score}, got {widths}. Use maps separate."
    if query != key and start.square:
        yield f"bilinear_init: expected a square W for {site.bilinear_init}, got {query} × {key}. Use xavier."
