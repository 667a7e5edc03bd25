"""One attention site, as declared and as resolved.

Axes named in the descriptions: D width of the model, Dq and Dk widths of the query's and the key's
states, H heads, K key width per head, V value width per head, A additive width, R rank. q and k are
what the maps make of the states. Values and their facts are in `study.config.mechanisms`.

A field whose default is None is *derived*: `Attention.resolved` fills it in for the mechanism at hand, and
setting it for a mechanism that does not use it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from study.config import plugins
from study.config.mechanisms import (
    AXES,
    BILINEAR_INIT,
    COMBINE,
    DERIVED,
    LOGIT_INIT,
    LOGITS,
    MAP_RATE,
    MAPS,
    NORM,
    OUTPUT,
    REACH,
    SCALE,
    SCORE,
    SITE,
    VALUES,
    WEIGHTS,
    Choice,
    default_words,
)
from study.schema import Frozen, Size


def _d_of_scores() -> str:
    """Return the d of every score that has one, such as `K for dot, A for additive and concat`."""
    symbols = dict.fromkeys(row.d for row in SCORE.values() if row.d)
    return ", ".join(f"{d} for {_and(*(name for name, row in SCORE.items() if row.d == d))}" for d in symbols)


def _default_scales() -> str:
    """Return the scores of every default scale, such as `rsqrt for dot and bilinear, none elsewhere`."""
    scales = dict.fromkeys(row.scale for row in SCORE.values() if row.scale != "none")
    scores = {scale: [name for name, row in SCORE.items() if row.scale == scale] for scale in scales}
    return ", ".join([*(f"{scale} for {_and(*names)}" for scale, names in scores.items()), "none elsewhere"])


def _windows() -> str:
    """Return the reaches with a window, and where it may be 0."""
    names = REACH.taking("window")
    return _and(*(name if REACH[name].narrowest else f"{name} (0: the centre alone)" for name in names))


def _and(*names: str) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _or(names: tuple[str, ...]) -> str:
    return " or ".join(names)


class Attention(Frozen):
    """One attention site: maps → score · scale → weights → mix → combine."""

    score: Annotated[str, Choice("score")] = Field("dot", description=f"{SCORE.told()}.")
    additive_width: Size | None = Field(
        None,
        description=f"A, the hidden width of score {_or(SCORE.taking('additive_width'))} "
        f"{default_words('additive_width')}.",
    )
    rank: Size | None = Field(
        None, description=f"R, the rank of score {_or(SCORE.taking('rank'))} {default_words('rank')}."
    )
    bilinear_init: Annotated[str, Choice("bilinear_init")] = Field(
        "xavier",
        description=f"Initial W of score {_or(SCORE.taking('bilinear_init'))}: {BILINEAR_INIT.told(', or ', ',')}.",
    )
    scale: Annotated[str, Choice("scale")] | None = Field(
        None,
        description=f"Factor on the score: {SCALE.told(', ', '')}; d is {_d_of_scores()}, "
        f"Kq and Kk the widths of a head's query and key (derived: {_default_scales()}). "
        f"{_and(*SCORE.those(lambda row: row.own_scale))}: none is τ = 1 and learned a τ per "
        "head that starts at log₂(L² − L) for a training length L. "
        f"{_and(*SCORE.those(lambda row: row.content_free))} take none.",
    )
    logits: Annotated[str, Choice("logits")] = Field(
        "plain", description=f"From scaled scores e to logits. {LOGITS.told()}."
    )
    cap: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description=f"c of logits {_or(LOGITS.taking('cap'))} {default_words('cap')}."
    )
    maps: Annotated[str, Choice("maps")] = Field(
        "separate", description=f"Maps from states to queries and keys. {MAPS.told()}."
    )
    equal_start: bool = Field(False, description="Separate maps that start with the same values, W_K = W_Q.")
    norm: Annotated[str, Choice("norm")] = Field("none", description=f"Queries and keys. {NORM.told()}.")
    weights: Annotated[str, Choice("weights")] = Field(
        "softmax", description=f"From scores s to weights, over the visible slots: {WEIGHTS.told(', ', '')}."
    )
    heads: Size = Field(1, description="H, the number of heads.")
    groups: Size | None = Field(
        None,
        description="G, the number of key and value heads, each shared by H/G query heads: 1 is multi-query attention "
        "(Shazeer 2019), others grouped-query attention (Ainslie et al. 2023; derived: H).",
    )
    key_width: Size | None = Field(
        None, description="K per head, unless maps are raw (derived: Dq/H; half of it with combine differential)."
    )
    value_width: Size | None = Field(None, description="V per head, with projected values (derived: D/H).")
    values: Annotated[str, Choice("values")] = Field("projected", description=f"{VALUES.told()}.")
    combine: Annotated[str, Choice("combine")] = Field(
        "concat", description=f"Combination of the heads. {COMBINE.told()}."
    )
    output: Annotated[str, Choice("output")] = Field("projected", description=f"{OUTPUT.told()}.")
    reach: Annotated[str, Choice("reach")] = Field(
        "global", description=f"Visible slots that a query attends to. {REACH.told()}."
    )
    window: Annotated[int, Field(ge=0)] | None = Field(
        None, description=f"Half-width of the window of reach {_windows()} {default_words('window')}."
    )
    entropy_bonus: Annotated[float, Field(ge=0)] | None = Field(
        None,
        description=f"Weight on the entropy that reach {_or(REACH.taking('entropy_bonus'))} adds to its return "
        f"{default_words('entropy_bonus')}.",
    )
    exclude_self: bool = Field(False, description="Self-attention only: no query sees the slot of its own position.")
    logit_init: Annotated[str, Choice("logit_init")] = Field(
        "standard",
        description="matched: the score's or the maps' initial scale is set so that each head's logits have "
        "standard deviation 1 at step 0, measured on the first training batch. rsqrt: W_Q and W_K start at 1/d^¼ of "
        "their standard values, so that unscaled logits start as those with scale rsqrt.",
    )
    map_rate: Annotated[str, Choice("map_rate")] = Field(
        "common",
        description="Learning rate of W_Q and W_K. common: that of all parameters. rsqrt: 1/d^¼ of it. With logit_init "
        "rsqrt too, Adam trains an unscaled dot product as one with scale rsqrt.",
    )

    site: Annotated[str, Choice("site")] = Field(
        "parts",
        description="A class of your own that computes the whole site (FILE.py:CLASS), in place of maps, scores and "
        "all other parts.",
    )

    @model_validator(mode="after")
    def _only_what_is_used(self) -> Self:
        if self.whole:
            return self
        for problem in _refusals(self):
            raise ValueError(problem)
        return self

    def resolved(self, query_width: int, memory_width: int) -> Attention:
        """This site with every derived field filled in, checked against the widths it joins.

        Raises:
            ValueError: heads do not divide a width that they slice, or widths that must be equal are not.
        """
        if self.whole:
            return self._for_own_class(query_width)
        score, only = SCORE[self.score], WEIGHTS[self.weights].scale
        derived: dict[str, Any] = {"scale": self.scale or score.scale}
        if only and derived["scale"] != only:
            raise ValueError(f"scale: expected {only} with weights {self.weights}, got {derived['scale']}.")
        if self.groups == self.heads:
            derived["groups"] = None
        if score.content_free:
            derived["maps"] = MAPS.those(lambda row: not row.weights)[0]
        elif MAPS[self.maps].weights and "key" in score.reads and self.key_width is None:
            derived["key_width"] = _share(query_width, self.score_heads, "key_width")
        if COMBINE[self.combine].wide:
            derived |= {"value_width": self._wide(query_width), "output": COMBINE[self.combine].outputs[0]}
        elif VALUES[self.values].weights and self.value_width is None:
            derived["value_width"] = _share(query_width, self.heads, "value_width")
        for option in (*REACH[self.reach].options, *LOGITS[self.logits].options):
            if getattr(self, option) is None:
                derived[option] = DERIVED[option].of(query_width)
        site = self.model_copy(update=derived)
        site = site.model_copy(update=site._sized(query_width, memory_width))
        site.mixed_width(memory_width)
        return site

    @property
    def whole(self) -> bool:
        """True if a class of a user's own computes the site."""
        return self.site != "parts"

    def _for_own_class(self, query_width: int) -> Attention:
        """Return this site with the options of the class that computes it filled in."""
        shares = {"key_width": self.heads, "value_width": self.heads}
        derived = {
            option: _share(query_width, self.heads, option) if option in shares else DERIVED[option].of(query_width)
            for option in SITE[self.site].options
            if option in (*shares, *DERIVED) and getattr(self, option) is None
        }
        return self.model_copy(update=derived)

    def unread(self, base: Mapping[str, Any]) -> Iterator[str]:
        """Yield refusals of fields that the class of this site does not read; `base` has the family's own values."""
        options = SITE[self.site].options
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name not in ("site", *options) and value not in (None, base.get(name, field.default)):
                read = f"which reads {_and(*options)}" if options else "which reads no other field"
                yield f"{name}: no part of site {self.site.partition('@')[0]}, {read} (facts.options), got {value}."

    def _wide(self, query_width: int) -> int:
        if self.value_width not in (None, query_width):
            raise ValueError(
                f"value_width: expected {query_width} with combine {self.combine}, got {self.value_width}."
            )
        return query_width

    def _sized(self, query_width: int, memory_width: int) -> dict[str, Any]:
        """Return the sizes of the score; check that the widths of its inputs fit."""
        query, key = self.map_widths(query_width, memory_width)
        score = SCORE[self.score]
        if (MAPS[self.maps].one or self.equal_start) and query_width != memory_width:
            raise ValueError(
                f"maps: expected states of one width for two equal maps, got {query_width} and {memory_width}. "
                "Make them equal, or use separate maps."
            )
        if query != key and score.equal_sizes:
            raise ValueError(
                f"score: expected queries and keys of one size for {self.score}, got raw states of {query_width} and "
                f"{memory_width}. Make them equal, or use separate maps, bilinear or additive."
            )
        if query != key and BILINEAR_INIT[self.bilinear_init].square:
            raise ValueError(
                f"bilinear_init: expected a square W for {self.bilinear_init}, got {query} × {key}. Use "
                f"{_or(BILINEAR_INIT.those(lambda row: not row.square))}."
            )
        derived = (option for option in score.options if option in DERIVED)
        return {option: getattr(self, option) or DERIVED[option].of(key) for option in derived}

    def map_widths(self, query_width: int, memory_width: int) -> tuple[int, int]:
        """Return the widths per head of the query and the key that the score reads; 0 if it does not read one."""
        score = SCORE[self.score]
        if score.content_free:
            return 0, 0
        if "key" not in score.reads:
            return _share(query_width, self.score_heads, "the query"), 0
        if MAPS[self.maps].weights:
            assert self.key_width is not None
            return self.key_width, self.key_width
        query, key = (_share(width, self.score_heads, "the raw query and key") for width in (query_width, memory_width))
        return query, key

    @property
    def score_heads(self) -> int:
        """Number of score maps: H, or 2 H if a head has two."""
        return self.heads * COMBINE[self.combine].maps

    def mixed_width(self, memory_width: int) -> int:
        """V, the width of one head's output."""
        if VALUES[self.values].keys:
            assert self.key_width is not None
            return self.key_width
        return self.value_width or _share(memory_width, self.heads, "the raw values")

    def output_width(self, query_width: int, memory_width: int) -> int:
        """Return the width of the site's output: H·V if it is concatenated and raw, else D."""
        if self.whole or OUTPUT[self.output].weights or COMBINE[self.combine].wide:
            return query_width
        return self.heads * self.mixed_width(memory_width)


