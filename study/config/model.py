"""The model section: the two families."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from study.config.attention import Attention
from study.config.mechanisms import (
    AXES,
    DECODER,
    DERIVED,
    INIT,
    MEMORY,
    MIXING,
    POSITIONS,
    VALUES,
    Axis,
    Choice,
    default_words,
)
from study.config.refusals import (
    SCORING,
    memory_kind,
    position_refusals,
    scores_matter,
    site_refusals,
    unused_mixing,
    unused_scores,
)
from study.config.sites import RecurrentSites, Sites, TransformerSites, without_unused_scores
from study.schema import Frozen, Layers, Size

Rate = Annotated[float, Field(ge=0, lt=1)]

ANNOTATIONS = f"r, the number of annotation vectors of memory structured {default_words('annotations')}."
ANNOTATION_WIDTH = f"Hidden width of memory structured {default_words('annotation_width')}."
PENALTY = f"λ of memory structured: λ‖AAᵀ − I‖² per sentence joins the loss; 0 is off {default_words('penalty')}."


def _memories(family: str) -> str:
    """Description of the memories that a family has."""
    has = Choice("memory", family).names
    return f"Memory of the decoder. {Axis({name: MEMORY[name] for name in has}).told()}."


class Recurrent(Frozen):
    """A recurrent encoder-decoder."""

    family: Literal["recurrent"] = Field("recurrent", description="Family of the model.")
    width: Size = Field(64, description="D, the width of embeddings, states and readout, or of the residual stream.")
    encoder_width: Size | None = Field(None, description="Width of the encoder's states, both directions (derived: D).")
    layers: Layers = Field(1, description="Layers of the encoder and of the decoder.")
    cell: Literal["gru", "lstm"] = Field("gru", description="The recurrent cell.")
    bidirectional: bool = Field(True, description="Encode in both directions, each with half of the width.")
    decoder: Annotated[str, Choice("decoder")] = Field(
        "luong", description=f"State that gives the query. {DECODER.told()}."
    )
    input_feeding: bool = Field(False, description="luong only: the last readout enters the cell.")
    readout: Literal["tanh", "linear"] = Field("tanh", description="tanh(W_c [c; s]) or W_c [c; s].")
    memory: Annotated[str, Choice("memory", "recurrent")] = Field("states", description=_memories("recurrent"))
    annotations: Size | None = Field(None, description=ANNOTATIONS)
    annotation_width: Size | None = Field(None, description=ANNOTATION_WIDTH)
    penalty: Annotated[float, Field(ge=0)] | None = Field(None, description=PENALTY)
    init: Annotated[str, Choice("init")] = Field("final", description=f"Initial decoder state: {INIT.told(', ', '')}.")
    embeddings: Literal["separate", "target", "shared"] = Field(
        "separate", description="Tying: separate; target = output; shared = source = target = output."
    )
    dropout: Rate = Field(
        0.1,
        description="Dropout on embeddings, between layers, on the memory that attention reads and on the readout; "
        "never on attention weights.",
    )
    attention: RecurrentSites = Field(default_factory=RecurrentSites, description="Attention, by site.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.encoder_width is None:
            object.__setattr__(self, "encoder_width", self.width)
        if self.bidirectional and self.memory_width % 2:
            raise ValueError(f"encoder_width: expected an even width (bidirectional), got {self.memory_width}.")
        if self.input_feeding and "input_feeding" not in DECODER[self.decoder].options:
            owner = DECODER.taking("input_feeding")[0]
            raise ValueError(
                f"input_feeding: expected decoder {owner}, got {self.decoder}, which always has it. Remove it."
            )
        if INIT[self.init].one_width and self.memory_width != self.width:
            raise ValueError(f"encoder_width: expected {self.width} with init {self.init}, got {self.memory_width}.")
        _derive(self, "memory", self.memory_width)
        _resolve(self, self.attention, {"cross": (self.width, self.memory_width)})
        return self

    @property
    def memory_width(self) -> int:
        """Width of the encoder's states."""
        return self.encoder_width or self.width


