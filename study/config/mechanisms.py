"""Table of mechanisms: every value of every axis, and the facts about it that other modules read.

One row is one value. Validation, refusals, help, defaults, docs/mechanisms.md, the order of colours in figures,
benchmarks and tests follow from the rows; no other module lists values. A torch class implements a row by declaring its
axis and its name (`study.attention.part`).

A user's own mechanism is a class in a file outside the package (`study.config.plugins`). Its facts make a row of the
same kind, which `AXES[axis][value]` finds and which no list of values contains.

Symbols in formulas are those of docs/mechanisms.md: q, k, v query, key and value of a head · e score · a weight ·
o output of a head · c output of the site · d width that a score sums over · K, Kq, Kk, V, A, R widths ·
t, s query and slot.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from study.config import plugins

Names = tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Facts about one value of an axis. Every axis has a kind of its own with further facts."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    formula: str = ""
    source: str = ""
    """Papers, `; ` between them."""
    label: str = ""
    """Words in figures; the name if there are none."""
    help: str = ""
    """Words of --help; the formula if there are none."""
    control: str = ""
    """`control`, with the reason after a colon, for a value that exists to be compared with."""
    options: Names = ()
    """Fields that belong to this value, and to those others of its axis that list them."""


@dataclass(frozen=True)
class ScoreFacts(Facts):
    """Facts about a score."""

    scale: str = "none"
    """The scale if none is given."""
    d: Literal["", "K", "Kq", "Kk", "A", "R"] = ""
    """Symbol of the width that the score sums over; empty if it has none, so that no scale can divide by it."""
    reads: Names = ("query", "key")
    """Its inputs: query, key, the query's position, the slot's number. Without any, all slots score 0."""
    equal_sizes: bool = False
    """Queries and keys must have one width."""
    matrix: bool = False
    """It has a matrix of its own. Scores are linear in one of its parameters, which logit_init matched multiplies; the
    matrix absorbs signs on the components of the key."""
    own_scale: bool = False
    """The learned scale is a factor of its own, inside the score; it divides by no d."""
    rotary: bool = False
    """The score of a query turned by the angle of t and a key turned by that of s depends on t − s alone."""
    positive: bool = False
    """Scores are positive, and no parameter multiplies them."""

    @property
    def unit_logits(self) -> bool:
        """True if initial values make scores O(1) whatever d is: 1/√d or 1/d on top is over-scaled, a control."""
        return bool(self.d) and self.scale == "none"

    @property
    def content_free(self) -> bool:
        """True if the score reads neither query nor key, so that projections and scales have no effect."""
        return not {"query", "key"} & set(self.reads)


@dataclass(frozen=True)
class ScaleFacts(Facts):
    """Facts about a scale."""

    power: float = 0.0
    """It divides by d to this power, at the start if it is learned."""
    learned: bool = False
    grows: bool = False
    """It grows with the number of visible slots."""

    @property
    def divides(self) -> bool:
        """True if the scale divides by a fixed power of d."""
        return self.power > 0 and (self.grows or not self.learned)


@dataclass(frozen=True)
class WeightsFacts(Facts):
    """Facts about a normaliser."""

    sums_to_one: bool = False
    """The weights of a query are a distribution: they have an entropy, and a slot without others has all the weight."""
    softmax: bool = False
    """The Jacobian of a row a is diag(a) − a aᵀ, and a slot can be drawn from it."""
    zero: bool = False
    """A slot whose score is 0 has weight 0."""
    positive: bool = False
    """It takes positive scores alone."""
    divides_by_slots: bool = False
    scale: str = ""
    """The only scale that it takes; empty if it takes all."""


@dataclass(frozen=True)
class MapsFacts(Facts):
    """Facts about the projections of queries and keys, about values and about the output."""

    weights: bool = True
    """There is a matrix; else the states, or the combined heads, are taken as they are."""
    one: bool = False
    """Queries and keys have one matrix."""
    signed: bool = False
    """The components of the key have fixed signs."""
    keys: bool = False
    """The values of a head are its keys."""


@dataclass(frozen=True)
class CombineFacts(Facts):
    """Facts about a combination of heads."""

    outputs: Names = ("projected",)
    """The values of axis output that it takes."""
    alone: str = "concat"
    """The combination that it equals with one head, where its own name is refused; empty for the base of the others."""
    maps: int = 1
    """Score maps of a head, each with queries and keys of its own."""
    mixes_logits: str = ""
    """Equation that mixes the logits of all heads, so that no head can be removed; empty if it does not."""
    mixes: str = ""
    """Equation that mixes weights before they reach the values; empty if it does not."""

    @property
    def wide(self) -> bool:
        """True if there is no W_O, so that values have the width of the model."""
        return "projected" not in self.outputs


AS_MIXED = "Σ_s a_s v_s"
"""A head's output, unless its reach says otherwise."""


