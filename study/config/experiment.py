"""The experiment: everything that decides a run's numbers, and beside it the few things that do not.

`Experiment` is always complete: `model.attention` and the partial `model.attention.<site>` that a user gives are
merged, laid over the base arm of the family and resolved to one `Attention` per site while it is validated.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from study.config.attention import Attention, Frozen, Size
from study.config.memory import ANNOTATION_WIDTH, ANNOTATIONS, PENALTY, derive_annotations
from study.config.probes import AnyProbe, Probe
from study.config.refusals import site_refusals

PROTOCOL: Literal[1] = 1
"""Raised by one when a fix moves numbers, so that runs made before and after it have different identities."""

Rate = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Grammar(Frozen):
    """The embedded German→English grammar: offline, seeded, with gold word alignments."""

    name: Literal["grammar"] = Field("grammar", description="Which corpus.")
    version: Literal[1] = Field(1, description="Version of the generator; part of the identity.")
    lexicon: Literal["small", "large"] = Field(
        "small", description="Content words: small has about 130 source word types, large about 400."
    )
    train_pairs: Size = Field(8000, description="Number of training sentence pairs.")
    test_pairs: Annotated[int, Field(ge=2)] = Field(
        1000, description="Sentence pairs of the split test; the other test splits have half as many."
    )
    seed: int = Field(0, ge=0, description="Seed of the data, apart from the seed of the run.")
    tokens: Literal["words", "subwords"] = Field("words", description="What a token is.")
    vocabulary: Size | None = Field(
        None, description="Subword vocabulary, shared by both languages (derived: 400 with subwords)."
    )

    @model_validator(mode="after")
    def _vocabulary(self) -> Self:
        _derive_vocabulary(self, 400)
        return self


class Multi30k(Frozen):
    """Multi30k German→English, task 1, raw text. Downloaded and checked, or read from a folder."""

    name: Literal["multi30k"] = Field("multi30k", description="Which corpus.")
    version: Literal[1] = Field(1, description="Version of the reading of the files; part of the identity.")
    folder: str | None = Field(
        None, description="Folder with the corpus files (else $STUDY_MULTI30K, else the download cache)."
    )
    tokens: Literal["words", "subwords"] = Field("subwords", description="What a token is.")
    vocabulary: Size | None = Field(
        None, description="Subword vocabulary, shared by both languages (derived: 8000 with subwords)."
    )

    @model_validator(mode="after")
    def _vocabulary(self) -> Self:
        _derive_vocabulary(self, 8000)
        return self


def _derive_vocabulary(data: Grammar | Multi30k, size: int) -> None:
    if data.tokens == "words" and data.vocabulary is not None:
        raise ValueError("vocabulary is the size of a subword model, and tokens is words; leave it out")
    if data.tokens == "subwords" and data.vocabulary is None:
        object.__setattr__(data, "vocabulary", size)


class Sites(Frozen):
    """One complete attention per site of a family."""

    BASE: ClassVar[dict[str, Any]] = {}

    @model_validator(mode="before")
    @classmethod
    def _lay_out(cls, given: Any) -> Any:
        """Base arm of the family ← `model.attention.*` ← `model.attention.<site>.*`."""
        if not isinstance(given, dict):
            return given
        for name in given:
            if name not in cls.model_fields and name not in Attention.model_fields:
                raise ValueError(
                    f"unknown site or field {name!r}; sites here: {', '.join(cls.model_fields)}; "
                    f"fields: {', '.join(Attention.model_fields)}"
                )
        shared = {name: value for name, value in given.items() if name in Attention.model_fields}
        laid: dict[str, Any] = {}
        for site in cls.model_fields:
            own = given.get(site) or {}
            if isinstance(own, Attention):
                laid[site] = own
            elif isinstance(own, dict):
                laid[site] = {**cls.BASE, **_set(shared), **_set(own)}
            else:
                raise ValueError(f"{site} takes fields such as {site}.score, not {own!r}")
        return laid


def _set(fields: dict[str, Any]) -> dict[str, Any]:
    """Without the fields left at None: they are derived, not given."""
    return {name: value for name, value in fields.items() if value is not None}


class RecurrentSites(Sites):
    """Attention of the recurrent family. Base arm: raw states, one head, nothing projected."""

    BASE: ClassVar[dict[str, Any]] = {"maps": "raw", "values": "raw", "output": "raw", "heads": 1}

    cross: Attention = Field(default_factory=lambda: Attention(**RecurrentSites.BASE))


class TransformerSites(Sites):
    """Attention of the transformer. Base arm: separate maps, projected values and output, four heads."""

    BASE: ClassVar[dict[str, Any]] = {"maps": "separate", "values": "projected", "output": "projected", "heads": 4}

    encoder_self: Attention | None = Field(default_factory=lambda: Attention(**TransformerSites.BASE))
    decoder_self: Attention = Field(default_factory=lambda: Attention(**TransformerSites.BASE))
    cross: Attention = Field(default_factory=lambda: Attention(**TransformerSites.BASE))


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
    dropout: Rate = Field(0.1, description="On embeddings, between layers and on the readout; never on attention.")
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
    def _no_encoder_self(cls, given: Any) -> Any:
        """With a convolution in its place, no field of encoder_self may be given (None is how a record has it)."""
        if isinstance(given, dict) and given.get("mixing") == "convolution":
            sites = given.get("attention") or {}
            if isinstance(sites, dict) and sites.get("encoder_self"):
                raise ValueError("mixing convolution takes the place of attention.encoder_self; leave its fields out")
        return given

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
    for site, (query, memory) in widths.items():
        try:
            resolved[site] = getattr(sites, site).resolved(query, memory)
            for problem in site_refusals(resolved[site], site, model.memory):
                raise ValueError(problem)
        except ValueError as problem:
            raise ValueError(f"attention.{site}: {problem}") from None
    object.__setattr__(model, "attention", sites.model_copy(update=resolved))


class Training(Frozen):
    """The recipe, the same for every arm of a comparison."""

    steps: Size = Field(1500, description="Updates; the budget is fixed, never wall time.")
    batch_tokens: Size = Field(
        2000, description="Size of a batch: its pairs times the longer side of its longest pair, at most."
    )
    learning_rate: Positive = Field(3.0e-3, description="Peak learning rate of Adam.")
    warmup: int = Field(100, ge=0, description="Updates of linear warm-up.")
    schedule: Literal["linear", "inverse_sqrt", "constant"] = Field(
        "linear",
        description="After the warm-up: linear to zero at the last step, the inverse square root, or constant.",
    )
    adam_beta2: Annotated[float, Field(gt=0, lt=1)] = Field(0.98, description="β2 of Adam (β1 is .9, ε 1e-9).")
    label_smoothing: Rate = Field(0.1, description="Label smoothing of the training loss.")
    clip: Positive = Field(1.0, description="Largest norm of the gradient.")
    validate_every: Size = Field(250, description="Updates between validations.")
    select: Literal["best_valid_bleu", "best_valid_loss", "last"] = Field(
        "best_valid_bleu", description="Which validated step is tested. Ties go to the earlier step."
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="bfloat16: autocast on a GPU that has it; query, key, logits and softmax stay in float32.",
    )


class Decoding(Frozen):
    """How the test sets are translated. Validation is greedy."""

    beam: Size = Field(5, description="Beam width at test.")
    length_penalty: float = Field(1.0, ge=0, allow_inf_nan=False, description="α in score = log p / length^α.")


class Trainer(Frozen):
    """Where it runs: no part of the identity."""

    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto takes a GPU where there is one.")
    threads: Size | None = Field(None, description="CPU threads of torch (default: torch's own choice).")


class Tracking(Frozen):
    """W&B: no part of the identity."""

    project: str = Field("attention-ablation", description="W&B project.")
    entity: str | None = Field(None, description="W&B entity.")
    group: str | None = Field(None, description="W&B group.")
    tags: tuple[str, ...] = Field((), description="W&B tags.")


Data = Annotated[Grammar | Multi30k | AnyProbe, Field(discriminator="name")]
Model = Annotated[Recurrent | Transformer, Field(discriminator="family")]


class Experiment(Frozen):
    """One run: one model trained on one corpus from one seed, and tested once."""

    data: Data = Field(default_factory=Grammar)
    model: Model = Field(default_factory=Recurrent)
    training: Training = Field(default_factory=Training)
    decoding: Decoding = Field(default_factory=Decoding)
    seed: int = Field(1, ge=0, description="Seed of initial values, data order and dropout.")
    protocol: Literal[1] = Field(PROTOCOL, description="Version of the protocol; raised when a fix moves numbers.")
    trainer: Trainer = Field(default_factory=Trainer)
    tracking: Tracking = Field(default_factory=Tracking)
    out: str = Field("runs", description="Folder of the runs (default: $STUDY_RUNS, else runs).")

    @model_validator(mode="before")
    @classmethod
    def _default_tags(cls, given: Any) -> Any:
        """A union is chosen by its tag: without one, the first member."""
        if isinstance(given, dict):
            given = dict(given)
            for field, tag, first in (("data", "name", "grammar"), ("model", "family", "recurrent")):
                if isinstance(given.get(field), dict):
                    given[field] = {tag: first, **given[field]}
        return given

    @model_validator(mode="after")
    def _selectable(self) -> Self:
        """BLEU counts four words in a row, and is 0 where no target has as many."""
        words = self.data.shortest_target if isinstance(self.data, Probe) else 4
        if words < 4 and self.training.select == "best_valid_bleu":
            raise ValueError(
                f"training.select best_valid_bleu needs targets of four words or more, and {self.data.name} has them "
                f"from {words} word{'s' if words > 1 else ''} on; use last or best_valid_loss"
            )
        return self