class Transformer(Frozen):
    """A pre-norm transformer."""

    family: Literal["transformer"] = Field("transformer", description="Family of the model.")
    width: Size = Field(64, description="D, the width of embeddings, states and readout, or of the residual stream.")
    layers: Layers = Field(2, description="Layers of the encoder and of the decoder.")
    feedforward: int | None = Field(None, ge=0, description="Hidden width of the feed-forward blocks (derived: 4 D).")
    positions: Annotated[str, Choice("positions")] = Field(
        "sinusoidal",
        description="Absolute positions are added to embeddings; relative ones (rope, alibi, t5) act in self-attention "
        "alone, in place of them. learned: a table for each language with one row per position of the longest training "
        "sentence; longer sentences are refused.",
    )
    mixing: Annotated[str, Choice("mixing")] = Field(
        "attention",
        description="Mixing of tokens in the encoder: self-attention, or instead a full convolution (without "
        "site encoder_self).",
    )
    convolution_width: Size | None = Field(
        None,
        description="Tokens under the convolution of mixing convolution, D² parameters each "
        f"{default_words('convolution_width')}.",
    )
    factors: Literal["whole", "split"] = Field(
        "whole",
        description="What one encoder layer reads of a source word that has two factors (graph and multi_lookup: a "
        "name and a label). whole: the word. split: queries and keys read the name alone, values and the residual "
        "stream the label alone.",
    )
    memory: Annotated[str, Choice("memory", "transformer")] = Field("states", description=_memories("transformer"))
    annotations: Size | None = Field(None, description=ANNOTATIONS)
    annotation_width: Size | None = Field(None, description=ANNOTATION_WIDTH)
    penalty: Annotated[float, Field(ge=0)] | None = Field(None, description=PENALTY)
    embeddings: Literal["separate", "target", "shared"] = Field(
        "separate", description="Tying: separate; target = output; shared = source = target = output."
    )
    dropout: Rate = Field(
        0.1, description="Dropout on embeddings, in feed-forward blocks and on every addition to the residual stream."
    )
    attention: TransformerSites = Field(default_factory=TransformerSites, description="Attention, by site.")

    @model_validator(mode="before")
    @classmethod
    def _sites_that_are(cls, given: Any) -> Any:
        """Refuse fields of encoder_self where something else mixes the tokens (None is how a record has the site)."""
        if not isinstance(given, dict) or not isinstance(sites := given.get("attention"), dict):
            return given
        mixing = MIXING.find(given.get("mixing"))
        attends = mixing is None or mixing.attends
        if not attends and sites.get("encoder_self"):
            raise ValueError(
                f"attention.encoder_self: expected no fields, because mixing {given['mixing']} replaces it, got "
                f"{sites['encoder_self']!r:.80}."
            )
        others = ("encoder_self", "decoder_self") if attends else ("decoder_self",)
        memory = memory_kind(given.get("memory") or "states", given.get("annotations"))
        return given | {"attention": without_unused_scores(sites, memory, others)}

    @field_validator("memory", mode="before")
    @classmethod
    def _not_empty(cls, value: Any) -> Any:
        row = MEMORY.find(value)
        if row and row.slots == 0:
            raise ValueError(f"expected a memory of the source for a transformer, got {value}. Use final or mean.")
        return value

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.feedforward is None:
            object.__setattr__(self, "feedforward", 4 * self.width)
        if self.factors == "split" and (self.layers > 1 or not MIXING[self.mixing].attends):
            raise ValueError(
                f"factors: expected layers 1 and mixing attention for split, got {self.layers} and {self.mixing}. "
                "A second layer would read labels in its queries. Use whole."
            )
        if POSITIONS[self.positions].even_width and self.width % 2:
            raise ValueError(f"width: expected an even width with {self.positions} positions, got {self.width}.")
        _derive(self, "memory", self.width)
        _derive(self, "mixing", self.width)
        if not MIXING[self.mixing].attends:
            object.__setattr__(self, "attention", self.attention.model_copy(update={"encoder_self": None}))
        sites = [name for name in TransformerSites.model_fields if getattr(self.attention, name) is not None]
        _resolve(self, self.attention, dict.fromkeys(sites, (self.width, self.width)))
        if self.factors == "split" and self.attention.encoder_self.whole:  # type: ignore[union-attr]
            raise ValueError("factors: split gives queries other states than values, got a site class. Use whole.")
        if self.factors == "split" and VALUES[self.attention.encoder_self.values].keys:  # type: ignore[union-attr]
            raise ValueError("factors: split gives values other states than keys, got values keys. Use projected.")
        for problem in position_refusals(self.attention, self.positions, self.width):
            raise ValueError(problem)
        for name in sites:
            joins = getattr(self.attention, name).output_width(self.width, self.width)
            if joins != self.width:
                raise ValueError(
                    f"attention.{name}.output: expected projected, got raw with width {joins}, and the residual stream "
                    f"has width {self.width}."
                )
        return self


def _derive(model: Recurrent | Transformer, axis: str, width: int) -> None:
    """Fill in the options of a chosen value, which works on states of `width`.

    Raises:
        ValueError: an option is given, and another value is chosen.
    """
    value = getattr(model, axis)
    for owner, row in AXES[axis].items():
        for option in row.options:
            given = getattr(model, option)
            if value != owner and given is not None:
                raise ValueError(f"{option}: expected {axis} {owner}, got {axis} {value}. Remove it.")
            if value == owner and given is None:
                object.__setattr__(model, option, DERIVED[option].of(width))


def _resolve(model: Recurrent | Transformer, sites: Sites, widths: dict[str, tuple[int, int]]) -> None:
    resolved = {}
    for site, width in widths.items():
        try:
            resolved[site] = getattr(sites, site).resolved(*width)
            for problem in (
                *site_refusals(resolved[site], site, memory_kind(model.memory, model.annotations)),
                *(resolved[site].unread(type(sites).BASE) if resolved[site].whole else ()),
                *_unused(model, site, resolved[site], width),
            ):
                raise ValueError(problem)
        except ValueError as problem:
            raise ValueError(f"attention.{site}.{problem}") from None
    object.__setattr__(model, "attention", sites.model_copy(update=resolved))


def _unused(model: Recurrent | Transformer, name: str, site: Attention, widths: tuple[int, int]) -> list[str]:
    """Refusals of fields set at cross that change nothing. The base arm's own values pass, as a record has them."""
    memory = memory_kind(model.memory, model.annotations)
    if name != "cross" or site.whole or scores_matter(site.weights, memory):
        return []
    base = type(model.attention).BASE
    if problems := list(unused_mixing(site, base, memory)):
        return problems
    unset = {field: base.get(field, Attention.model_fields[field].default) for field in SCORING}
    if {VALUES.those(lambda row: not row.weights)[0]} == {site.values, site.output, base["values"], base["output"]}:
        unset["heads"] = base["heads"]  # heads only slice what is joined again
    try:
        return list(unused_scores(site, Attention(**site.model_dump() | unset).resolved(*widths), memory))
    except ValueError:  # the base arm does not fit these widths, so something else had to be set
        return []


Model = Annotated[Recurrent | Transformer, Field(discriminator="family")]
