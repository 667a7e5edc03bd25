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

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from study.config import plugins


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts about one value of an axis. Every axis has a kind of its own with further facts."""

    formula: str = ""
    source: str = ""
    """Papers, `; ` between them."""
    control: str = ""
    """`control`, with the reason after a colon, for a value that exists to be compared with."""
    help: str = ""
    """Words of --help; the formula if there are none."""
    options: tuple[str, ...] = ()
    """Fields that belong to this value, and to those others of its axis that list them."""
    label: str = ""
    """Words in figures; the name if there are none."""
    place: int | None = None
    """Place in the order of colours and markers in figures; values without one come last, in the order of the rows."""


@dataclass(frozen=True, kw_only=True)
class Score(Facts):
    """Facts about a score."""

    scale: str = "none"
    """The scale if none is given."""
    d: Literal["", "K", "Kq", "Kk", "A", "R"] = ""
    """Symbol of the width that the score sums over; empty if it has none, so that no scale can divide by it."""
    reads: tuple[str, ...] = ("query", "key")
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
    unit_logits: bool = False
    """Initial values make scores O(1) whatever d is: 1/√d or 1/d on top is over-scaled, a control."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Option of other scores ↦ why it is no choice here."""

    @property
    def content_free(self) -> bool:
        """True if the score reads neither query nor key, so that maps and scales have no effect."""
        return not {"query", "key"} & set(self.reads)


@dataclass(frozen=True, kw_only=True)
class Scale(Facts):
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


@dataclass(frozen=True, kw_only=True)
class Weights(Facts):
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


@dataclass(frozen=True, kw_only=True)
class Maps(Facts):
    """Facts about the maps of queries and keys."""

    weights: bool = True
    """They have parameters; else they are the states, sliced among the heads."""
    one: bool = False
    """Queries and keys have one matrix."""
    signed: bool = False
    """The components of the key have fixed signs."""


@dataclass(frozen=True, kw_only=True)
class Projection(Facts):
    """Facts about values and about the output."""

    weights: bool = True
    """There is a matrix; else the states, or the combined heads, are taken as they are."""
    keys: bool = False
    """The values of a head are its keys."""


@dataclass(frozen=True, kw_only=True)
class Combine(Facts):
    """Facts about a combination of heads."""

    outputs: tuple[str, ...] = ("projected",)
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


@dataclass(frozen=True, kw_only=True)
class Reach(Facts):
    """Facts about a reach. Without a formula, it is made of the parts."""

    within: str = ""
    """Condition on the slots s that stay visible."""
    after: tuple[str, ...] = ()
    """Steps from the normalised weights a to those that mix, in the order of computation."""
    mixed: str = AS_MIXED
    """Output of a head."""
    cross_only: str = ""
    """Why it belongs to cross-attention alone; empty if it does not."""
    reads_query: bool = False
    """It reads the query, apart from the score."""
    samples: bool = False
    """It draws a slot in training, from a softmax."""
    narrowest: int = 0
    """The smallest half-width of its window."""
    too_narrow: str = ""
    """Why no smaller one."""
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


@dataclass(frozen=True, kw_only=True)
class Memory(Facts):
    """Facts about the memory of the decoder."""

    slots: int | None = None
    """Number of slots, if it does not depend on the sentence or on a field."""
    ordered: bool = False
    """Slots are source tokens in their order."""
    families: tuple[str, ...] = ("recurrent", "transformer")


@dataclass(frozen=True, kw_only=True)
class Positions(Facts):
    """Facts about positions."""

    even_width: bool = False
    relative: bool = False
    """They act in self-attention, by the distance of query and slot; embeddings stay as they are."""
    rotates: bool = False
    """They turn queries and keys, in pairs of components."""
    biased: bool = False
    """They add to the logits."""


@dataclass(frozen=True, kw_only=True)
class Site(Facts):
    """Facts about a whole site. Its options are the fields of an attention that it reads; it takes no others."""

    sites: tuple[str, ...] = ("encoder_self", "decoder_self", "cross")
    """The sites at which it may stand."""
    positions: bool = False
    """It applies relative positions itself."""


@dataclass(frozen=True, kw_only=True)
class Mixing(Facts):
    """Facts about the mixing of tokens in the encoder."""

    attends: bool = False
    """It is self-attention, the site encoder_self."""


