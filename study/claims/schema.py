"""Schema of a file of claims: statements, sweeps, and the contrasts of arms that decide.

A claim is an entry of `claims.yaml`, or of a user's own file beside it. Arms are named by the fields that tell them
apart (`model.memory: final`), never by a label. Everything here can be checked before a single
run exists: sweeps, arms, fields, values and metrics that are not there are refused with the file and the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from study.errors import InputError
from study.schema import Section
from study.scores import metrics
from study.sweep.file import read_yaml

HERE = Path(__file__).with_name("claims.yaml")

Kind = Literal["superiority", "equivalence", "noninferiority", "shape"]
NO_DIFFERENCE = ("equivalence", "noninferiority")
"""Types that need a margin."""
Multiple = Annotated[str, Field(pattern=r"^\d+(\.\d+)? [a-z]\w*$")]
"""A multiple of a named margin, such as `0.5 bleu`."""
Overrides = dict[str, str | int | float | bool | None]
"""Field ↦ value, such as `model.attention.scale: none`."""
BOTH = {"arm", "baseline"}
FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "difference": (BOTH, {"best_over", "select"}),
    "interaction": (BOTH | {"minus"}, set()),
    "band": (BOTH | {"within"}, set()),
    "ratio": (BOTH, set()),
    "correlation": ({"between", "level"}, set()),
    "within": ({"arm", "of", "minus"}, set()),
    "costly": ({"arm", "minus"}, set()),
    "draws": (BOTH, set()),
}
"""Statistic ↦ the fields that its contrasts need, and those that they may have."""
BETTER = {"band": 1, "ratio": -1}
"""Statistic ↦ the direction that is better, if it is not that of the score."""


class Pair(Section):
    """An arm and what it is compared with."""

    arm: Overrides
    baseline: Overrides


class Contrast(Section):
    """Contrast of arms. `expect` is the predicted sign; by default the arm is better, or a ratio lower.

    `name` is made from the arms where it is left out. The statistics are these:

    difference   arm − baseline; with `best_over` each side is the best of several arms by validation (`select`)
    interaction  (arm − baseline) − (minus.arm − minus.baseline)
    band         width of the band of good learning rates, in doublings: arm − baseline. The band is the run of
                 neighbouring rates around a seed's best one whose loss is within `within` of it; a rate that diverged
                 is outside. Its width is log2(largest / smallest)
    ratio        arm ÷ baseline: sites of a benchmark, by the fields of `costs.TimedSite`
    correlation  Spearman's ρ of two metrics: between the means of arms, or within arms over seeds and averaged
    within       one metric of a run minus another (`minus`: a metric, several, whose mean is taken, or a number)
    costly       percentage of heads whose removal alone costs more than the margin, minus `minus`
    draws        mean difference over draws of the corpus, by Student's t over the draws' own differences of means
    """

    name: str = ""
    statistic: str = "difference"
    expect: Literal["higher", "lower", "better", "worse", "different"] = "better"
    arm: Overrides = {}
    baseline: Overrides = {}
    best_over: tuple[str, ...] = ()
    select: str = Field("valid/nll", pattern="^valid/")
    minus: Annotated[Pair | str | tuple[str, ...] | float | None, Field(union_mode="left_to_right")] = None
    within: Annotated[float, Field(gt=0)] = 1.0
    of: str = ""
    between: tuple[str, ...] = Field((), min_length=2, max_length=2)
    level: Literal["arms", "seeds"] = "arms"

    @model_validator(mode="before")
    @classmethod
    def _fits(cls, entry: Any) -> Any:
        """Refuse fields of other statistics."""
        tree = {"statistic": "difference"} | (entry if isinstance(entry, dict) else {})
        kind = str(tree["statistic"])
        if kind not in FIELDS:
            raise ValueError(f"statistic: expected {', '.join(FIELDS)}, got {kind}")
        needs, takes = FIELDS[kind]
        names = tree.keys() - {"name", "statistic", "expect"}
        if not needs <= names <= needs | takes:
            fields = ", ".join([*sorted(needs), *(f"{name} (optional)" for name in sorted(takes))])
            raise ValueError(f"expected the fields of statistic {kind}: {fields}, got {', '.join(map(str, names))}")
        if "minus" in needs and isinstance(tree["minus"], dict) != (kind == "interaction"):
            raise ValueError(f"minus: expected that of statistic {kind}, got {tree['minus']}")
        return tree

    @property
    def sides(self) -> list[tuple[int, Overrides]]:
        """The sides with their signs: arm, baseline, and those of `minus`."""
        sides = [(sign, side) for sign, side in ((1, self.arm), (-1, self.baseline)) if side]
        if isinstance(self.minus, Pair):
            sides += [(-1, self.minus.arm), (1, self.minus.baseline)]
        return sides

    @property
    def subtracted(self) -> tuple[str, ...]:
        """Metrics that are subtracted, their mean; empty if `minus` is something else."""
        if isinstance(self.minus, str):
            return (self.minus,)
        return self.minus if isinstance(self.minus, tuple) else ()

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Every metric that the contrast names."""
        if self.of:
            return (self.of, *self.subtracted)
        return (self.select,) if self.best_over else self.between

    def direction(self, metric: str) -> int:
        """Return the sign of the difference that a claim predicts; 0 if it predicts none, or there is no better."""
        deciding_metric = self.between[-1] if self.between else metric
        better = BETTER.get(self.statistic) or metrics.metric_of(deciding_metric).direction
        return {"different": 0, "higher": 1, "lower": -1, "better": better, "worse": -better}[self.expect]


