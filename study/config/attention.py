"""One attention site, as declared and as resolved.

Axes named in the descriptions: D width of the model, Dq and Dk widths of the query's and the key's
states, H heads, K key width per head, V value width per head, A additive width, R rank. q and k are
what the maps make of the states. What the mechanism does not use is refused in `study.config.refusals`.

A field whose default is None is *derived*: `Attention.resolved` fills it in for the mechanism at hand, and
setting it for a mechanism that does not use it is refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from study.config.refusals import LOCAL, TIED, WITHOUT_KEYS, WITHOUT_QUERY, mechanism_refusals


class Frozen(BaseModel):
    """The base of every section: immutable, unknown keys refused, defaults checked like any other value."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, given: Any) -> Any:
        """Python counts true as 1: `seed: true` would be seed 1."""
        for name, value in given.items() if isinstance(given, dict) else ():
            if isinstance(value, bool) and name in cls.model_fields and cls.model_fields[name].annotation is not bool:
                raise ValueError(f"{name} is no question of true or false; give its value, not {str(value).lower()}")
        return given

    @field_validator("*")
    @classmethod
    def _one_zero(cls, value: Any) -> Any:
        """−0.0 is 0.0: one number has one identity."""
        return 0.0 if isinstance(value, float) and value == 0 else value


Size = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


def _writable(name: str) -> str:
    if not name or "\0" in name:
        raise ValueError(f"{name!r} is no name of a folder; give one without a null byte")
    return name


Name = Annotated[str, AfterValidator(_writable)]
"""The name of a folder."""

DEFAULT_SCALE = {"dot": "rsqrt", "bilinear": "rsqrt", "low_rank": "rsqrt", "cosine": "learned"}
"""Where no scale is given; none for the scores that are not named."""