def _share(width: int, heads: int, what: str) -> int:
    if width % heads:
        divisors = ", ".join(str(h) for h in range(1, width + 1) if width % h == 0 and h <= 64)
        mend = f" Or set {what}." if what.endswith("_width") else ""
        raise ValueError(f"heads: expected a divisor of the width {width} ({divisors}), got {heads}.{mend}")
    return width // heads


def _refusals(site: Attention) -> Iterator[str]:
    """Options that the mechanism does not use, or that mean nothing together, whatever the widths of the site."""
    yield from _options(site, "score")
    yield from _maps(site)
    yield from _scale(site)
    yield from _matched(site)
    yield from _divided_maps(site)
    yield from _heads(site)
    yield from _groups(site)
    yield from _mixed(site)
    yield from _norm(site)
    yield from _options(site, "logits")
    yield from _options(site, "reach")
    yield from _reach(site)


def _options(site: Attention, axis: str) -> Iterator[str]:
    """Options of the values of an axis that the chosen value does not take."""
    value, fields = getattr(site, axis), type(site).model_fields
    row = AXES[axis][value]
    owned = {option for other in AXES[axis].values() for option in other.options}
    for option in (name for name in fields if name in owned and getattr(site, name) != fields[name].default):
        if axis == "score" and option in row.fixed:
            yield f"{option}: {value} {row.fixed[option]}. Remove it."
        elif option not in row.options:
            yield f"{option}: expected {axis} {_or(AXES[axis].taking(option))}, got {axis} {value}. Remove it."