class Question(Section):
    """Contrasts of the arms of one sweep, in one or more pairs of corpus and family.

    Attributes:
        sweep: name of a sweep in sweeps/, or a file beside the file of claims.
        with_sweeps: further sweeps whose arms a correlation is taken over.
        benchmark: instead of a sweep: measured times, see `costs`.
        asked: pairs such as grammar/recurrent.
        part: which part of the claim, where it has several.
        type: type of this part; by default the claim's.
        metric: the number that decides.
        second: another number that decides with it.
        margin: smallest difference of interest.
        design: paired if the arms are compared seed by seed, which was declared before the runs.
        where: fields that all arms share.
        combine: the claim holds if all contrasts do, or if any does.
        blind: `study sweep` shows no test score of the sweep.
        no_vote: why the answer is printed and does not count for the claim.
        post_hoc: why this was asked when its answer could be known.
        contrasts: the comparisons that decide.
    """

    sweep: str | None = None
    with_sweeps: tuple[str, ...] = ()
    benchmark: Literal["cost"] | None = None
    asked: tuple[Annotated[str, Field(pattern="^[^/]+/[^/]+$")], ...] = ()
    part: str = ""
    type: Kind = "superiority"
    metric: str = "test/exact"
    second: str = ""
    margin: Annotated[float, Field(gt=0)] | Multiple | None = None
    design: Literal["independent", "paired"] = "independent"
    where: Overrides = {}
    combine: Literal["all", "any"] = "all"
    blind: bool = False
    no_vote: str = ""
    post_hoc: str = ""
    contrasts: Annotated[tuple[Contrast, ...], Field(min_length=1)]

    @property
    def statistics(self) -> set[str]:
        """The statistics of its contrasts."""
        return {contrast.statistic for contrast in self.contrasts}

    @model_validator(mode="after")
    def _whole(self) -> Self:
        of_runs = self.sweep and self.asked and "ratio" not in self.statistics
        of_times = self.statistics == {"ratio"} and isinstance(self.margin, float) and self.margin > 1
        if self.benchmark and (self.sweep or self.asked or not of_times):
            raise ValueError("benchmark: expected statistic ratio, and a margin above 1, without sweep and asked")
        if not (self.benchmark or of_runs):
            raise ValueError("expected sweep, and asked, such as grammar/recurrent, with another statistic than ratio")
        if self.second and not isinstance(self.margin, str) and self.margin is not None:
            raise ValueError("margin: expected one such as 0.5 bleu with second, got a number. Correct the margin")
        if "costly" in self.statistics and (self.margin is None or self.statistics != {"costly"}):
            raise ValueError("costly: expected a margin, and no contrasts of other statistics. Correct the question")
        return self


class ReportedEffect(Section):
    """Published effect in BLEU: a difference of two systems on the same test set.

    Attributes:
        bleu: the difference.
        of: what it is a difference of, in words, such as `4 − 1 heads`.
        source: citation key; one of the claim's.
        parts: parts of the claim that it belongs to; all if empty.
    """

    bleu: float
    of: str
    source: str
    parts: tuple[str, ...] = ()