@dataclass(frozen=True)
class ReachFacts(Facts):
    """Facts about a reach. Without a formula, it is made of the parts."""

    within: str = ""
    """Condition on the slots s that stay visible."""
    after: Names = ()
    """Steps from the normalised weights a to those that mix, in the order of computation."""
    mixed: str = AS_MIXED
    """Output of a head."""
    cross_only: bool = False
    """It belongs to cross-attention alone."""
    reads_query: bool = False
    """It reads the query, apart from the score."""
    samples: bool = False
    """It draws a slot in training, from a softmax."""
    narrowest: int = 0
    """The smallest half-width of its window."""
    covering: str = ""
    """The value that it equals where its window covers every slot."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "formula", self.formula or self.composed)

    @property
    def composed(self) -> str:
        """The formula that the parts make."""
        mixed = () if self.mixed == AS_MIXED else (f"o = {self.mixed}",)
        return "; ".join(part for part in (self.within, *self.after, *mixed) if part) or "every visible slot"

    @property
    def local(self) -> bool:
        """True if the reach is a window of slots."""
        return "window" in self.options


@dataclass(frozen=True)
class StartFacts(Facts):
    """Facts about initial values."""

    measured: bool = False
    """They are set by a measurement on the first training batch."""
    square: bool = False
    """The matrix must be square."""
    power: float = 0.0
    """W_Q and W_K, or their learning rate, are divided by d to this power."""


@dataclass(frozen=True)
class SiteFacts(Facts):
    """Facts about a whole site. Its options are the fields of an attention that it reads; it takes no others."""

    sites: Names = ("encoder_self", "decoder_self", "cross", "joint")
    """The sites at which it may stand."""
    positions: bool = False
    """It applies relative positions itself."""


@dataclass(frozen=True)
class PositionsFacts(Facts):
    """Facts about positions."""

    even_width: bool = False
    relative: bool = False
    """They act in self-attention, by the distance of query and slot; embeddings stay as they are."""
    rotates: bool = False
    """They turn queries and keys, in pairs of components."""
    biased: bool = False
    """They add to the logits."""


@dataclass(frozen=True)
class MixingFacts(Facts):
    """Facts about the mixing of tokens in the encoder."""

    attends: bool = False
    """It is self-attention, the site encoder_self."""


@dataclass(frozen=True)
class MemoryFacts(Facts):
    """Facts about the memory of the decoder."""

    slots: int | None = None
    """Number of slots, if it does not depend on the sentence or on a field."""
    ordered: bool = False
    """Slots are source tokens in their order."""
    families: Names = ("recurrent", "transformer")


@dataclass(frozen=True)
class DecoderFacts(Facts):
    """Facts about the recurrent decoder: its initial state, and its query time."""

    mapped: bool = False
    """The initial state passes a matrix and a tanh, one for each part of the state."""
    one_width: bool = False
    """Encoder states must have the decoder's width."""
    query: str = ""
    """The state that queries are mapped from."""
    context_enters: bool = False
    """The query is the state before the token is read, and the context enters the cell with the token."""


Row = TypeVar("Row", bound=Facts)


