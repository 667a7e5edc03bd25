"""The model section: the three families."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from study.config import mechanisms as table
from study.config import refusals
from study.config.attention import check, foreign
from study.config.mechanisms import AXES, DERIVED, MEMORY, MIXING, Choice, chosen
from study.config.plugins import is_own
from study.config.sites import READS, JointSites, RecurrentSites, Sites, TransformerSites
from study.schema import Frozen, Layers, Size

Rate = Annotated[float, Field(ge=0, lt=1)]

# Fields of several families.
Width = Annotated[Size, Field(description="D, width of embeddings, states and readout, or of the residual stream.")]
Depth = Annotated[Layers, Field(description="Layers of the encoder and of the decoder, or of the one stack.")]
Annotations = Annotated[Size | None, Field(description=f"r of memory structured (derived: {DERIVED['annotations']}).")]
AnnotationWidth = Annotated[Size | None, Field(description="Hidden width of memory structured (derived: its states').")]
Lambda = Annotated[float, Field(ge=0)] | None
Penalty = Annotated[Lambda, Field(description="λ of memory structured: λ‖AAᵀ − I‖² joins the loss (derived: 0, off).")]
Tying = Literal["separate", "target", "shared"]
Embeddings = Annotated[Tying, Field(description="separate; target = output; shared = source = target = output.")]
Hidden = Annotated[int, Field(ge=0, le=10**8)] | None
FeedForward = Annotated[Hidden, Field(description="Hidden width of the feed-forward blocks (derived: 4 D).")]
RESIDUAL = "Dropout on embeddings, in feed-forward blocks and on every addition to the residual stream."


class Recurrent(Frozen):
    """A recurrent encoder-decoder."""

    family: Literal["recurrent"] = Field("recurrent", description="Family of the model.")
    width: Width = 64
    encoder_width: Size | None = Field(None, description="Width of the encoder's states, both directions (derived: D).")
    layers: Depth = 1
    cell: Literal["gru", "lstm"] = Field("gru", description="The recurrent cell.")
    bidirectional: bool = Field(True, description="Encode in both directions, each with half of the width.")
    decoder: str = chosen("decoder", "luong", "State that gives the query.")
    input_feeding: bool = Field(False, description="luong only: the last readout enters the cell.")
    readout: Literal["tanh", "linear"] = Field("tanh", description="tanh(W_c [c; s]) or W_c [c; s].")
    memory: str = chosen("memory", "states", "Memory of the decoder.", "recurrent")
    annotations: Annotations = None
    annotation_width: AnnotationWidth = None
    penalty: Penalty = None
    init: str = chosen("init", "final", "Initial decoder state.")
    embeddings: Embeddings = "separate"
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
        if table.INIT[self.init].one_width and self.memory_width != self.width:
            raise ValueError(f"encoder_width: expected {self.width} with init {self.init}, got {self.memory_width}.")
        check(foreign(self, "memory", "decoder"))
        _derive(self, "memory", self.memory_width)
        _resolve(self, self.attention, self.memory_width)
        return self

    @property
    def memory_width(self) -> int:
        """Width of the encoder's states."""
        return self.encoder_width or self.width


class Transformer(Frozen):
    """A pre-norm transformer."""

    family: Literal["transformer"] = Field("transformer", description="Family of the model.")
    width: Width = 64
    layers: Depth = 2
    feedforward: FeedForward = None
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
        f"(derived: {DERIVED['convolution_width']}).",
    )
    factors: Literal["whole", "split"] = Field(
        "whole",
        description="What one encoder layer reads of a source word that has two factors (graph and multi_lookup: a "
        "name and a label). whole: the word. split: queries and keys read the name alone, values and the residual "
        "stream the label alone.",
    )
    memory: str = chosen("memory", "states", "Memory of the decoder.", "transformer")
    annotations: Annotations = None
    annotation_width: AnnotationWidth = None
    penalty: Penalty = None
    embeddings: Embeddings = "separate"
    dropout: Rate = Field(0.1, description=RESIDUAL)
    attention: TransformerSites = Field(default_factory=TransformerSites, description="Attention, by site.")

    @model_validator(mode="before")
    @classmethod
    def _replaced_site(cls, given: Any) -> Any:
        """Refuse fields of encoder_self where something else mixes the tokens (None is how a record has the site)."""
        if isinstance(given, dict) and isinstance(sites := given.get("attention"), dict):
            mixing = given.get("mixing")
            replaced = is_own(mixing) or mixing in MIXING.those(lambda row: not row.attends)
            if replaced and sites.get("encoder_self"):
                raise ValueError(
                    f"attention.encoder_self: expected no fields, because mixing {mixing!r:.80} replaces it, got "
                    f"{sites['encoder_self']!r:.80}."
                )
        return given

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _fill(self)
        if self.factors == "split" and (self.layers > 1 or not MIXING[self.mixing].attends):
            raise ValueError(
                f"factors: expected layers 1 and mixing attention for split, got {self.layers} and {self.mixing}. "
                "A second layer would read labels in its queries. Use whole."
            )
        check(foreign(self, "memory", "mixing"))
        _derive(self, "memory", self.width)
        _derive(self, "mixing", self.width)
        if not MIXING[self.mixing].attends:
            object.__setattr__(self, "attention", self.attention.model_copy(update={"encoder_self": None}))
        _resolve(self, self.attention, self.width)
        return self