def _maps(site: Attention) -> Iterator[str]:
    score, maps = SCORE[site.score], MAPS[site.maps]
    if score.content_free and maps.weights and "maps" in site.model_fields_set:
        yield f"maps: expected none with score {site.score}, which has no query or key, got {site.maps}. Remove it."
    if site.equal_start and (maps.one or not maps.weights or plugins.is_own(site.maps)):
        yield f"equal_start: expected separate maps, got {site.maps}. Remove it, or use separate maps."
    if "key" not in score.reads:
        if site.key_width is not None:
            none = f"expected none with score {site.score}, which has no key"
            yield f"key_width: {none}, got {site.key_width}. Remove it."
        if maps.one or site.equal_start:
            yield f"maps: score {site.score} has no map of keys to share. Use separate or raw maps."
    elif site.key_width is not None and not maps.weights:
        yield f"key_width: expected none with {site.maps} maps, got {site.key_width}. Remove it, or use separate maps."
    if maps.signed and score.matrix:
        others = _or(SCORE.those(lambda row: "key" in row.reads and not row.matrix))
        yield f"maps: {site.maps} has no effect: the matrix of {site.score} absorbs the signs. Use score {others}."


def _scale(site: Attention) -> Iterator[str]:
    score, weights = SCORE[site.score], WEIGHTS[site.weights]
    if score.content_free and site.scale not in (None, score.scale):
        yield f"scale: expected none with the fixed score {site.score}, got {site.scale}. Remove it."
    elif not score.d and site.scale is not None and SCALE[site.scale].divides:
        others = _or(SCALE.those(lambda row: not row.divides))
        yield f"scale: expected {others} with score {site.score}, which has no d, got {site.scale}."
    if not score.reads and weights.sums_to_one and not weights.softmax:
        yield f"weights: {site.weights} and softmax are the same with score {site.score} (1/S). Use weights softmax."
    if weights.positive and not score.positive:
        others = _or(SCORE.those(lambda row: row.positive))
        yield f"weights: {site.weights} expected positive scores, got score {site.score}. Use score {others}."
    if not score.reads and site.logits != "plain":
        yield f"logits: {site.logits} has no effect on score {site.score}, which is 0. Remove it."
    if not score.reads and weights.zero:
        others = _or(WEIGHTS.those(lambda row: not row.zero and (row.softmax or not row.sums_to_one)))
        yield f"weights: {site.weights} of score {site.score} are all 0. Use {others}."