class Axis(dict[str, Row]):
    """Values of one axis by name, in the order of colours and markers in figures."""

    extensible = False
    """A user's own class may be a value. `self[value]` has its row; iteration leaves it out."""

    def __missing__(self, value: str) -> Row:
        """Return the row of a user's own mechanism.

        Raises:
            KeyError: the value names none, or the axis takes none.
            ValueError: its file or its facts cannot be used.
        """
        if not self.extensible or not plugins.is_own(value):
            raise KeyError(value)
        plugin = plugins.read(value)
        return self.row(plugin.facts, f"{plugin.name}.facts")

    def row(self, facts: Mapping[str, Any], where: str) -> Row:
        """Return the row that the facts of a user's own mechanism make.

        Raises:
            ValueError: a fact that rows of this axis do not have, or of another type.
        """
        kind = TypeAdapter(type(next(iter(self.values()))))
        try:
            row = kind.validate_json(json.dumps(dict(facts), default=repr), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            what = first["msg"].replace("Input should be", "expected")
            raise ValueError(f"{where}.{first['loc'][0]}: {what}, got {first['input']!r}") from None
        if not row.formula:
            raise ValueError(f"{where}.formula: expected the equation as a text, such as formula='q·k', got ''")
        return row

    def those(self, fact: Callable[[Row], Any]) -> Names:
        """Return the names of the rows for which a fact is true."""
        return tuple(name for name, row in self.items() if fact(row))

    def taking(self, option: str) -> Names:
        """Return the names of the rows that take an option."""
        return self.those(lambda row: option in row.options)

    @property
    def described(self) -> str:
        """Every value with its help text."""
        return " ".join(f"{name}: {row.help or row.formula}." for name, row in self.items())


# One row is one value, on one line if it fits.
# fmt: off
SCORE = Axis({
    "dot":          ScoreFacts("q·k", "Luong et al. 2015; Vaswani et al. 2017", scale="rsqrt", d="K", equal_sizes=True,
                               rotary=True),
    "additive":     ScoreFacts("v·tanh(W [q; k])", "Bahdanau et al. 2015", d="A", matrix=True,
                               options=("additive_width",)),
    "bilinear":     ScoreFacts("qᵀ W k", "Luong et al. 2015", scale="rsqrt", d="Kk", matrix=True,
                               options=("bilinear_init",)),
    "location":     ScoreFacts("w_s·q", "Luong et al. 2015", help="w_s·q for slot s, without keys", d="Kq", matrix=True,
                               reads=("query", "slot")),
    "concat_luong": ScoreFacts("v·tanh(W q + k + b)", "Luong et al. 2015", "concat (Luong)", d="Kk", matrix=True),
    "cosine":       ScoreFacts("τ q·k / (‖q‖ ‖k‖)", "Henry et al. 2020", scale="learned", own_scale=True,
                               equal_sizes=True, rotary=True,
                               help="τ q·k / (‖q‖ ‖k‖). With scale none τ is 1; learned is a τ per head that "
                               "starts at log₂(L² − L) for a training length L"),
    "low_rank":     ScoreFacts("(U q)·(V k)", scale="rsqrt", d="R", matrix=True, options=("rank",)),
    "concat":       ScoreFacts("v·tanh(W [q; k] + b)", "Luong et al. 2015", d="A", matrix=True,
                               options=("additive_width",), help="additive with a bias"),
    "uniform":      ScoreFacts("0", control="control", reads=()),
    "fixed_random": ScoreFacts("T_{t s}", "Tay et al. 2021", control="control", reads=("position", "slot"),
                               help="a frozen random table of query position × slot"),
    "elu_kernel":   ScoreFacts("φ(q)·φ(k), φ(x) = elu(x) + 1", "Katharopoulos et al. 2020", "elu kernel",
                               equal_sizes=True, positive=True),
})
SCALE = Axis({
    "rsqrt":      ScaleFacts("1/√d", "Vaswani et al. 2017", "1/√d", power=0.5),
    "none":       ScaleFacts("1", label="unscaled"),
    "inverse":    ScaleFacts("1/d", label="1/d", power=1.0),
    "learned":    ScaleFacts("exp(g)", "", "learned scale", "exp(g) per head starting at 1/√d", power=0.5,
                             learned=True),
    "log_length": ScaleFacts("g ln S / √d", "Chiang and Cholak 2022; Nakanishi 2025", "scale grows with ln S",
                             "g·ln S/√d, g per head, for S visible slots", power=0.5, learned=True, grows=True),
})
LOGITS = Axis({
    "plain": Facts("e", label="plain logits"),
    "cap":   Facts("c·tanh(e/c)", "Gemma Team 2024", "capped logits", options=("cap",)),
})
NORM = Axis({
    "none": Facts(label="no norm of Q and K", help="as the projections make them"),
    "rms":  Facts("q ← γ_q ⊙ q / rms(q), k ← γ_k ⊙ k / rms(k)", "Dehghani et al. 2023", "RMS norm of Q and K",
                       "divided by their root mean square, times a learned gain per head and component (QK-norm)"),
})
WEIGHTS = Axis({
    "softmax":       WeightsFacts("softmax(e)", "Bahdanau et al. 2015", sums_to_one=True, softmax=True),
    "sparsemax":     WeightsFacts("[e − τ]₊", "Martins and Astudillo 2016", sums_to_one=True),
    "entmax15":      WeightsFacts("[e/2 − τ]₊²", "Peters et al. 2019, α = 1.5", "entmax 1.5", sums_to_one=True),
    "sigmoid":       WeightsFacts("σ(e − ln S)", "Ramapuram et al. 2024"),
    "identity":      WeightsFacts("e", zero=True, scale="rsqrt"),
    "identity_mean": WeightsFacts("e / S", label="identity / S", zero=True, divides_by_slots=True),
    "softmax_one":   WeightsFacts("exp(e) / (1 + Σ exp(e))", "Miller 2023", "softmax-one"),
    "sink":          WeightsFacts("exp(e) / (exp(b) + Σ exp(e))", "OpenAI 2025", "softmax with a sink"),
    "relu":          WeightsFacts("[e]₊ / S", "Wortsman et al. 2023", "relu / S", zero=True),
    "normalised":    WeightsFacts("e / Σ e", "Katharopoulos et al. 2020", "scores ÷ their sum", sums_to_one=True,
                                  zero=True,
                                  positive=True, scale="none"),
})
MAPS = Axis({
    "separate":    MapsFacts("", "Vaswani et al. 2017", "separate QK projections", "W_Q and W_K, without bias"),
    "tied":        MapsFacts("", "Kitaev et al. 2020; Courtois et al. 2024", "shared QK projection", "W_Q = W_K",
                             one=True),
    "tied_signed": MapsFacts("", "", "shared QK projection with signs",
                             "tied, with signs +1, −1, +1, … on the components of the key",
                             one=True, signed=True),
    "raw":         MapsFacts("", "", "no QK projections",
                             "the states, sliced among the heads (base arm of the recurrent family)",
                             weights=False),
})
VALUES = Axis({
    "projected": MapsFacts("", "", "projected values", "W_V, without bias"),
    "raw":       MapsFacts("", "", "raw values", "the states, sliced among the heads", weights=False),
    "keys":      MapsFacts("", "Kayyam et al. 2026", "values = keys", "the keys, with their W_K", weights=False,
                           keys=True),
})
OUTPUT = Axis({
    "projected": MapsFacts("", "Vaswani et al. 2017", help="W_O of shape (H, V, D)"),
    "raw":       MapsFacts(help="the combined heads as they are", weights=False),
})
COMBINE = Axis({
    "concat":       CombineFacts("[o_1; …; o_H] W_O", "Vaswani et al. 2017", outputs=("projected", "raw"), alone=""),
    "sum_own":      CombineFacts("Σ_n o_n W_O^n", "Michel et al. 2019",
                                 control="control: the function of concat, rounded differently"),
    "sum_shared":   CombineFacts("(Σ_n o_n) W_O"),
    "mean_shared":  CombineFacts("(1/H Σ_n o_n) W_O", control="control"),
    "sum_wide":     CombineFacts("Σ_n o_n", help="Σ_n o_n with V = D, no W_O", outputs=("raw",),
                                 alone="concat with output raw and value_width = D"),
    "gate":         CombineFacts("[o_1 ⊙ g_1; …; o_H ⊙ g_H] W_O, g_n = σ(W_G x)", "Qiu et al. 2025", "gated heads",
                                 "concat of heads times σ(W_G x), x the state of the query", alone=""),
    "talking":      CombineFacts("[o_1; …; o_H] W_O", "Shazeer et al. 2020", "talking heads",
                                 "concat of heads whose logits and weights are mixed by learned H × H matrices",
                                 mixes_logits="e_m ← Σ_n P_nm e_n", mixes="a_m ← Σ_n P′_nm a_n"),
    "differential": CombineFacts("(1 − λ₀) [norm(o_1); …; norm(o_H)] W_O", "Ye et al. 2024", "differential heads",
                                 "concat of normalised heads, each with the difference of two score maps for weights",
                                 mixes="a ← a − λ a′, a′ of a second score map, λ = exp(g·h) − exp(g′·h′) + λ₀",
                                 maps=2, alone=""),
})
REACH = Axis({
    "global":  ReachFacts(help="all"),
    "local_m": ReachFacts("", "Luong et al. 2015, local-m", "local, monotonic",
                          "those at most `window` away from its own position, at cross from slot min(t, S − 1); at "
                          "joint in the joined sequence, so that target tokens see the source only within `window` of "
                          "the boundary",
                          options=("window",), within="|s − min(t, S−1)| ≤ w", covering="global"),
    "local_p": ReachFacts("", "Luong et al. 2015, local-p", "local, predicted",
                          "from a predicted position, under a Gaussian",
                          options=("window",), within="|s − p| ≤ w, p = (S−1)·σ(v·tanh(W q))", reads_query=True,
                          narrowest=1,
                          after=("a ← a · exp(−(s − p)² / 2(w/2)²), not normalised again",)),
    "hard":    ReachFacts("", "Xu et al. 2015", "one sampled slot", "one sampled slot, at cross only",
                          options=("entropy_bonus",), mixed="v_z", cross_only=True, samples=True,
                          after=("in training z ~ a, in validation and search z = argmax_s a_s",)),
})
LOGIT_INIT = Axis({
    "standard": StartFacts(),
    "matched":  StartFacts(label="logits start at sd 1", measured=True),
    "rsqrt":    StartFacts(label="logits start as with 1/√d", power=0.25),
    "inverse":  StartFacts(label="logits start as with 1/d", power=0.5),
})
MAP_RATE = Axis({
    "common":  StartFacts(),
    "rsqrt":   StartFacts(label="W_Q and W_K learn as with 1/√d", power=0.25),
    "inverse": StartFacts(label="W_Q and W_K learn as with 1/d", power=0.5),
    "inverse_rsqrt": StartFacts(label="W_Q and W_K learn at d^−½ of the rate with 1/√d", power=0.75),
})
BILINEAR_INIT = Axis({
    "xavier":   StartFacts(help="variance 2/(Kq + Kk)"),
    "identity": StartFacts(label="from identity", help="the identity", square=True),
})
SITE = Axis({
    "parts": SiteFacts("the parts that the other fields name"),
})
MEMORY = Axis({
    "states":     MemoryFacts("h_1 … h_S", "Bahdanau et al. 2015", "all states", "all encoder states", ordered=True),
    "final":      MemoryFacts("h_final, one slot", "Sutskever et al. 2014", "fixed vector (final state)",
                              "the final state", slots=1),
    "mean":       MemoryFacts("1/S Σ_s h_s, one slot", "", "mean state", "the mean of all", slots=1),
    "max":        MemoryFacts("max_s h_s by component, one slot", "", "maximum over states", slots=1),
    "empty":      MemoryFacts("no slot: a zero context", "", "no memory", "no memory", slots=0,
                              families=("recurrent",)),
    "structured": MemoryFacts("M = A [h_1 … h_S], A = softmax(W_2 tanh(W_1 h))", "Lin et al. 2017", "annotations",
                              "`annotations` weighted sums of them", options=("annotations", "annotation_width",
                              "penalty")),
})
POSITIONS = Axis({
    "sinusoidal": PositionsFacts("x + [sin ω_0 t, cos ω_0 t, sin ω_1 t, cos ω_1 t, …], ω_i = 10000^(−2i/D)",
                                 "Vaswani et al. 2017", "sinusoidal positions", even_width=True),
    "learned":    PositionsFacts("x + √D · P_t", "Gehring et al. 2017", "learned positions"),
    "none":       PositionsFacts("x", label="no positions"),
    "rope":       PositionsFacts("(q_2i, q_2i+1) turned by t ω_i, (k_2i, k_2i+1) by s ω_i, ω_i = 10000^(−2i/K)",
                                 "Su et al. 2021", "rotary positions", relative=True, rotates=True),
    "alibi":      PositionsFacts("e − m_n |t − s|, m_n = 2^(−8n/H)", "Press et al. 2022", "ALiBi", relative=True,
                                 biased=True),
    "t5":         PositionsFacts("e + b_{n, bucket(s − t)}", "Raffel et al. 2020", "T5 biases", relative=True,
                                 biased=True),
})
MIXING = Axis({
    "attention":   MixingFacts("self-attention, the site encoder_self", attends=True),
    "convolution": MixingFacts("y_s = Σ_j W_j x_{s + j − ⌊(w−1)/2⌋}", options=("convolution_width",)),
})
INIT = Axis({
    "final":  DecoderFacts("tanh(W [h→; h←])", "", "starts from the final state", mapped=True),
    "zero":   DecoderFacts("", "", "starts from zero", "zero"),
    "mean":   DecoderFacts("tanh(W mean(h))", "", "starts from the mean state", mapped=True),
    "direct": DecoderFacts("[h→; h←]", "", "starts unmapped", one_width=True),
})
DECODER = Axis({
    "bahdanau": DecoderFacts("", "Bahdanau et al. 2015", help="s_{t-1}, and the context enters the cell",
                             query="s_{t−1}, the decoder's state before", context_enters=True),
    "luong":    DecoderFacts("", "Luong et al. 2015", help="s_t", query="s_t, the decoder's state after",
                             options=("input_feeding",)),
})

AXES: dict[str, Axis[Any]] = {
    "score": SCORE, "scale": SCALE, "logits": LOGITS, "weights": WEIGHTS, "reach": REACH, "maps": MAPS, "norm": NORM,
    "values": VALUES, "combine": COMBINE, "output": OUTPUT, "logit_init": LOGIT_INIT, "map_rate": MAP_RATE,
    "bilinear_init": BILINEAR_INIT, "site": SITE,
    "memory": MEMORY, "positions": POSITIONS, "mixing": MIXING, "init": INIT, "decoder": DECODER,
}
# fmt: on
"""Field ↦ its values: up to `site` fields of an attention, the rest fields of a model."""

for _axis in (SCORE, SCALE, WEIGHTS, MAPS, VALUES, COMBINE, OUTPUT, REACH, SITE, POSITIONS, MIXING):
    _axis.extensible = True

COLOURED = ("score", "scale", "weights", "reach", "maps", "combine", "memory", "init")
"""Axes whose values have colours and markers of their own in figures, in the order of the rows."""

SIZES = {"key_width": "K", "value_width": "V", "additive_width": "A", "rank": "R"}
"""Widths inside an attention ↦ their symbols."""

DERIVED: dict[str, float | Callable[[int], int]] = {
    "additive_width": lambda width: width,
    "rank": lambda width: max(1, width // 4),
    "window": 4,
    "entropy_bonus": 0.01,
    "cap": 50.0,
    "annotations": 8,
    "annotation_width": lambda width: width,
    "penalty": 0.0,
    "convolution_width": 3,
}
"""Option ↦ its default, or what makes it from the width that it works on: of a head's keys, or of the states."""


def derived(option: str, width: int) -> Any:
    """Return the value of an option that is not given, from the width that it works on."""
    value = DERIVED[option]
    return value(width) if callable(value) else value


VARIANTS = (
    "logit_init=matched", "equal_start=true", "exclude_self=true", "bilinear_init=identity", "init=direct",
    "logit_init=rsqrt", "map_rate=rsqrt",
)  # fmt: skip
"""Settings that make a variant of an arm. Figures draw a variant hollow, with the marker of its place here."""


class Choice:
    """Annotation of a field whose values are those of an axis, if a family is named those that the family has."""

    def __init__(self, axis: str, family: str = "") -> None:
        self.axis, self.family = axis, family

    @cached_property
    def names(self) -> Names:
        """The values."""
        return AXES[self.axis].those(lambda row: self.family in ("", *getattr(row, "families", (self.family,))))

    def check(self, value: Any) -> str:
        """Return the value if it is one of the axis. A file of a user's own becomes `CLASS@DIGEST`.

        Raises:
            ValueError: the user's own file, class or facts cannot be used.
            PydanticKnownError: the value is none; the error is that of a `Literal`.
        """
        if isinstance(value, str) and value in self.names:
            return value
        if AXES[self.axis].extensible and plugins.is_own(value):
            assert AXES[self.axis][value]
            return plugins.read(value).value
        raise PydanticKnownError("literal_error", {"expected": ", ".join(self.names)})

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Accept the values and nothing else."""
        return core_schema.no_info_plain_validator_function(self.check)


def chosen(axis: str, default: str, text: str = "", family: str = "") -> Any:
    """Declare a field that is a choice, with its default; its description is a text and then every value."""
    field: Any = Field(default, description=f"{text} {AXES[axis].described}".lstrip())
    field.metadata.append(Choice(axis, family))
    return field


def choices(declared: FieldInfo) -> tuple[Any, ...]:
    """Return the values of a field that is a choice, in the order of its axis or `Literal`; none for another field."""
    types = (declared.annotation, *get_args(declared.annotation))
    for kind in (*declared.metadata, *types, *(inside for one in types for inside in get_args(one))):
        if isinstance(kind, Choice):
            return kind.names
        if get_origin(kind) is Literal:
            return get_args(kind)
    return ()