class Claim(Section):
    """One row of the table of verdicts, or several: one for each corpus, family and part.

    Attributes:
        id, slug: number or word, and a short name.
        statement: the claim in one sentence.
        depends_on: in words, what the answer depends on if some questions hold and some fail.
        type: what its questions ask, unless they say otherwise.
        source: citation keys.
        published: the effect that the source reports.
        effects: those published effects that are differences of BLEU.
        questions: its parts.
    """

    id: int | str
    slug: str
    statement: str
    depends_on: str = "the question"
    type: Kind
    source: tuple[str, ...] = ()
    published: str = ""
    effects: tuple[ReportedEffect, ...] = ()
    questions: Annotated[tuple[Question, ...], Field(min_length=1)]

    @field_validator("questions")
    @classmethod
    def _types(cls, questions: tuple[Question, ...], claim: ValidationInfo) -> tuple[Question, ...]:
        """Give a question without a type that of the claim."""
        typed = []
        for question in questions:
            declares_type = "type" in question.model_fields_set
            typed.append(question if declares_type else question.model_copy(update={"type": claim.data.get("type")}))
        return tuple(typed)

    @model_validator(mode="after")
    def _parts(self) -> Self:
        rows: list[tuple[str, str]] = []
        for question in self.questions:
            if question.type in NO_DIFFERENCE and question.margin is None:
                raise ValueError("margin: expected a number for an equivalence or noninferiority, got none. Give one")
            rows += [(pair, question.part) for pair in question.asked]
        if len(set(rows)) < len(rows):
            raise ValueError("asked: expected each corpus/family and part once, got one twice. Name their parts")
        return self

    @property
    def names(self) -> set[str]:
        """Id and slug."""
        return {str(self.id), self.slug}


class NamedMargin(Section):
    """A margin with a name: its value in each corpus, family and score.

    `source` says where the values come from. `values`: corpus/family ↦ score without its split, such as `nll` or
    `exact/without pronouns` ↦ value.
    """

    source: str
    values: dict[str, dict[str, Annotated[float, Field(gt=0)]]]


class ClaimFile(Section):
    """Content of a file of claims. Sweeps that are named by path lie beside it."""

    path: Path
    description: str = ""
    margins: dict[str, NamedMargin] = {}
    claims: tuple[Claim, ...]


def margin_of(question: Question, metric: str, pair: str, margins: Mapping[str, NamedMargin]) -> float | None:
    """Return the margin of a question in units of a score; None without one.

    Args:
        question: the question.
        metric: the score, as `split/score` or `split/score/subset`.
        pair: corpus/family.
        margins: the named margins.

    Raises:
        InputError: the named margin has no value for the score.
    """
    if not isinstance(question.margin, str):
        return question.margin
    unit = metrics.unit_of(metric)
    multiple, _, name = question.margin.partition(" ")
    values = margins[name].values.get(pair, {}) if name in margins else {}
    if unit not in values:
        remedy = "Add it to `margins:`."
        raise InputError(f"margin: expected {name} with a value for {unit} in {pair}, got none. {remedy}")
    return float(multiple) * values[unit]


def read_all(beside: Path | None = None) -> list[ClaimFile]:
    """Read the claims of this study, and those of a file beside them.

    Raises:
        InputError: a file that can't be read, or an id that is taken.
    """
    files = [read(HERE)]
    if beside:
        files.append(read(beside))
    taken: set[str] = set()
    for file in files:
        for claim in file.claims:
            if twice := taken & claim.names:
                problem = f"expected an id and slug that no other claim has, got {min(twice)}. Rename it."
                raise InputError(f"{file.path}: claim {claim.id}: {problem}")
            taken |= claim.names
    return files


def read(path: Path) -> ClaimFile:
    """Read the claims of one file.

    Raises:
        InputError: no such file, no YAML, or an entry that is not whole; with the claim and the field.
    """
    tree = read_yaml(path)
    if not isinstance(tree, dict):
        raise InputError(f"{path}: expected a mapping with `claims:`, a list of entries, got {type(tree).__name__}.")
    try:
        return ClaimFile.model_validate(tree | {"path": path})
    except ValidationError as error:
        raise InputError(f"{path}: {_one_line(error, tree)}") from None


def _one_line(error: ValidationError, tree: dict[str, Any]) -> str:
    """Return the first problem, with its claim and field."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"]]
    if len(place) > 1 and place[0] == "claims":
        number = place[1]
        entry = tree["claims"][int(number)]
        place[:2] = [f"claim {entry.get('id', number) if isinstance(entry, dict) else number}"]
    problem = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        problem = "no such field here; docs/statistics.md lists the fields"
    value = f", got {first['input']!r}" if isinstance(first["input"], str) else ""
    return f"{'.'.join(place)}: {problem}{value}"
