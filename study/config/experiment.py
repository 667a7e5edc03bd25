"""The experiment: all fields that decide a run's numbers, and the few that do not."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from study.config.account import PROJECT
from study.config.model import Model, Rate, Recurrent
from study.config.pruning import TRAINING, Pruning
from study.corpora.catalogue import Data
from study.corpora.grammar import Grammar
from study.schema import Frozen, Name, Seed, Size, Tag, Title

PROTOCOL: Literal[2] = 2
"""Raised by one when a change moves numbers, so that runs made before and after it have different identities.

`docs/glossary.md` says what each protocol changed. Earlier ones stay, so that their runs can be repeated exactly.
"""

SMALL = 256
"""Width up to which a model trains on one CPU thread, unless more are asked for."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Training(Frozen):
    """The recipe, the same for every arm of a comparison."""

    steps: Size = Field(1500, description="Number of updates.")
    batch_tokens: Size = Field(
        2000, description="Largest size of a batch: its number of pairs times the length of its longest sentence."
    )
    learning_rate: Positive = Field(3.0e-3, description="Peak learning rate of Adam.")
    warmup: int = Field(100, ge=0, description="Updates of linear warm-up.")
    schedule: Literal["linear", "inverse_sqrt", "constant"] = Field(
        "linear",
        description="Learning rate after the warm-up. linear: falls to 1 / (steps − warmup) of the peak at the last "
        "update. inverse_sqrt: falls with the inverse square root of the update. constant: stays.",
    )
    adam_beta2: float = Field(0.98, gt=0, lt=1, description="β2 of Adam (β1 is .9, ε 1e-9).")
    label_smoothing: Rate = Field(0.1, description="Label smoothing of the training loss.")
    clip: Positive = Field(1.0, description="Largest norm of the gradient; larger gradients are scaled down.")
    validate_every: Size = Field(250, description="Updates between validations.")
    select: Literal["best_valid_bleu", "best_valid_loss", "last"] = Field(
        "best_valid_bleu", description="Step to test, among the validated ones. Ties go to the earlier step."
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="bfloat16: autocast on a CPU or a GPU that has it; query, key, logits and softmax stay in float32.",
    )

    @model_validator(mode="after")
    def _within_the_budget(self) -> Self:
        if problem := self.beyond(self.steps):
            raise ValueError(problem)
        return self

    def beyond(self, steps: int) -> str | None:
        """Return what is wrong with warm-up or validation in so many steps. The defaults pass with any number."""
        for name in ("warmup", "validate_every"):
            given = getattr(self, name)
            if steps < given != type(self).model_fields[name].default:
                return f"{name}: expected at most steps ({steps}), got {given}. Lower it or raise steps."
        return None


class Decoding(Frozen):
    """Translation of the test sets. Validation is greedy."""

    beam: Size = Field(5, description="Beam width at test.")
    length_penalty: float = Field(1.0, ge=0, le=10, allow_inf_nan=False, description="α in score = log p / length^α.")

    @model_validator(mode="after")
    def _penalty_of_several(self) -> Self:
        """Refuse a length penalty with greedy search. The default passes with any beam."""
        if self.beam == 1 and self.length_penalty != type(self).model_fields["length_penalty"].default:
            raise ValueError(
                f"length_penalty: expected none with beam 1, got {self.length_penalty:g}. Use a wider beam."
            )
        return self


class Trainer(Frozen):
    """Hardware of the run; not part of the identity."""

    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Device: auto uses a GPU if there is one.")
    devices: int = Field(
        1, ge=1, le=64, description="Number of GPUs, or with device cpu of processes, that share every batch of a run."
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=1024,
        description=f"CPU threads of torch, of each process (default: 1 on a CPU for models of width {SMALL} or less, "
        "which more make slower; else torch's own choice).",
    )


def _listed(given: Any) -> Any:
    return tuple(tag.strip() for tag in given.split(",")) if isinstance(given, str) else given


class Tracking(Frozen):
    """W&B: no part of the identity."""

    project: Title = Field(PROJECT, description="W&B project.")
    entity: Title | None = Field(None, description="W&B entity.")
    group: Title | None = Field(None, description="W&B group.")
    tags: Annotated[tuple[Tag, ...], BeforeValidator(_listed)] = Field((), description="W&B tags, with commas between.")


class Experiment(Frozen):
    """One run: one model trained on one corpus from one seed, and tested once."""

    data: Data = Field(default_factory=Grammar)
    model: Model = Field(default_factory=Recurrent)
    training: Training = Field(default_factory=Training)
    decoding: Decoding = Field(default_factory=Decoding)
    pruning: Pruning | None = Field(
        None, description="Heads to remove from the trained model; nothing is pruned without this section."
    )
    seed: Seed = Field(1, description="Seed of initial values, data order and dropout.")
    protocol: Literal[1, 2] = Field(
        PROTOCOL,
        description="Version of the protocol; it is raised when a change moves numbers. 1: that of the first edition.",
    )
    trainer: Trainer = Field(default_factory=Trainer)
    tracking: Tracking = Field(default_factory=Tracking)
    out: Name = Field("runs", description="Folder of the runs (default: $STUDY_RUNS, else runs).")

    @model_validator(mode="before")
    @classmethod
    def _default_tags(cls, given: Any) -> Any:
        """Choose the first member of a union if its tag is not given."""
        if isinstance(given, dict):
            given = dict(given)
            for field, tag, first in (("data", "name", "grammar"), ("model", "family", "recurrent")):
                if isinstance(given.get(field), dict):
                    given[field] = {tag: first, **given[field]}
        return given

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        """Refuse pruning without heads, factors of a corpus without them, and BLEU of fewer than four words."""
        words = self.data.shortest_target
        if self.pruning and (problem := self.pruning.refusal(self.model)):
            raise ValueError(f"pruning.{problem}")
        if self.pruning and (problem := self.training.beyond(self.pruning.base_steps or self.training.steps)):
            raise ValueError(f"training.{problem} The run that is pruned has pruning.base_steps.")
        if getattr(self.model, "factors", "whole") == "split" and not self.data.factored:
            raise ValueError(
                f"model.factors: expected data graph or multi_lookup for split, got {self.data.name}. Use whole."
            )
        for name, value, counts_four, others in (
            ("training.select", self.training.select, "best_valid_bleu", "last or best_valid_loss"),
            ("pruning.question", self.pruning and self.pruning.question, "curve", "another one"),
        ):
            if words < 4 and value == counts_four:
                raise ValueError(
                    f"{name}: expected {others}, because {self.data.name} has targets of {words} words and BLEU counts "
                    f"four, got {value}."
                )
        if self.pruning and self.pruning.question not in TRAINING and self.trainer.devices > 1:
            raise ValueError(
                f"trainer.devices: expected 1 with pruning.question {self.pruning.question}, which trains nothing, got "
                f"{self.trainer.devices}. Train the run first, then prune it on one."
            )
        if self.pruning and self.pruning.base_steps == self.training.steps:
            raise ValueError("pruning.base_steps: expected others than training.steps, got the same. Remove it.")
        return self


def threads_for(width: int, asked: int | None = None, gpu: bool = False) -> int | None:
    """Return how many CPU threads a model of a width gets; None: as many as torch takes by itself.

    On a CPU several threads make the small steps of a small model slower, much so on a machine that others use, and
    its numbers depend on their count.

    Args:
        width: of the model.
        asked: the field trainer.threads.
        gpu: whether the model is on a GPU.
    """
    return asked or (1 if width <= SMALL and not gpu else None)
