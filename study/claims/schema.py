"""Schema of a file of claims: statements, sweeps, and the contrasts of arms that decide.

A claim is an entry of `claims.yaml`, or of a user's own file beside it. Arms are named by the fields that tell them
apart (`model.memory: final`), never by a label. Everything here can be checked before a single run exists: sweeps,
arms, fields, values and metrics that are not there are refused with the file and the field.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from study.errors import InputError
from study.sweep.file import read_yaml

HERE = Path(__file__).with_name("claims.yaml")

Kind = Literal["superiority", "equivalence", "shape"]
Margin = Annotated[float | str, Field(union_mode="left_to_right")]
"""A number in units of the metric, `gap`, or a multiple of a named margin such as `0.5 bleu`."""
MULTIPLE = re.compile(r"(\d+(?:\.\d+)?) ([a-z]\w*)")


Overrides = dict[str, str | int | float | bool | None]
"""Field ↦ value, such as `model.attention.scale: none`."""


class Entry(BaseModel):
    """Immutable, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Pair(Entry):
    """An arm and what it is compared with."""

    arm: Overrides
    baseline: Overrides


class Contrast(Entry):
    """Fields of all contrasts. `expect` is the predicted sign; by default the arm is better."""

    name: str = Field("", description="In words; made from the arms where it is left out.")
    expect: Literal["higher", "lower", "better", "worse", "different"] = "better"


class Difference(Contrast):
    """arm − baseline. With `best_over` each side is the best of several arms by validation (`select`)."""

    statistic: Literal["difference"] = "difference"
    arm: Overrides
    baseline: Overrides
    best_over: tuple[str, ...] = ()
    select: str = "valid/nll"


class Interaction(Contrast):
    """(arm − baseline) − (minus.arm − minus.baseline)."""

    statistic: Literal["interaction"]
    arm: Overrides
    baseline: Overrides
    minus: Pair


class Trend(Contrast):
    """Slope over a field's values of the arm's score, or of its difference to the baseline."""

    statistic: Literal["trend"]
    arm: Overrides
    baseline: Overrides | None = None
    over: str


class Band(Contrast):
    """Width of the band of good learning rates, in doublings: arm − baseline.

    The band is the run of neighbouring rates around a seed's best one whose loss is within `within` of it; a rate
    that diverged is outside. Its width is log2(largest / smallest).
    """

    statistic: Literal["band"]
    arm: Overrides
    baseline: Overrides
    over: str = "training.learning_rate"
    within: Annotated[float, Field(gt=0)]


class Ratio(Contrast):
    """Ratio of the arm to the baseline. Sites of a benchmark, identified by `costs.Site`'s fields."""

    statistic: Literal["ratio"]
    expect: Literal["higher", "lower", "different"] = "lower"
    arm: Overrides
    baseline: Overrides


class Correlation(Contrast):
    """Spearman's ρ of two metrics: between the means of arms, or within arms over seeds and averaged."""

    statistic: Literal["correlation"]
    between: tuple[str, str]
    level: Literal["arms", "seeds"]

    @property
    def named(self) -> tuple[str, ...]:
        """Every metric."""
        return self.between