def _matched(site: Attention) -> Iterator[str]:
    """Refuse a measured start without a parameter to multiply: of the score, of its scale, or of the maps."""
    score, scale = SCORE[site.score], site.scale or SCORE[site.score].scale
    if not LOGIT_INIT[site.logit_init].measured or score.matrix:
        return
    if score.content_free or (score.own_scale and not SCALE[scale].learned):
        yield f"logit_init: {site.logit_init} sets a parameter, but score {site.score} has none. Use standard."
    elif score.positive:
        yield f"logit_init: no parameter multiplies the scores of {site.score}, got {site.logit_init}. Use standard."
    elif not score.own_scale and (not MAPS[site.maps].weights or plugins.is_own(site.maps)) and site.norm == "none":
        yield (
            f"logit_init: {site.logit_init} sets a parameter, but {site.score} with {site.maps} maps has none. Use "
            "separate maps."
        )


def _divided_maps(site: Attention) -> Iterator[str]:
    """Refuse to divide W_Q and W_K, or their rate, where that does not make up for a missing 1/√d."""
    score, scale = SCORE[site.score], site.scale or SCORE[site.score].scale
    known = MAPS[site.maps].weights and not plugins.is_own(site.maps)
    whole = known and score.d and not score.matrix
    for name, axis in (("logit_init", LOGIT_INIT), ("map_rate", MAP_RATE)):
        value = getattr(site, name)
        if axis[value].power and not whole:
            dots = _or(SCORE.those(lambda row: row.d and not row.matrix))
            yield (
                f"{name}: {value} divides W_Q and W_K of score {dots}, got score {site.score} with {site.maps} maps. "
                f"Use {name} {type(site).model_fields[name].default}."
            )
        elif axis[value].power and site.norm != "none":
            yield f"{name}: {value} has no effect with norm {site.norm}, which undoes the size of maps. Remove it."
        elif axis[value].power and (SCALE[scale].divides or SCALE[scale].learned):
            yield f"{name}: {value} stands in for the scale, but scale is {scale}. Use scale none."


