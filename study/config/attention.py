"""One attention site, as declared and as resolved.

Axes named in the descriptions: D width of the model, Dq and Dk widths of the query's and the key's
states, H heads, K key width per head, V value width per head, A additive width.

A field whose default is None is *derived*: `Attention.resolved` fills it in for the mechanism at hand, and
setting it for a mechanism that does not use it is refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Frozen(BaseModel):
    """The base of every section: immutable, unknown keys refused, defaults checked like any other value."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


Size = Annotated[int, Field(ge=1)]

DEFAULT_SCALE = {"dot": "rsqrt", "bilinear": "rsqrt", "additive": "none"}


class Attention(Frozen):
    """What one attention site computes: maps → score · scale → softmax → mix → combine."""

    score: Literal["dot", "bilinear", "additive"] = Field(
        "dot", description="dot: q·k. bilinear: qᵀWk. additive: v·tanh(W[q; k])."
    )
    additive_width: Size | None = Field(None, description="A, the hidden width of an additive score (derived: K).")
    scale: Literal["none", "rsqrt", "inverse", "learned"] | None = Field(
        None,
        description="Factor on the score: none 1, rsqrt 1/√d, inverse 1/d, learned exp(g) per head starting at 1/√d; "
        "d is K for dot, Dk for bilinear, A for additive (derived: rsqrt for dot and bilinear, none for additive).",
    )
    maps: Literal["separate", "raw"] = Field(
        "separate",
        description="Where queries and keys come from. separate: W_Q and W_K, without bias. raw: the states, "
        "sliced among the heads (the base arm of the recurrent family).",
    )
    heads: Size = Field(1, description="H, the number of heads (the transformer's base arm has 4).")
    key_width: Size | None = Field(None, description="K per head, with separate maps (derived: Dq/H).")
    value_width: Size | None = Field(None, description="V per head, with projected values (derived: D/H).")
    values: Literal["projected", "raw"] = Field(
        "projected", description="projected: W_V, without bias. raw: the states, sliced among the heads."
    )
    combine: Literal["concat"] = Field("concat", description="How heads become one output. concat: [o_1; …; o_H] W_O.")
    output: Literal["projected", "raw"] = Field(
        "projected", description="projected: W_O of shape (H, V, D). raw: the combined heads as they are."
    )
    logit_init: Literal["standard", "matched"] = Field(
        "standard",
        description="matched: the score's or the maps' initial scale is set so that each head's logits have "
        "standard deviation 1 at step 0, measured on the first training batch.",
    )

    @model_validator(mode="after")
    def _only_what_is_used(self) -> Self:
        if self.additive_width is not None and self.score != "additive":
            raise ValueError(f"additive_width belongs to score additive, and score is {self.score}; leave it out")
        if self.key_width is not None and self.maps == "raw":
            raise ValueError("raw maps take the states as they are, so key_width follows; leave it out or use separate")
        if self.value_width is not None and self.values == "raw":
            raise ValueError("raw values take the states as they are, so value_width follows; leave it out or project")
        if self.logit_init == "matched" and self.maps == "raw" and self.score == "dot":
            raise ValueError("logit_init matched sets a parameter, and dot on raw maps has none; use separate maps")
        return self

    def resolved(self, query_width: int, memory_width: int) -> Attention:
        """This site with every derived field filled in, checked against the widths it joins.

        Raises:
            ValueError: heads do not divide a width that they slice, or a dot product joins unequal sizes.
        """
        derived: dict[str, Any] = {"scale": self.scale or DEFAULT_SCALE[self.score]}
        if self.maps == "separate" and self.key_width is None:
            derived["key_width"] = _share(query_width, self.heads, "key_width")
        if self.values == "projected" and self.value_width is None:
            derived["value_width"] = _share(query_width, self.heads, "value_width")
        site = self.model_copy(update=derived)
        query, key = site.map_widths(query_width, memory_width)
        if site.score == "dot" and query != key:
            raise ValueError(
                f"dot needs queries and keys of one size, and raw states are {query_width} and {memory_width} wide; "
                "make them equal, or use separate maps, bilinear or additive"
            )
        if site.score == "additive" and site.additive_width is None:
            site = site.model_copy(update={"additive_width": key})
        site.mixed_width(memory_width)
        return site

    def map_widths(self, query_width: int, memory_width: int) -> tuple[int, int]:
        """Widths per head (of the query, of the key) that the score sees."""
        if self.maps == "separate":
            assert self.key_width is not None
            return self.key_width, self.key_width
        return _share(query_width, self.heads, "the raw query"), _share(memory_width, self.heads, "the raw key")

    def mixed_width(self, memory_width: int) -> int:
        """V, the width of one head's output."""
        return self.value_width or _share(memory_width, self.heads, "the raw values")

    def output_width(self, query_width: int, memory_width: int) -> int:
        """The width of what the site returns: D when projected, H·V when raw."""
        return query_width if self.output == "projected" else self.heads * self.mixed_width(memory_width)


def _share(width: int, heads: int, what: str) -> int:
    if width % heads:
        divisors = ", ".join(str(h) for h in range(1, width + 1) if width % h == 0 and h <= 64)
        mend = f"give {what} itself, or " if what.endswith("_width") else ""
        raise ValueError(f"{heads} heads do not divide the width {width}; {mend}use one of {divisors} heads")
    return width // heads