class Within(Contrast):
    """One metric of a run minus another, averaged over the runs of an arm.

    `minus` is a metric, a list of metrics (their mean), or a number.
    """

    statistic: Literal["within"]
    arm: Overrides
    of: str
    minus: Annotated[str | tuple[str, ...] | float, Field(union_mode="left_to_right")]

    @field_validator("minus")
    @classmethod
    def _something(cls, given: str | tuple[str, ...] | float) -> str | tuple[str, ...] | float:
        if given == ():
            raise ValueError("minus: expected a metric, a list of metrics or a number, got an empty list")
        return given

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics whose mean is subtracted; empty if it is a number."""
        return (self.minus,) if isinstance(self.minus, str) else self.minus if isinstance(self.minus, tuple) else ()

    @property
    def named(self) -> tuple[str, ...]:
        """Every metric."""
        return self.of, *self.metrics


class Costly(Contrast):
    """Percentage of heads whose removal alone costs more than the margin, minus `minus`."""

    statistic: Literal["costly"]
    arm: Overrides
    minus: float


class Draws(Contrast):
    """Mean difference over draws of the corpus: Student's t over the draws' own differences of means.

    The interval covers the draw and the seeds, which are averaged within it.
    """

    statistic: Literal["draws"]
    arm: Overrides
    baseline: Overrides
    over: str = "data.seed"


ALONE = ("band", "correlation", "costly", "draws", "ratio", "within")
"""Statistics that cannot stand in one question with others."""

AnyContrast = Annotated[
    Difference | Interaction | Trend | Band | Correlation | Ratio | Within | Costly | Draws,
    Field(discriminator="statistic"),
]


class Question(Entry):
    """Contrasts of the arms of one sweep, in one or more pairs of corpus and family."""

    sweep: str | None = Field(None, description="Name of a sweep in sweeps/, or a file beside the file of claims.")
    with_sweeps: tuple[str, ...] = Field((), description="Further sweeps whose arms a correlation is taken over.")
    benchmark: Literal["cost"] | None = Field(None, description="Instead of a sweep: measured times, see costs.py.")
    asked: tuple[str, ...] = Field((), description="Pairs such as grammar/recurrent.")
    part: str = Field("", description="Which part of the claim, where it has several.")
    type: Kind = Field("superiority", description="Type of this part; by default the claim's.")
    metric: str = "test/exact"
    by_length: bool = Field(False, description="The slope of the metric over source length, per run and word.")
    by_sentences: bool = Field(False, description="The slope weighs groups of lengths by their numbers of sentences.")
    margin: Margin | None = Field(None, description="Smallest difference of interest.")
    where: Overrides = Field(default={}, description="Fields that all arms share.")
    combine: Literal["all", "any"] = Field("all", description="The claim holds if all contrasts do, or if any does.")
    against: bool = Field(False, description="The contrasts predict the opposite of the claim.")
    descriptive: bool = Field(False, description="Estimates and intervals are printed, and no verdict is given.")
    not_asked: str = Field("", description="Why this is not the claim as it was published.")
    post_hoc: str = Field("", description="Why this was asked when its answer could be known.")
    edition: Literal[1, 2] = Field(1, description="Edition of the study that declared the question.")
    replaces: tuple[str, ...] | None = Field(
        None,
        description="Questions of the first edition that do not count once this one has run: entries are corpus/family "
        "or parts of the same corpus and family. By default all of the same corpus and family; an empty list: none.",
    )
    contrasts: tuple[AnyContrast, ...] = ()

    @field_validator("contrasts", mode="before")
    @classmethod
    def _differences(cls, given: Any) -> Any:
        """Make a contrast without a statistic a difference."""
        if not isinstance(given, list | tuple):
            return given
        return [{"statistic": "difference", **one} if isinstance(one, dict) else one for one in given]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.sweep is None) == (self.benchmark is None):
            got = "both" if self.sweep else "neither"
            raise ValueError(f"expected either sweep or benchmark, got {got}. Give one of them")
        self._cost()
        if self.sweep is not None and not (self.asked and self.contrasts):
            raise ValueError(
                "expected asked (corpus/family, such as grammar/recurrent) and contrasts with a sweep, got "
                f"{'asked' if self.asked else 'contrasts' if self.contrasts else 'neither'}. Add what is missing"
            )
        kinds = {one.statistic for one in self.contrasts}
        if len(kinds) > 1 and kinds & set(ALONE):
            raise ValueError(
                f"contrasts: expected {' or '.join(ALONE)} alone in a question, got {', '.join(sorted(kinds))}. Move "
                "the others to another question"
            )
        if "costly" in kinds and (self.margin is None or self.by_length):
            got = "no margin" if self.margin is None else "by_length"
            raise ValueError(f"costly: expected a margin, which is the cost of a head, and no by_length, got {got}")
        if self.with_sweeps and kinds != {"correlation"}:
            raise ValueError(
                "with_sweeps: expected correlations only, because other contrasts compare arms of one sweep, got "
                f"{min(kinds - {'correlation'})}"
            )
        if other := [pair for pair in self.asked if pair.count("/") != 1]:
            raise ValueError(f"asked: expected corpus/family, such as grammar/recurrent, got {other[0]!r}")
        if self.by_sentences and not self.by_length:
            raise ValueError("by_sentences: expected by_length: true too, got by_sentences alone. Add it")
        if self.by_length and isinstance(self.margin, str):
            raise ValueError(
                f"margin: expected a number with by_length, got {self.margin}, which is in units of the metric"
            )
        if self.replaces is not None and self.edition == 1:
            raise ValueError(
                f"replaces: expected none in a question of the first edition, got {self.replaces}. Add edition: 2"
            )
        return self

    @field_validator("margin")
    @classmethod
    def _named_margin(cls, given: float | str | None) -> float | str | None:
        if isinstance(given, str) and given != "gap" and not MULTIPLE.fullmatch(given):
            raise ValueError(f"expected a number, gap, or a number and a name such as 0.5 bleu, got {given!r}")
        return given

    def _cost(self) -> None:
        """Check that ratios and a benchmark come together."""
        ratios = [one.statistic == "ratio" for one in self.contrasts]
        if self.benchmark is None and not any(ratios):
            return
        if self.benchmark is None or not ratios or not all(ratios):
            kinds = ", ".join(sorted({one.statistic for one in self.contrasts})) or "no contrast"
            got = f"{kinds} with {'a benchmark' if self.benchmark else 'a sweep'}"
            raise ValueError(
                f"expected `statistic: ratio` in every contrast with a benchmark, and only there, got {got}"
            )
        if self.asked or not isinstance(self.margin, float) or self.margin <= 1:
            got = f"asked {self.asked}" if self.asked else f"margin {self.margin}"
            raise ValueError(
                f"benchmark: expected no asked, and a margin that is a ratio above 1, such as 1.1, got {got}"
            )
        if idle := self.model_fields_set & {"metric", "by_length"}:
            got = getattr(self, min(idle))
            raise ValueError(f"{min(idle)}: expected none with a benchmark, which compares times, got {got}. Remove it")


class ReportedEffect(Entry):
    """Published effect in BLEU: a difference of two systems on the same test set."""

    bleu: float
    of: str = Field(description="Difference in words, such as `4 − 1 heads`.")
    source: str = Field(description="Citation key; one of the claim's.")
    parts: tuple[str, ...] = Field((), description="Parts of the claim that it belongs to; all if empty.")


class Claim(Entry):
    """One row of the table of verdicts, or several: one for each corpus, family and part."""

    id: int | str
    slug: str
    statement: str
    type: Kind
    source: tuple[str, ...] = Field((), description="Citation keys.")
    published: str = Field("", description="The effect that the source reports.")
    effects: tuple[ReportedEffect, ...] = Field((), description="Those published effects that are differences of BLEU.")
    unchecked: str = Field("", description="What is remembered of a source and was not looked up: never printed.")
    questions: Annotated[tuple[Question, ...], Field(min_length=1)]

    @field_validator("questions")
    @classmethod
    def _types(cls, given: tuple[Question, ...], claim: ValidationInfo) -> tuple[Question, ...]:
        """Give a question without a type that of the claim."""
        own = {"type": claim.data.get("type")}
        return tuple(one if "type" in one.model_fields_set else one.model_copy(update=own) for one in given)

    @model_validator(mode="after")
    def _margins(self) -> Self:
        for question in self.questions:
            for pair in question.asked:
                if question.type == "equivalence" and question.margin is None:
                    raise ValueError(f"margin: expected a number or gap for an equivalence, got none for {pair}")
        rows = [(q.edition, pair, q.part) for q in self.questions for pair in q.asked]
        if len(set(rows)) < len(rows):
            raise ValueError(
                "asked: expected each corpus/family once, got one twice. Give the questions different values of part"
            )
        parts = {q.part for q in self.questions}
        for effect in self.effects:
            if effect.source not in self.source:
                raise ValueError(f"effects: expected a source of the claim, got {effect.source!r}. Add it to source")
            if unknown := set(effect.parts) - parts:
                raise ValueError(f"effects: expected a part of the claim, got {min(unknown)!r}. Correct it")
        first = {name for q in self.questions if q.edition == 1 for name in (q.part, *q.asked)}
        for question in self.questions:
            if idle := set(question.replaces or ()) - first:
                raise ValueError(
                    f"replaces: expected a corpus/family or part of the first edition, got {min(idle)!r}. "
                    "Correct it, or write replaces: []"
                )
        return self


class Gap(Entry):
    """The margin `gap`: a share of the distance between two arms of a sweep, in the same metric, corpus and family."""

    sweep: str
    share: Annotated[float, Field(gt=0, lt=1)]
    arm: Overrides
    baseline: Overrides
    where: dict[str, Overrides] = Field(default={}, description="Fields that both arms share, by family.")


class NamedMargin(Entry):
    """A margin that was fixed before the runs: its value in each corpus, family and score."""

    source: str = Field(description="Where the values come from, in a sentence.")
    values: dict[str, dict[str, Annotated[float, Field(gt=0)]]] = Field(
        description="corpus/family ↦ score without its split, such as `nll` or `exact/without pronouns` ↦ value."
    )


class Claims(Entry):
    """Content of a file of claims."""

    description: str = ""
    gap: Gap | None = None
    margins: dict[str, NamedMargin] = {}
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class ClaimFile:
    """The claims of one file. Sweeps that are named by path lie beside it."""

    path: Path
    claims: tuple[Claim, ...]
    gap: Gap | None = None
    margins: Mapping[str, NamedMargin] = field(default_factory=dict)


def read_all(beside: Path | None = None) -> list[ClaimFile]:
    """Read the claims of this study, and those of a file beside them.

    Raises:
        InputError: a file that can't be read, or an id that is taken.
    """
    ours = read(HERE)
    if beside is None:
        return [ours]
    theirs = read(beside)
    taken = {name for claim in ours.claims for name in (str(claim.id), claim.slug)}
    for claim in theirs.claims:
        if same := taken & {str(claim.id), claim.slug}:
            raise InputError(
                f"{beside}: claim {claim.id}: expected a new id and slug, got {min(same)} of this study. Rename it."
            )
    return [ours, theirs]


def read(path: Path) -> ClaimFile:
    """Read the claims of one file.

    Raises:
        InputError: no such file, no YAML, or an entry that is not whole; with the claim and the field.
    """
    if not os.path.exists(path):
        raise InputError(f"{path}: no such file of claims. Name another with --claims.")
    tree = read_yaml(path)
    if not isinstance(tree, dict):
        raise InputError(f"{path}: expected a mapping with `claims:`, a list of entries, got {type(tree).__name__}.")
    try:
        found = Claims.model_validate(tree)
    except ValidationError as error:
        raise InputError(f"{path}: {_one_line(error, tree)}") from None
    ids = [str(claim.id) for claim in found.claims]
    if twice := [one for one in ids if ids.count(one) > 1]:
        raise InputError(f"{path}: claims: expected each id once, got {twice[0]} twice. Rename one.")
    return ClaimFile(path, found.claims, found.gap, found.margins)


def _one_line(error: ValidationError, tree: Mapping[str, Any]) -> str:
    first = error.errors()[0]
    where = [str(part) for part in first["loc"] if part not in ("difference", "interaction", "trend", *ALONE)]
    if len(where) > 1 and where[0] == "claims":
        entry = tree["claims"][int(where[1])]
        where[:2] = [f"claim {entry.get('id', where[1]) if isinstance(entry, dict) else where[1]}"]
    what = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        what = "no such field here; docs/statistics.md lists the fields"
    elif not isinstance(first["input"], dict | list) and not str(first["msg"]).startswith("Value error"):
        what += f", not {first['input']!r}"
    return f"{'.'.join(where)}: {what}"