def _heads(site: Attention) -> Iterator[str]:
    combine = COMBINE[site.combine]
    if site.value_width is not None and not VALUES[site.values].weights:
        yield f"value_width: expected none with {site.values} values, got {site.value_width}. Remove it."
    if not OUTPUT[site.output].weights and site.output not in combine.outputs:
        yield f"output: expected projected with combine {site.combine}, which has W_O, got {site.output}."
    if plugins.is_own(site.output) and site.combine != "concat":
        yield f"output: {site.output} expected combine concat, whose heads it reads side by side, got {site.combine}."
    if combine.wide and not VALUES[site.values].weights:
        yield f"values: expected projected with combine {site.combine}, got {site.values}."
    if site.heads == 1 and combine.alone:
        yield f"combine: {site.combine} of one head is {combine.alone}. Use combine {combine.alone}, or more heads."


def _groups(site: Attention) -> Iterator[str]:
    """Refuse shared keys and values where there are no matrices of keys or values to share."""
    if site.groups is None:
        return
    if site.heads % site.groups:
        yield f"groups: expected a divisor of heads {site.heads}, got {site.groups}."
    if "key" not in SCORE[site.score].reads:
        yield f"groups: expected a score with keys, got {site.score}. Remove it, or use score dot."
    if not MAPS[site.maps].weights or MAPS[site.maps].one or site.equal_start or plugins.is_own(site.maps):
        how = "equal_start" if site.equal_start else f"maps {site.maps}"
        yield f"groups: expected maps separate, whose keys have a matrix of their own, got {how}."
    if not (VALUES[site.values].weights or VALUES[site.values].keys) or plugins.is_own(site.values):
        yield f"groups: expected values projected or keys, got {site.values}."


def _mixed(site: Attention) -> Iterator[str]:
    """Refuse values that are keys without keys, and weights that are mixed where each head has slots of its own."""
    combine, reach = COMBINE[site.combine], REACH[site.reach]
    if VALUES[site.values].keys:
        if "key" not in SCORE[site.score].reads or not MAPS[site.maps].weights:
            yield f"values: {site.values} expected keys with a map, got score {site.score} with {site.maps} maps."
        if combine.maps > 1:
            yield f"values: expected projected or raw with combine {site.combine}, whose heads have two keys, got keys."
    if combine.mixes and (reach.reads_query or reach.samples):
        others = _or(REACH.those(lambda row: not (row.reads_query or row.samples)))
        yield f"reach: {site.reach} chooses slots by head, but combine {site.combine} mixes weights. Use {others}."
    if combine.mixes_logits and WEIGHTS[site.weights].positive:
        yield f"weights: {site.weights} expected positive scores, but combine {site.combine} mixes them with signs."


def _norm(site: Attention) -> Iterator[str]:
    score = SCORE[site.score]
    if site.norm != "none" and score.content_free:
        yield f"norm: expected none with score {site.score}, which has no query or key, got {site.norm}. Remove it."
    if site.norm != "none" and not score.d and score.own_scale:
        yield f"norm: {site.norm} adds no function to score {site.score}, which has a norm of its own. Remove it."


def _reach(site: Attention) -> Iterator[str]:
    reach = REACH[site.reach]
    if reach.local and site.window is not None and site.window < reach.narrowest:
        yield f"window: reach {site.reach} {reach.too_narrow}. Use {reach.narrowest} or more."
    if reach.reads_query and SCORE[site.score].content_free:
        others = _or(REACH.those(lambda row: row.local and not row.reads_query))
        yield f"reach: {site.reach} needs a query, but score {site.score} has none. Use {others}."
    # A window of 0 leaves one slot, whatever its score, and is allowed all the same: it is a mask, by which sweeps hold
    # a decoder to one place while another site varies.
    if reach.local and site.window == 0 and site.exclude_self:
        yield "window: expected 1 or more with exclude_self, which hides the only slot of window 0, got 0."
    if reach.samples and not WEIGHTS[site.weights].softmax:
        yield f"weights: expected softmax with reach {site.reach}, got {site.weights}."