class Attention(Frozen):
    """What one attention site computes: maps → score · scale → weights → mix → combine."""

    score: Literal[
        "dot",
        "bilinear",
        "additive",
        "cosine",
        "low_rank",
        "concat",
        "concat_luong",
        "location",
        "uniform",
        "fixed_random",
    ] = Field(
        "dot",
        description="dot: q·k. bilinear: qᵀWk. additive: v·tanh(W[q; k]). cosine: τ q·k/(‖q‖‖k‖). low_rank: "
        "(Uq)·(Vk). concat: additive with a bias. concat_luong: v·tanh(W q + k + b). location: w_s·q for slot s, "
        "without keys. uniform: 0. fixed_random: a frozen random table of query position × slot.",
    )
    additive_width: Size | None = Field(
        None, description="A, the hidden width of score additive or concat (derived: K)."
    )
    rank: Size | None = Field(None, description="R, the rank of score low_rank (derived: a quarter of K).")
    bilinear_init: Literal["xavier", "identity"] = Field(
        "xavier", description="Initial W of score bilinear: xavier, of variance 2/(Dq + Dk), or the identity."
    )
    scale: Literal["none", "rsqrt", "inverse", "learned"] | None = Field(
        None,
        description="Factor on the score: none 1, rsqrt 1/√d, inverse 1/d, learned exp(g) per head starting at 1/√d; "
        "d is K for dot, Dk for bilinear, R for low_rank, A for additive and concat, Dq for location (derived: rsqrt "
        "for dot, bilinear and low_rank, none elsewhere). cosine: none is τ = 1 and learned (derived) a τ per head "
        "that starts at log₂(L² − L) for a training length L. uniform and fixed_random take none.",
    )
    maps: Literal["separate", "raw", "tied", "tied_signed"] = Field(
        "separate",
        description="Where queries and keys come from. separate: W_Q and W_K, without bias. raw: the states, "
        "sliced among the heads (the base arm of the recurrent family). tied: W_Q = W_K. tied_signed: the same, with "
        "the signs +1, −1, +1, … on the components of the key.",
    )
    equal_start: bool = Field(False, description="Separate maps that start with the same values, W_K = W_Q.")
    weights: Literal["softmax", "sparsemax", "entmax15", "sigmoid", "identity", "identity_mean"] = Field(
        "softmax",
        description="From scores s to weights, over the visible slots: softmax, sparsemax, entmax15 (α = 1.5), sigmoid "
        "σ(s − ln S) for S visible slots, identity s (with scale rsqrt only), identity_mean s/S.",
    )
    heads: Size = Field(1, description="H, the number of heads (the transformer's base arm has 4).")
    key_width: Size | None = Field(None, description="K per head, unless maps are raw (derived: Dq/H).")
    value_width: Size | None = Field(None, description="V per head, with projected values (derived: D/H).")
    values: Literal["projected", "raw"] = Field(
        "projected", description="projected: W_V, without bias. raw: the states, sliced among the heads."
    )
    combine: Literal["concat", "sum_own", "sum_shared", "mean_shared", "sum_wide"] = Field(
        "concat",
        description="How heads become one output. concat: [o_1; …; o_H] W_O. sum_own: Σ o_h W_h, the same function. "
        "sum_shared: (Σ o_h) W, one W for all heads. mean_shared: the same ÷ H. sum_wide: Σ o_h with V = D, no W_O.",
    )
    output: Literal["projected", "raw"] = Field(
        "projected", description="projected: W_O of shape (H, V, D). raw: the combined heads as they are."
    )
    reach: Literal["global", "local_m", "local_p", "hard"] = Field(
        "global",
        description="Which visible slots a query attends to. global: all. local_m: those at most `window` away from "
        "its own position (at cross: from slot min(t, S − 1) for the t-th target token). local_p: from a predicted "
        "position, under a Gaussian. hard: one sampled slot, at cross only.",
    )
    window: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Half-width of the window of reach local_m (0: the centre alone) and local_p (derived: 4)."
    )
    entropy_bonus: Annotated[float, Field(ge=0)] | None = Field(
        None, description="Weight on the entropy that reach hard adds to its return (derived: 0.01)."
    )
    exclude_self: bool = Field(False, description="Self-attention only: no query sees the slot of its own position.")
    logit_init: Literal["standard", "matched"] = Field(
        "standard",
        description="matched: the score's or the maps' initial scale is set so that each head's logits have "
        "standard deviation 1 at step 0, measured on the first training batch.",
    )

    @model_validator(mode="after")
    def _only_what_is_used(self) -> Self:
        for problem in mechanism_refusals(self):
            raise ValueError(problem)
        return self

    def resolved(self, query_width: int, memory_width: int) -> Attention:
        """This site with every derived field filled in, checked against the widths it joins.

        Raises:
            ValueError: heads do not divide a width that they slice, or widths that must be equal are not.
        """
        derived: dict[str, Any] = {"scale": self.scale or DEFAULT_SCALE.get(self.score, "none")}
        if self.weights == "identity" and derived["scale"] != "rsqrt":
            raise ValueError(f"weights identity are the scores themselves, at scale rsqrt, not {derived['scale']}")
        if self.score in WITHOUT_QUERY:
            derived["maps"] = "raw"
        elif self.maps != "raw" and self.score not in WITHOUT_KEYS and self.key_width is None:
            derived["key_width"] = _share(query_width, self.heads, "key_width")
        if self.combine == "sum_wide":
            derived |= {"value_width": self._wide(query_width), "output": "raw"}
        elif self.values == "projected" and self.value_width is None:
            derived["value_width"] = _share(query_width, self.heads, "value_width")
        if self.reach in LOCAL and self.window is None:
            derived["window"] = 4
        if self.reach == "hard" and self.entropy_bonus is None:
            derived["entropy_bonus"] = 0.01
        site = self.model_copy(update=derived)
        site = site.model_copy(update=site._sized(query_width, memory_width))
        site.mixed_width(memory_width)
        return site

    def _wide(self, query_width: int) -> int:
        if self.value_width not in (None, query_width):
            raise ValueError(f"combine sum_wide has value_width = {query_width}, the model's; leave it out")
        return query_width

    def _sized(self, query_width: int, memory_width: int) -> dict[str, Any]:
        """The score's own sizes, and whether the widths that it joins fit."""
        query, key = self.map_widths(query_width, memory_width)
        if (self.maps in TIED or self.equal_start) and query_width != memory_width:
            raise ValueError(
                f"one start for both maps needs states of one width, not {query_width} and {memory_width}; "
                "make them equal, or use separate maps"
            )
        if query != key and self.score in ("dot", "cosine"):
            raise ValueError(
                f"{self.score} needs queries and keys of one size, and raw states are {query_width} and {memory_width} "
                "wide; make them equal, or use separate maps, bilinear or additive"
            )
        if query != key and self.bilinear_init == "identity":
            raise ValueError(f"bilinear_init identity needs a square W, not {query} × {key}; use xavier")
        if self.score in ("additive", "concat"):
            return {"additive_width": self.additive_width or key}
        return {"rank": self.rank or max(1, key // 4)} if self.score == "low_rank" else {}

    def map_widths(self, query_width: int, memory_width: int) -> tuple[int, int]:
        """Widths per head (of the query, of the key) that the score sees; 0 for what it does not read."""
        if self.score in WITHOUT_QUERY:
            return 0, 0
        if self.score in WITHOUT_KEYS:
            return _share(query_width, self.heads, "the query"), 0
        if self.maps != "raw":
            assert self.key_width is not None
            return self.key_width, self.key_width
        return _share(query_width, self.heads, "the raw query"), _share(memory_width, self.heads, "the raw key")

    def mixed_width(self, memory_width: int) -> int:
        """V, the width of one head's output."""
        return self.value_width or _share(memory_width, self.heads, "the raw values")

    def output_width(self, query_width: int, memory_width: int) -> int:
        """The width of what the site returns: H·V when it is concatenated and raw, else D."""
        if self.output == "projected" or self.combine == "sum_wide":
            return query_width
        return self.heads * self.mixed_width(memory_width)


def _share(width: int, heads: int, what: str) -> int:
    if width % heads:
        divisors = ", ".join(str(h) for h in range(1, width + 1) if width % h == 0 and h <= 64)
        mend = f"give {what} itself, or " if what.endswith("_width") else ""
        raise ValueError(f"{heads} heads do not divide the width {width}; {mend}use one of {divisors} heads")
    return width // heads