class DecoderOnly(Frozen):
    """One pre-norm stack over the joined sequence of source and target."""

    ABSENT: ClassVar[dict[str, str]] = {
        "memory": "the target reads the source's tokens in every layer, at site joint",
        "mixing": "attention at site joint is all that mixes tokens",
        "factors": "queries and values of site joint read the same stream",
        "init": "no recurrent state starts from the source",
        "encoder_width": "one stack reads source and target",
    }
    """Fields of other families ↦ the reason why this one has none."""

    family: Literal["decoder_only"] = Field("decoder_only", description="Family of the model.")
    width: Width = 64
    layers: Depth = 2
    feedforward: FeedForward = None
    positions: Annotated[str, Choice("positions")] = Field(
        "sinusoidal",
        description="Absolute positions count from the boundary of source and target: the source's end-of-sentence is "
        "−1, BOS is 0; learned: a table for each side. Relative ones (rope, alibi, t5) act in attention, on the joined "
        "sequence.",
    )
    source_mask: Literal["causal", "full"] = Field(
        "causal", description="Source tokens that a source token sees. causal: itself and those before it. full: all."
    )
    embeddings: Embeddings = "separate"
    dropout: Rate = Field(0.1, description=RESIDUAL)
    attention: JointSites = Field(default_factory=JointSites, description="Attention, by site.")

    @model_validator(mode="before")
    @classmethod
    def _without(cls, given: Any) -> Any:
        """Refuse fields and sites that exist in other families alone, with the reason."""
        if isinstance(given, dict):
            sites = given.get("attention")
            for site in READS.keys() - JointSites.model_fields.keys():
                if isinstance(sites, dict) and site in sites:
                    raise ValueError(f"attention.{site}: expected joint, the one site of decoder_only, got {site}.")
            for name in cls.ABSENT.keys() & given.keys():
                raise ValueError(f"{name}: decoder_only has none, because {cls.ABSENT[name]}. Remove it.")
        return given

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _fill(self)
        _resolve(self, self.attention, self.width)
        return self

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Fields that change no weight: with one layer nobody reads what source tokens have seen."""
        return ("source_mask",) if self.layers == 1 else ()


def _fill(model: Transformer | DecoderOnly) -> None:
    """Fill in the width of the feed-forward blocks, and refuse positions that the width of the model does not fit."""
    if model.feedforward is None:
        object.__setattr__(model, "feedforward", 4 * model.width)
    if table.POSITIONS[model.positions].even_width and model.width % 2:
        raise ValueError(f"width: expected an even width with {model.positions} positions, got {model.width}.")


def _derive(model: Recurrent | Transformer, axis: str, width: int) -> None:
    """Fill in the options of a chosen value, which works on states of `width`."""
    for option in AXES[axis][getattr(model, axis)].options:
        if getattr(model, option) is None:
            object.__setattr__(model, option, table.derived(option, width))


def _resolve(model: Recurrent | Transformer | DecoderOnly, sites: Sites, memory_width: int) -> None:
    """Fill in the derived fields of every site, and refuse what means nothing there."""
    memory, slots = "states", None  # None where the sentence decides
    if not isinstance(model, DecoderOnly):
        memory, slots = model.memory, 1 if model.annotations == 1 else MEMORY[model.memory].slots
    resolved = {}
    for name, given in sites.present.items():
        try:
            site = resolved[name] = given.resolved(model.width, memory_width)
            check(refusals.placed(site, name, memory, slots))
            check(refusals.unread(site, sites.BASE))
            if name == "cross":
                check(refusals.unused(site, sites.BASE, memory, slots, model.width, memory_width))
            if not isinstance(model, Recurrent):
                split = isinstance(model, Transformer) and model.factors == "split"
                check(refusals.in_stack(site, name, model.width, model.positions, split))
        except ValueError as problem:
            raise ValueError(f"attention.{name}.{problem}") from None
    object.__setattr__(model, "attention", sites.model_copy(update=resolved))


Model = Annotated[Recurrent | Transformer | DecoderOnly, Field(discriminator="family")]
