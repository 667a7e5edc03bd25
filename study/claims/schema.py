"""Claims as data: what each one says, which sweep it is asked of, and which contrast of which arms decides.

A claim is an entry of `claims.yaml`, or of a user's own file beside it. Arms are named by the fields that tell them
apart (`model.memory: final`), never by a label. Everything here can be checked before a single run exists: sweeps,
arms, fields, values and metrics that are not there are refused with the file and the field.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from study.claims.kinds import ALONE, AnyContrast, Entry, Overrides
from study.errors import InputError
from study.sweep.file import read_yaml

HERE = Path(__file__).with_name("claims.yaml")

Kind = Literal["superiority", "equivalence", "shape"]
Margin = float | Literal["gap"]


class Question(Entry):
    """One sweep (or sweep to come) asked one thing, in one or more pairs of corpus and family."""

    sweep: str | None = Field(None, description="Name of a sweep in sweeps/, or a file beside the file of claims.")
    with_sweeps: tuple[str, ...] = Field((), description="Further sweeps whose arms a correlation is taken over.")
    awaits: str | None = Field(None, description="Instead of a sweep: what has to be made before this can be asked.")
    benchmark: Literal["cost"] | None = Field(None, description="Instead of a sweep: measured times, see costs.py.")
    asked: tuple[str, ...] = Field((), description="Pairs such as grammar/recurrent.")
    part: str = Field("", description="Which part of the claim, where it has several.")
    type: Kind | None = Field(None, description="Where this part's type is not the claim's.")
    metric: str = "test/exact"
    by_length: bool = Field(False, description="The slope of the metric over source length, per run and word.")
    by_sentences: bool = Field(False, description="The slope weighs groups of lengths by their numbers of sentences.")
    bounds: tuple[float, float] | None = Field(None, description="Floor and ceiling, such as chance and 100.")
    margin: Margin | dict[str, Margin] | None = Field(None, description="Smallest difference of interest, by corpus.")
    where: Overrides = Field(default={}, description="Fields that all arms share.")
    combine: Literal["all", "any"] = Field("all", description="The claim holds if all contrasts do, or if any does.")
    against: bool = Field(False, description="The contrasts predict the opposite of the claim.")
    descriptive: bool = Field(False, description="Estimates and intervals are printed, and no verdict is given.")
    not_asked: str = Field("", description="Why this is not the claim as it was published.")
    post_hoc: str = Field("", description="Why this was asked when its answer could be known.")
    contrasts: tuple[AnyContrast, ...] = ()

    @field_validator("contrasts", mode="before")
    @classmethod
    def _differences(cls, given: Any) -> Any:
        """A contrast that does not name its statistic is a difference."""
        if not isinstance(given, list | tuple):
            return given
        return [{"statistic": "difference", **one} if isinstance(one, dict) else one for one in given]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if sum(one is not None for one in (self.sweep, self.awaits, self.benchmark)) != 1:
            raise ValueError("give either sweep, or awaits for a sweep that is yet to be made, or benchmark")
        self._cost()
        if self.sweep is not None and not (self.asked and self.contrasts):
            raise ValueError("a sweep needs asked (pairs such as grammar/recurrent) and contrasts")
        if self.awaits is not None and self.contrasts:
            raise ValueError("contrasts need a sweep, and this one awaits its own")
        kinds = {one.statistic for one in self.contrasts}
        if len(kinds) > 1 and kinds & set(ALONE):
            raise ValueError(f"{' or '.join(ALONE)} is not compared with other contrasts; ask it in its own question")
        if "costly" in kinds and (self.margin is None or self.by_length):
            raise ValueError("costly needs a margin, which is the cost of a head, and has no by_length")
        if self.with_sweeps and kinds != {"correlation"}:
            raise ValueError("with_sweeps is for correlations; other contrasts take arms of one sweep")
        if any(pair.count("/") != 1 for pair in self.asked):
            raise ValueError("asked lists pairs of corpus and family, such as grammar/recurrent")
        if self.by_sentences and not self.by_length:
            raise ValueError("by_sentences weighs the groups of by_length; give that too")
        if self.by_length and self.margin_rules & {"gap"}:
            raise ValueError("margin gap is in units of the metric, and by_length asks a slope; give a number")
        return self

    def _cost(self) -> None:
        """A question of measured times has ratios, and nothing else has."""
        ratios = [one.statistic == "ratio" for one in self.contrasts]
        if self.benchmark is None and not any(ratios):
            return
        if self.benchmark is None or not ratios or not all(ratios):
            raise ValueError("benchmark and contrasts with `statistic: ratio` need each other")
        if self.asked or not isinstance(self.margin, float) or self.margin <= 1:
            raise ValueError("a benchmark has no asked, and a margin that is a ratio above 1, such as 1.1")
        if idle := self.model_fields_set & {"metric", "by_length", "bounds"}:
            raise ValueError(
                f"{min(idle)} changes nothing in a question of a benchmark, which is asked of times; leave it out"
            )

    @property
    def margin_rules(self) -> set[Margin]:
        """Every margin that is used somewhere."""
        rules = self.margin.values() if isinstance(self.margin, dict) else [self.margin]
        return {rule for rule in rules if rule is not None}

    def margin_in(self, corpus: str) -> Margin | None:
        """The margin in one corpus."""
        return self.margin.get(corpus) if isinstance(self.margin, dict) else self.margin


class Claim(Entry):
    """One row of the table of verdicts, or several: one for each corpus, family and part."""

    id: int | str
    slug: str
    statement: str
    type: Kind
    source: tuple[str, ...] = Field((), description="Citation keys.")
    published: str = Field("", description="The effect that the source reports.")
    unchecked: str = Field("", description="What is remembered of a source and was not looked up: never printed.")
    questions: Annotated[tuple[Question, ...], Field(min_length=1)]

    def kind(self, question: Question) -> Kind:
        """The type of a question."""
        return question.type or self.type

    @model_validator(mode="after")
    def _margins(self) -> Self:
        for question in self.questions:
            for pair in question.asked:
                if self.kind(question) == "equivalence" and question.margin_in(pair.split("/")[0]) is None:
                    raise ValueError(f"an equivalence needs a margin, and there is none for {pair}")
        rows = [(pair, question.part) for question in self.questions for pair in question.asked]
        if len(set(rows)) < len(rows):
            raise ValueError("a pair of corpus and family is asked twice; tell the questions apart by part")
        return self


class Gap(Entry):
    """The margin `gap`: a share of the distance between two arms of a sweep, in the same metric, corpus and family."""

    sweep: str
    share: Annotated[float, Field(gt=0, lt=1)]
    arm: Overrides
    baseline: Overrides
    where: dict[str, Overrides] = Field(default={}, description="Fields that both arms share, by family.")


class Claims(Entry):
    """A file of claims."""

    description: str = ""
    gap: Gap | None = None
    claims: tuple[Claim, ...]


def read(path: Path) -> Claims:
    """The claims of one file.

    Raises:
        InputError: no such file, no YAML, or an entry that is not whole; with the claim and the field.
    """
    if not os.path.exists(path):
        raise InputError(f"{path}: no such file of claims")
    tree = read_yaml(path)
    if not isinstance(tree, dict):
        raise InputError(f"{path}: a file of claims is a mapping with `claims:`, a list of entries")
    try:
        found = Claims.model_validate(tree)
    except ValidationError as error:
        raise InputError(f"{path}: {_one_line(error, tree)}") from None
    ids = [str(claim.id) for claim in found.claims]
    if twice := [one for one in ids if ids.count(one) > 1]:
        raise InputError(f"{path}: claims: {twice[0]} is the id of two claims; give each its own")
    return found


def _one_line(error: ValidationError, tree: Mapping[str, Any]) -> str:
    first = error.errors()[0]
    where = [str(part) for part in first["loc"] if part not in ("difference", "interaction", "trend", *ALONE)]
    if len(where) > 1 and where[0] == "claims":
        entry = tree["claims"][int(where[1])]
        where[:2] = [f"claim {entry.get('id', where[1]) if isinstance(entry, dict) else where[1]}"]
    what = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        what = "there is no such field here"
    elif not isinstance(first["input"], dict | list) and not str(first["msg"]).startswith("Value error"):
        what += f", not {first['input']!r}"
    return f"{'.'.join(where)}: {what}"