@dataclass(frozen=True, kw_only=True)
class Init(Facts):
    """Facts about the decoder's initial state."""

    mapped: bool = False
    """It passes a matrix and a tanh, one for each part of the state."""
    one_width: bool = False
    """Encoder states must have the decoder's width."""


@dataclass(frozen=True, kw_only=True)
class Decoder(Facts):
    """Facts about the query time of the recurrent decoder."""

    query: str = ""
    """The state that queries are mapped from."""
    context_enters: bool = False
    """The query is the state before the token is read, and the context enters the cell with the token."""


@dataclass(frozen=True, kw_only=True)
class Start(Facts):
    """Facts about initial values."""

    measured: bool = False
    """They are set by a measurement on the first training batch."""
    square: bool = False
    """The matrix must be square."""
    power: float = 0.0
    """W_Q and W_K, or their learning rate, are divided by d to this power."""


Row = TypeVar("Row", bound=Facts)


class Axis(dict[str, Row]):
    """Values of one axis by name, the default first among equals of --help."""

    extensible = False
    """A user's own class may be a value. `self[value]` has its row; iteration leaves it out."""

    def find(self, name: Any) -> Row | None:
        """Return the row of a name; None for any other value, such as a field that is not yet validated."""
        if isinstance(name, str) and name not in self:
            try:
                return self[name]
            except (KeyError, ValueError):
                return None
        return self.get(name) if isinstance(name, str) else None

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
        kind = type(next(iter(self.values())))
        known = [declared.name for declared in fields(kind) if declared.init]
        if unknown := sorted(facts.keys() - set(known)):
            raise ValueError(f"{where}: no such fact: {unknown[0]}. The facts are {', '.join(known)}")
        try:
            row = TypeAdapter(kind).validate_json(json.dumps(dict(facts), default=repr), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            raise ValueError(f"{where}.{name}: {first['msg']}, got {first['input']!r}") from None
        if not row.formula:
            raise ValueError(
                f"{where}.formula: expected the equation as a text, such as formula='q·k', got {row.formula!r}"
            )
        return row

    def those(self, fact: Callable[[Row], Any]) -> tuple[str, ...]:
        """Return the names of the rows for which a fact is true."""
        return tuple(name for name, row in self.items() if fact(row))

    def taking(self, option: str) -> tuple[str, ...]:
        """Return the names of the rows that take an option."""
        return self.those(lambda row: option in row.options)

    def told(self, between: str = ". ", after: str = ":") -> str:
        """Return every value with its help text."""
        rows = ((name, row.help or row.formula) for name, row in self.items())
        return between.join(f"{name}{after} {text}" if text != name else name for name, text in rows)

    @property
    def placed(self) -> bool:
        """True if figures have an order of the values."""
        return any(row.place is not None for row in self.values())

    def by_place(self) -> tuple[str, ...]:
        """The names in the order of colours and markers in figures."""
        places = {name: len(self) if row.place is None else row.place for name, row in self.items()}
        return tuple(sorted(self, key=lambda name: places[name]))


SCORE = Axis(
    {
        "dot": Score(
            formula="q·k",
            source="Luong et al. 2015; Vaswani et al. 2017",
            scale="rsqrt",
            d="K",
            equal_sizes=True,
            rotary=True,
            place=0,
        ),
        "bilinear": Score(
            formula="qᵀ W k",
            source="Luong et al. 2015",
            scale="rsqrt",
            d="Kk",
            matrix=True,
            options=("bilinear_init",),
            place=2,
        ),
        "additive": Score(
            formula="v·tanh(W [q; k])",
            source="Bahdanau et al. 2015",
            d="A",
            matrix=True,
            unit_logits=True,
            options=("additive_width",),
            place=1,
        ),
        "cosine": Score(
            formula="τ q·k / (‖q‖ ‖k‖)",
            source="Henry et al. 2020",
            scale="learned",
            own_scale=True,
            equal_sizes=True,
            rotary=True,
            place=5,
        ),
        "low_rank": Score(
            formula="(U q)·(V k)",
            scale="rsqrt",
            d="R",
            matrix=True,
            options=("rank",),
            place=6,
        ),
        "concat": Score(
            formula="v·tanh(W [q; k] + b)",
            source="Luong et al. 2015",
            help="additive with a bias",
            d="A",
            matrix=True,
            unit_logits=True,
            options=("additive_width",),
            place=7,
        ),
        "concat_luong": Score(
            formula="v·tanh(W q + k + b)",
            source="Luong et al. 2015",
            d="Kk",
            matrix=True,
            unit_logits=True,
            fixed={"additive_width": "leaves the keys as they are, so its additive_width is the key width"},
            label="concat (Luong)",
            place=4,
        ),
        "location": Score(
            formula="w_s·q",
            source="Luong et al. 2015",
            help="w_s·q for slot s, without keys",
            reads=("query", "slot"),
            d="Kq",
            matrix=True,
            unit_logits=True,
            place=3,
        ),
        "elu_kernel": Score(
            formula="φ(q)·φ(k), φ(x) = elu(x) + 1",
            source="Katharopoulos et al. 2020",
            equal_sizes=True,
            positive=True,
            label="elu kernel",
        ),
        "uniform": Score(formula="0", control="control", reads=(), place=8),
        "fixed_random": Score(
            formula="T_{t s}",
            source="Tay et al. 2021",
            control="control",
            help="a frozen random table of query position × slot",
            reads=("position", "slot"),
            place=9,
        ),
    }
)
SCALE = Axis(
    {
        "none": Scale(formula="1", label="unscaled", place=1),
        "rsqrt": Scale(formula="1/√d", source="Vaswani et al. 2017", power=0.5, label="1/√d", place=0),
        "inverse": Scale(formula="1/d", power=1.0, label="1/d", place=2),
        "learned": Scale(
            formula="exp(g)",
            help="exp(g) per head starting at 1/√d",
            power=0.5,
            learned=True,
            label="learned scale",
            place=3,
        ),
        "log_length": Scale(
            formula="g ln S / √d",
            source="Chiang and Cholak 2022; Nakanishi 2025",
            help="g·ln S/√d, g per head, for S visible slots",
            power=0.5,
            learned=True,
            grows=True,
            label="scale grows with ln S",
        ),
    }
)
LOGITS = Axis(
    {
        "plain": Facts(formula="e", help="the scaled scores", label="plain logits"),
        "cap": Facts(
            formula="c·tanh(e/c)",
            source="Gemma Team 2024",
            help="c·tanh(e/c) with c = `cap`",
            options=("cap",),
            label="capped logits",
        ),
    }
)
NORM = Axis(
    {
        "none": Facts(help="as the maps make them", label="no norm of q and k"),
        "rms": Facts(
            formula="q ← γ_q ⊙ q / rms(q), k ← γ_k ⊙ k / rms(k)",
            source="Dehghani et al. 2023",
            help="divided by their root mean square, times a learned gain per head and component (QK-norm)",
            label="norm of q and k",
        ),
    }
)
WEIGHTS = Axis(
    {
        "softmax": Weights(
            formula="softmax(e)",
            source="Bahdanau et al. 2015",
            help="softmax",
            sums_to_one=True,
            softmax=True,
            place=0,
        ),
        "sparsemax": Weights(
            formula="[e − τ]₊",
            source="Martins and Astudillo 2016",
            help="sparsemax",
            sums_to_one=True,
            place=1,
        ),
        "entmax15": Weights(
            formula="[e/2 − τ]₊²",
            source="Peters et al. 2019, α = 1.5",
            help="(α = 1.5)",
            sums_to_one=True,
            label="entmax 1.5",
            place=2,
        ),
        "sigmoid": Weights(
            formula="σ(e − ln S)",
            source="Ramapuram et al. 2024",
            help="σ(s − ln S) for S visible slots",
            place=3,
        ),
        "identity": Weights(formula="e", help="s (with scale rsqrt only)", zero=True, scale="rsqrt", place=4),
        "identity_mean": Weights(
            formula="e / S", help="s/S", zero=True, divides_by_slots=True, label="identity / S", place=5
        ),
        "softmax_one": Weights(
            formula="exp(e) / (1 + Σ exp(e))",
            source="Miller 2023",
            help="softmax with 1 added to its sum",
            label="softmax-one",
        ),
        "sink": Weights(
            formula="exp(e) / (exp(b) + Σ exp(e))",
            source="OpenAI 2025",
            help="softmax with exp(b) added to its sum, b per head",
            label="softmax with a sink",
        ),
        "relu": Weights(formula="[e]₊ / S", source="Wortsman et al. 2023", help="[s]₊/S", zero=True, label="relu / S"),
        "normalised": Weights(
            formula="e / Σ e",
            source="Katharopoulos et al. 2020",
            help="s/Σs, for positive scores",
            sums_to_one=True,
            zero=True,
            positive=True,
            scale="none",
            label="scores ÷ their sum",
        ),
    }
)
MAPS = Axis(
    {
        "separate": Maps(
            source="Vaswani et al. 2017", help="W_Q and W_K, without bias", label="separate maps", place=0
        ),
        "raw": Maps(
            help="the states, sliced among the heads (the base arm of the recurrent family)",
            weights=False,
            label="raw maps",
            place=3,
        ),
        "tied": Maps(
            source="Kitaev et al. 2020; Courtois et al. 2024",
            help="W_Q = W_K",
            one=True,
            label="tied maps",
            place=1,
        ),
        "tied_signed": Maps(
            help="the same, with the signs +1, −1, +1, … on the components of the key",
            one=True,
            signed=True,
            label="tied maps with signs",
            place=2,
        ),
    }
)
VALUES = Axis(
    {
        "projected": Projection(help="W_V, without bias", label="projected values"),
        "raw": Projection(help="the states, sliced among the heads", weights=False, label="raw values"),
        "keys": Projection(
            source="Kayyam et al. 2026",
            help="the keys, as W_K makes them",
            weights=False,
            keys=True,
            label="values = keys",
        ),
    }
)
OUTPUT = Axis(
    {
        "projected": Projection(source="Vaswani et al. 2017", help="W_O of shape (H, V, D)"),
        "raw": Projection(help="the combined heads as they are", weights=False),
    }
)
COMBINE = Axis(
    {
        "concat": Combine(
            formula="[o_1; …; o_H] W_O",
            source="Vaswani et al. 2017",
            outputs=("projected", "raw"),
            alone="",
            place=0,
        ),
        "sum_own": Combine(
            formula="Σ_n o_n W_O^n",
            source="Michel et al. 2019",
            control="control: the function of concat, rounded differently",
            help="Σ o_h W_h, the function of concat rounded differently, a control",
            place=1,
        ),
        "sum_shared": Combine(formula="(Σ_n o_n) W_O", help="(Σ o_h) W, one W for all heads", place=2),
        "mean_shared": Combine(formula="(1/H Σ_n o_n) W_O", control="control", help="the same ÷ H", place=3),
        "sum_wide": Combine(
            formula="Σ_n o_n",
            help="Σ o_h with V = D, no W_O",
            outputs=("raw",),
            alone="concat with output raw and value_width = D",
            place=4,
        ),
        "gate": Combine(
            formula="[o_1 ⊙ g_1; …; o_H ⊙ g_H] W_O, g_n = σ(W_G x)",
            source="Qiu et al. 2025",
            help="concat of heads times σ(W_G x), x the state of the query",
            alone="",
            label="gated heads",
        ),
        "talking": Combine(
            formula="[o_1; …; o_H] W_O",
            source="Shazeer et al. 2020",
            help="concat of heads whose logits and weights are mixed by learned H × H matrices",
            mixes_logits="e_m ← Σ_n P_nm e_n",
            mixes="a_m ← Σ_n P′_nm a_n",
            label="talking heads",
        ),
        "differential": Combine(
            formula="(1 − λ₀) [norm(o_1); …; norm(o_H)] W_O",
            source="Ye et al. 2024",
            help="concat of normalised heads, each with the difference of two score maps for weights",
            alone="",
            maps=2,
            mixes="a ← a − λ a′, a′ of a second score map, λ = exp(g·h) − exp(g′·h′) + λ₀",
            label="differential heads",
        ),
    }
)
REACH = Axis(
    {
        "global": Reach(help="all", place=0),
        "local_m": Reach(
            within="|s − min(t, S−1)| ≤ w",
            source="Luong et al. 2015, local-m",
            help="those at most `window` away from its own position (at cross: from slot min(t, S − 1) for the t-th "
            "target token)",
            options=("window",),
            covering="global",
            label="local, monotonic",
            place=1,
        ),
        "local_p": Reach(
            within="|s − p| ≤ w, p = (S−1)·σ(v·tanh(W q))",
            after=("a ← a · exp(−(s − p)² / 2(w/2)²), not normalised again",),
            source="Luong et al. 2015, local-p",
            help="from a predicted position, under a Gaussian",
            options=("window",),
            reads_query=True,
            narrowest=1,
            too_narrow="has a Gaussian of σ = window/2, and a window of 0 leaves it no width",
            label="local, predicted",
            place=2,
        ),
        "hard": Reach(
            after=("in training z ~ a, in validation and search z = argmax_s a_s",),
            mixed="v_z",
            source="Xu et al. 2015",
            help="one sampled slot, at cross only",
            options=("entropy_bonus",),
            cross_only="draws one slot of the source",
            samples=True,
            label="one sampled slot",
            place=3,
        ),
    }
)
LOGIT_INIT = Axis(
    {
        "standard": Start(),
        "matched": Start(measured=True, label="logits start at sd 1"),
        "rsqrt": Start(power=0.25, label="logits start as with 1/√d"),
    }
)
MAP_RATE = Axis({"common": Start(), "rsqrt": Start(power=0.25, label="maps learn as with 1/√d")})
BILINEAR_INIT = Axis(
    {
        "xavier": Start(help="of variance 2/(Dq + Dk)"),
        "identity": Start(help="identity", square=True, label="from identity"),
    }
)
MEMORY = Axis(
    {
        "states": Memory(
            formula="h_1 … h_S",
            source="Bahdanau et al. 2015",
            help="all encoder states",
            ordered=True,
            label="all states",
            place=0,
        ),
        "structured": Memory(
            formula="M = A [h_1 … h_S], A = softmax(W_2 tanh(W_1 h))",
            source="Lin et al. 2017",
            help="`annotations` weighted sums of them",
            options=("annotations", "annotation_width", "penalty"),
            label="annotations",
            place=5,
        ),
        "final": Memory(
            formula="h_final, one slot",
            source="Sutskever et al. 2014",
            help="the final state",
            slots=1,
            label="final state",
            place=1,
        ),
        "mean": Memory(formula="1/S Σ_s h_s, one slot", help="the mean of all", slots=1, label="mean state", place=2),
        "max": Memory(
            formula="max_s h_s by component, one slot",
            help="the largest of each component",
            slots=1,
            label="largest components",
            place=3,
        ),
        "empty": Memory(
            formula="no slot: a zero context",
            help="nothing",
            slots=0,
            families=("recurrent",),
            label="nothing",
            place=4,
        ),
    }
)
POSITIONS = Axis(
    {
        "sinusoidal": Positions(
            formula="x + [sin ω_0 t, cos ω_0 t, sin ω_1 t, cos ω_1 t, …], ω_i = 10000^(−2i/D)",
            source="Vaswani et al. 2017",
            even_width=True,
            label="sinusoidal positions",
        ),
        "learned": Positions(formula="x + √D · P_t", source="Gehring et al. 2017", label="learned positions"),
        "none": Positions(formula="x", label="no positions"),
        "rope": Positions(
            formula="(q_2i, q_2i+1) turned by t ω_i, (k_2i, k_2i+1) by s ω_i, ω_i = 10000^(−2i/K)",
            source="Su et al. 2021",
            help="queries and keys of self-attention turned by an angle that grows with their position",
            relative=True,
            rotates=True,
            label="rotary positions",
        ),
        "alibi": Positions(
            formula="e − m_n |t − s|, m_n = 2^(−8n/H)",
            source="Press et al. 2022",
            help="a distance times a slope per head taken off the logits of self-attention",
            relative=True,
            biased=True,
            label="ALiBi",
        ),
        "t5": Positions(
            formula="e + b_{n, bucket(s − t)}",
            source="Raffel et al. 2020",
            help="a learned bias per head and bucket of distances on the logits of self-attention, shared by layers",
            relative=True,
            biased=True,
            label="T5 biases",
        ),
    }
)
SITE = Axis({"parts": Site(formula="the parts that the other fields name")})
MIXING = Axis(
    {
        "attention": Mixing(formula="self-attention, the site encoder_self", attends=True),
        "convolution": Mixing(formula="y_s = Σ_j W_j x_{s + j − ⌊(w−1)/2⌋}", options=("convolution_width",)),
    }
)
INIT = Axis(
    {
        "final": Init(formula="tanh(W [h→; h←])", mapped=True, label="starts from the final state", place=0),
        "mean": Init(formula="tanh(W mean(h))", mapped=True, label="starts from the mean state", place=2),
        "zero": Init(help="zero", label="starts from zero", place=1),
        "direct": Init(formula="[h→; h←]", one_width=True, label="starts unmapped", place=3),
    }
)
DECODER = Axis(
    {
        "bahdanau": Decoder(
            source="Bahdanau et al. 2015",
            help="s_{t-1}, and the context enters the cell",
            query="s_{t−1}, the decoder's state before",
            context_enters=True,
        ),
        "luong": Decoder(
            source="Luong et al. 2015",
            help="s_t",
            query="s_t, the decoder's state after",
            options=("input_feeding",),
        ),
    }
)

AXES: dict[str, Axis[Any]] = {
    "score": SCORE,
    "scale": SCALE,
    "logits": LOGITS,
    "weights": WEIGHTS,
    "reach": REACH,
    "maps": MAPS,
    "norm": NORM,
    "values": VALUES,
    "combine": COMBINE,
    "output": OUTPUT,
    "logit_init": LOGIT_INIT,
    "map_rate": MAP_RATE,
    "bilinear_init": BILINEAR_INIT,
    "site": SITE,
    "memory": MEMORY,
    "positions": POSITIONS,
    "mixing": MIXING,
    "init": INIT,
    "decoder": DECODER,
}
"""Field ↦ its values: up to `site` fields of an attention, the rest fields of a model."""

for _axis in (SCORE, SCALE, WEIGHTS, MAPS, VALUES, COMBINE, OUTPUT, REACH, SITE, POSITIONS, MIXING):
    _axis.extensible = True

SIZES = {"key_width": "K", "value_width": "V", "additive_width": "A", "rank": "R"}
"""Widths inside an attention ↦ their symbols."""


class Default(NamedTuple):
    """Value of an option that is not given, as help texts have it, and from a width."""

    words: str
    of: Callable[[int], Any]


def _always(value: float) -> Default:
    return Default(f"{value:g}", lambda width: value)


DERIVED = {
    "additive_width": Default("K", lambda width: width),
    "rank": Default("a quarter of K", lambda width: max(1, width // 4)),
    "window": _always(4),
    "entropy_bonus": _always(0.01),
    "cap": _always(50.0),
    "annotations": _always(8),
    "annotation_width": Default("the width of the encoder's states", lambda width: width),
    "penalty": _always(0.0),
    "convolution_width": _always(3),
}
"""Option ↦ its default, from the width of what it works on: of a head's keys, or of the states."""


def default_words(option: str) -> str:
    """`window` ↦ `(derived: 4)`."""
    return f"(derived: {DERIVED[option].words})"


VARIANTS = (
    *("logit_init=matched", "equal_start=true", "exclude_self=true", "bilinear_init=identity", "init=direct"),
    *("logit_init=rsqrt", "map_rate=rsqrt"),
)
"""Settings that make a variant of an arm. Figures draw a variant hollow, with the marker of its place here."""


class Choice:
    """Annotation of a field whose values are those of an axis, if a family is named those that the family has."""

    def __init__(self, axis: str, family: str = "") -> None:
        self.axis, self.family = axis, family

    @property
    def names(self) -> tuple[str, ...]:
        """The values."""
        rows = AXES[self.axis].items()
        return tuple(name for name, row in rows if self.family in ("", *getattr(row, "families", (self.family,))))

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
        *others, last = (f"{name!r}" for name in self.names)
        raise PydanticKnownError("literal_error", {"expected": " or ".join(filter(None, (", ".join(others), last)))})

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Accept the values and nothing else."""
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        """Describe the values as an enumeration."""
        return {"enum": list(self.names), "type": "string"}


def choices(declared: FieldInfo) -> tuple[Any, ...]:
    """Return the values of a field that is a choice, in the order of its axis or `Literal`; none for another field."""
    types = (declared.annotation, *get_args(declared.annotation))
    for kind in (*declared.metadata, *types, *(inside for one in types for inside in get_args(one))):
        if isinstance(kind, Choice):
            return kind.names
        if get_origin(kind) is Literal:
            return get_args(kind)
    return ()
