"""The model section: the two families."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from study.config.attention import Attention, Frozen, Size
from study.config.memory import ANNOTATION_WIDTH, ANNOTATIONS, PENALTY, derive_annotations
from study.config.refusals import SCORING, idle, scores_matter, site_refusals, told_apart, unread
from study.config.sites import RecurrentSites, Sites, TransformerSites, apart

Rate = Annotated[float, Field(ge=0, lt=1)]


class Recurrent(Frozen):
    """A recurrent encoder-decoder."""

    family: Literal["recurrent"] = Field("recurrent", description="Which family of models.")
    width: Size = Field(64, description="D: embeddings, decoder states and readout.")
    encoder_width: Size | None = Field(None, description="Width of the encoder's states, both directions (derived: D).")
    layers: Size = Field(1, description="Layers of the encoder and of the decoder.")
    cell: Literal["gru", "lstm"] = Field("gru", description="The recurrent cell.")
    bidirectional: bool = Field(True, description="Encode in both directions, each with half of the width.")
    decoder: Literal["bahdanau", "luong"] = Field(
        "luong",
        description="Where the query comes from. bahdanau: s_{t-1}, and the context enters the cell. luong: s_t.",
    )
    input_feeding: bool = Field(False, description="luong only: the last readout enters the cell.")
    readout: Literal["tanh", "linear"] = Field("tanh", description="tanh(W_c [c; s]) or W_c [c; s].")
    memory: Literal["states", "structured", "final", "mean", "max", "empty"] = Field(
        "states",
        description="What the decoder looks at: all encoder states, `annotations` weighted sums of them, one slot (the "
        "final state, the mean or the largest of each component), nothing.",
    )
    annotations: Size | None = Field(None, description=ANNOTATIONS)
    annotation_width: Size | None = Field(None, description=ANNOTATION_WIDTH)
    penalty: Annotated[float, Field(ge=0)] | None = Field(None, description=PENALTY)
    init: Literal["final", "mean", "zero", "direct"] = Field(
        "final",
        description="Initial decoder state: final tanh(W [h→; h←]), mean tanh(W mean(h)), zero, direct [h→; h←].",
    )
    embeddings: Literal["separate", "target", "shared"] = Field(
        "separate", description="Tying: separate; target = output; shared = source = target = output."
    )
    dropout: Rate = Field(
        0.1,
        description="On embeddings, between layers, on the memory that attention reads and on the readout; never on "
        "attention weights.",
    )
    attention: RecurrentSites = Field(default_factory=RecurrentSites, description="Attention, by site.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.encoder_width is None:
            object.__setattr__(self, "encoder_width", self.width)
        if self.bidirectional and self.memory_width % 2:
            raise ValueError(f"a bidirectional encoder halves its width, and {self.memory_width} is odd; make it even")
        if self.input_feeding and self.decoder == "bahdanau":
            raise ValueError("input_feeding belongs to decoder luong: bahdanau feeds its context already; turn it off")
        if self.init == "direct" and self.memory_width != self.width:
            raise ValueError(f"init direct needs encoder_width = width, not {self.memory_width} and {self.width}")
        derive_annotations(self, self.memory_width)
        _resolve(self, self.attention, {"cross": (self.width, self.memory_width)})
        return self

    @property
    def memory_width(self) -> int:
        """Width of the encoder's states."""
        return self.encoder_width or self.width


class Transformer(Frozen):
    """A pre-norm transformer."""

    family: Literal["transformer"] = Field("transformer", description="Which family of models.")
    width: Size = Field(64, description="D, the width of the residual stream.")
    layers: Size = Field(2, description="Layers of the encoder and of the decoder.")
    feedforward: int | None = Field(None, ge=0, description="Hidden width of the feed-forward blocks (derived: 4 D).")
    positions: Literal["sinusoidal", "learned", "none"] = Field(
        "sinusoidal",
        description="Absolute positions added to embeddings. learned: a table for each language with one row per "
        "position of the longest training sentence; longer sentences are refused.",
    )
    mixing: Literal["attention", "convolution"] = Field(
        "attention",
        description="What mixes tokens in the encoder: self-attention, or in its place a full convolution (without "
        "site encoder_self).",
    )
    convolution_width: Size | None = Field(
        None, description="Tokens under the convolution of mixing convolution, D² parameters each (derived: 3)."
    )
    memory: Literal["states", "structured", "final", "mean", "max"] = Field(
        "states",
        description="What the decoder looks at: all encoder states, `annotations` weighted sums of them, or one slot "
        "(the final state, the mean, the largest of each component).",
    )
    annotations: Size | None = Field(None, description=ANNOTATIONS)
    annotation_width: Size | None = Field(None, description=ANNOTATION_WIDTH)
    penalty: Annotated[float, Field(ge=0)] | None = Field(None, description=PENALTY)
    embeddings: Literal["separate", "target", "shared"] = Field(
        "separate", description="Tying: separate; target = output; shared = source = target = output."
    )
    dropout: Rate = Field(
        0.1, description="On embeddings, in the feed-forward block and on what joins the residual stream."
    )
    attention: TransformerSites = Field(default_factory=TransformerSites, description="Attention, by site.")

    @model_validator(mode="before")
    @classmethod
    def _sites_that_are(cls, given: Any) -> Any:
        """With a convolution in its place, no field of encoder_self may be given (None is how a record has it)."""
        if not isinstance(given, dict) or not isinstance(sites := given.get("attention"), dict):
            return given
        convolution = given.get("mixing") == "convolution"
        if convolution and sites.get("encoder_self"):
            raise ValueError("mixing convolution takes the place of attention.encoder_self; leave its fields out")
        others = ("decoder_self",) if convolution else ("encoder_self", "decoder_self")
        memory = told_apart(given.get("memory") or "states", given.get("annotations"))
        return given | {"attention": apart(sites, memory, others)}

    @field_validator("memory", mode="before")
    @classmethod
    def _not_empty(cls, value: Any) -> Any:
        if value == "empty":
            raise ValueError("memory empty leaves a transformer's decoder without the source; use final or mean")
        return value

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.feedforward is None:
            object.__setattr__(self, "feedforward", 4 * self.width)
        if self.positions == "sinusoidal" and self.width % 2:
            raise ValueError(f"sinusoidal positions need an even width, not {self.width}")
        derive_annotations(self, self.width)
        self._mixing()
        sites = [name for name in TransformerSites.model_fields if getattr(self.attention, name) is not None]
        _resolve(self, self.attention, dict.fromkeys(sites, (self.width, self.width)))
        for name in sites:
            joins = getattr(self.attention, name).output_width(self.width, self.width)
            if joins != self.width:
                raise ValueError(
                    f"attention.{name}: a raw output of {joins} can't join the residual stream of {self.width}; "
                    "use output projected"
                )
        return self

    def _mixing(self) -> None:
        if self.mixing == "attention" and self.convolution_width is not None:
            raise ValueError("convolution_width belongs to mixing convolution, and mixing is attention; leave it out")
        if self.mixing == "convolution":
            object.__setattr__(self, "convolution_width", self.convolution_width or 3)
            object.__setattr__(self, "attention", self.attention.model_copy(update={"encoder_self": None}))


def _resolve(model: Recurrent | Transformer, sites: Sites, widths: dict[str, tuple[int, int]]) -> None:
    resolved = {}
    for site, width in widths.items():
        try:
            resolved[site] = getattr(sites, site).resolved(*width)
            for problem in (
                *site_refusals(resolved[site], site, told_apart(model.memory, model.annotations)),
                *_idle(model, site, resolved[site], width),
            ):
                raise ValueError(problem)
        except ValueError as problem:
            raise ValueError(f"attention.{site}: {problem}") from None
    object.__setattr__(model, "attention", sites.model_copy(update=resolved))


def _idle(model: Recurrent | Transformer, name: str, site: Attention, widths: tuple[int, int]) -> list[str]:
    """What is set at cross and changes nothing there. The base arm's own values pass, as a record has them."""
    memory = told_apart(model.memory, model.annotations)
    if name != "cross" or scores_matter(site.weights, memory):
        return []
    base = type(model.attention).BASE
    if problems := list(unread(site, base, memory)):
        return problems
    unset = {field: base.get(field, Attention.model_fields[field].default) for field in SCORING}
    if {"raw"} == {site.values, site.output, base["values"], base["output"]}:
        unset["heads"] = base["heads"]  # heads only slice what is joined again
    try:
        return list(idle(site, Attention(**site.model_dump() | unset).resolved(*widths), memory))
    except ValueError:  # the base arm does not fit these widths, so something else had to be set
        return []


Model = Annotated[Recurrent | Transformer, Field(discriminator="family")]
