"""Evaluation of claims: every claim is checked against the sweeps, then its contrasts are tested on the records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from study import metrics
from study.analysis.measures import Measure
from study.analysis.runs import ArmRuns, Runs, check_fields, find_levels, sentence_tests
from study.claims import costs, matrix, verdicts
from study.claims.contrasts import QuestionArms, check, compare, direction
from study.claims.costs import Costs
from study.claims.schema import Claim, ClaimFile, Gap, NamedMargin, Question
from study.claims.verdicts import PublishedEffect, Verdict
from study.errors import InputError
from study.sweep import fields

BLEU = "bleu"
"""Named margin with the value of one BLEU in each score."""
UNITS_OF_THEIR_OWN = {"band", "correlation", "costly", "ratio", "trend"}
"""Statistics whose estimates are not in units of a score."""


def evaluate(
    files: Sequence[ClaimFile],
    runs: Runs,
    measured: Costs | None = None,
    wanted: Iterable[str] = (),
    by_score: bool = False,
) -> list[Verdict]:
    """Return the verdicts of the claims wanted (by id or slug; all, if none is named). All are checked and computed.

    Args:
        files: claims; `gap` and each named margin are the last file's that defines them.
        runs: sweeps and records.
        measured: times of attention sites, for questions with a benchmark.
        wanted: ids or slugs.
        by_score: judge each question also by the other scores, see `matrix`.

    Raises:
        InputError: a claim that is not there, one that names what no sweep has, or a record that can't be used.
    """
    gap = next((file.gap for file in reversed(files) if file.gap), None)
    named = {name: margin for file in files for name, margin in file.margins.items()}
    evaluator = _Evaluator(runs, measured, gap, named)
    claims, names = [claim for file in files for claim in file.claims], set(wanted)
    if unknown := names - {name for claim in claims for name in (str(claim.id), claim.slug)}:
        ids = _listed([str(claim.id) for claim in claims])
        raise InputError(f"claim: expected {ids} or a name, got {min(unknown)}. `study claims` lists all.")
    found = []
    for file in files:
        own = []
        for claim in file.claims:
            evaluator.check(file, claim)
        for claim in file.claims:
            own += verdicts.supersede(list(evaluator.verdicts(file, claim, by_score)))
        found += verdicts.over_the_study(own)
    tests = sentence_tests(runs.store.folder.parent) if runs.store else {}
    return [
        replace(one, findings=tuple(replace(f, sentences=tests.get(f.key) if f.key else None) for f in one.findings))
        for one in found
        if not names or names & {str(one.claim.id), one.claim.slug}
    ]


def _listed(ids: Sequence[str]) -> str:
    """Return ids with the whole numbers that follow one another as a range: `1–29, mine`."""
    numbers = [name for name in ids if name.isdigit()]
    follow = numbers == [str(number) for number in range(1, len(numbers) + 1)]
    short = [f"1–{len(numbers)}"] if follow and len(numbers) > 1 else numbers
    return ", ".join([*short, *(name for name in ids if name not in numbers)])


@dataclass
class _Evaluator:
    runs: Runs
    measured: Costs | None
    gap: Gap | None
    named: Mapping[str, NamedMargin]
    margins: dict[tuple[str, str, str], float | None] = field(default_factory=dict)

    def check(self, file: ClaimFile, claim: Claim) -> None:
        """Refuse a claim that names a sweep, arm, field, value or metric that is not there.

        Raises:
            InputError: with the file, the claim and the field.
        """
        for number, question in enumerate(claim.questions):
            where = f"{file.path}: claim {claim.id}.questions.{number}"
            for pair in question.asked:
                _at(f"{where}.asked", fields.check, "data.name", pair.split("/")[0])
                _at(f"{where}.asked", fields.check, "model.family", pair.split("/")[1])
            if question.benchmark is not None:
                _at(where, costs.check, question, self.measured)
                continue
            for pair in question.asked:
                self._check_pair(file, question, pair, where)

    def verdicts(self, file: ClaimFile, claim: Claim, by_score: bool) -> Iterator[Verdict]:
        """One verdict for each question, corpus and family of a claim."""
        for question in claim.questions:
            if question.benchmark is not None:
                yield costs.verdict(claim, question, self.measured)
            for pair in question.asked:
                verdict = self._verdict(file, claim, question, pair)
                yield replace(verdict, by_score=self._by_score(file, claim, question, pair) if by_score else {})

    def _verdict(self, file: ClaimFile, claim: Claim, question: Question, pair: str) -> Verdict:
        among = self._arms(file, question, pair)
        worth = self._worth_of_bleu(question, pair)
        margin, unknown = self._margin(question, *pair.split("/"))
        effects = [
            PublishedEffect(one, one.bleu * worth, margin)
            for one in claim.effects
            if worth is not None and (not one.parts or question.part in one.parts)
        ]
        found = compare(question, replace(among, margin=margin))
        return verdicts.conclude(claim, question, pair, found, margin, unknown, effects)

    def _worth_of_bleu(self, question: Question, pair: str) -> float | None:
        """The value of one BLEU in units of a question, by the named margin `bleu`; None without one."""
        if question.by_length or {one.statistic for one in question.contrasts} & UNITS_OF_THEIR_OWN:
            return None
        score = metrics.unit_metric(question.metric).partition("/")[2]
        if score.split("/")[0] == "bleu":
            return 1.0
        return self.named[BLEU].values.get(pair, {}).get(score) if BLEU in self.named else None

    def _by_score(self, file: ClaimFile, claim: Claim, question: Question, pair: str) -> dict[str, Verdict | str]:
        """The verdict by each score of the matrix, or why there is none; empty for a question outside it."""
        if not matrix.covers(question, pair):
            return {}
        return {score: self._by_one_score(file, claim, question, pair, score) for score in matrix.SCORES}

    def _by_one_score(self, file: ClaimFile, claim: Claim, question: Question, pair: str, score: str) -> Verdict | str:
        other = matrix.with_score(question, score)
        if other is None:
            return matrix.NOT_SCORED
        if isinstance(other.margin, str) and other.margin != "gap":
            worth = self.named[other.margin.partition(" ")[2]].values.get(pair, {})
            if metrics.unit_metric(other.metric).partition("/")[2] not in worth:
                other = other.model_copy(update={"margin": None})
        if other.margin is None and other.type == "equivalence":
            return matrix.NO_MARGIN
        try:
            return self._verdict(file, claim, other, pair)
        except InputError:  # the question has been checked, so its records lack the score
            return matrix.NOT_SCORED

    def _check_pair(self, file: ClaimFile, question: Question, pair: str, where: str) -> None:
        among = _at(f"{where}.sweep", self._arms, file, question, pair)
        if not among.arms:
            raise InputError(f"{where}.asked: expected a corpus/family of sweep {question.sweep}, got {pair}.")
        _at(f"{where}.metric", metrics.check_claimed, question.metric, among.arms[0].corpus)
        _at(f"{where}.where", check_fields, question.where)
        seeds: dict[tuple[int, ...], ArmRuns] = {}
        for number, contrast in enumerate(question.contrasts):
            place = f"{where}.contrasts.{number}"
            directed = contrast.expect == "different" or direction(contrast, question.metric) != 0
            if not directed and question.type != "equivalence":
                raise InputError(
                    f"{place}.expect: expected higher, lower or different with {question.metric}, which has no better, "
                    f"got {contrast.expect}."
                )
            seeds |= {tuple(sorted(arm.cells)): arm for arm in _at(place, check, contrast, among)}
        if len(seeds) > 1:
            (a, first), (b, second) = list(seeds.items())[:2]
            raise InputError(
                f"{where}: expected the same seeds for every arm, got {list(a)} for {first.label} and {list(b)} for "
                f"{second.label}."
            )
        if question.margin == "gap":
            _at(f"{where}.margin", self._gap_arms, *pair.split("/"))
        elif isinstance(question.margin, str):
            _at(f"{where}.margin", self._multiple, question.margin, pair, question.metric)

    def _arms(self, file: ClaimFile, question: Question, pair: str) -> QuestionArms:
        """The arms of a question's sweeps in one corpus and family, each once."""
        assert question.sweep is not None
        corpus, family = pair.split("/")
        arms = self.runs.declared((question.sweep, *question.with_sweeps), corpus, family, file.path.parent)
        measure = Measure(question.metric, question.by_length, question.by_sentences)
        return QuestionArms(self.runs, measure, question.where, arms)

    def _margin(self, question: Question, corpus: str, family: str) -> tuple[float | None, str]:
        """The margin, and why it is not known if it should be."""
        if not isinstance(question.margin, str):
            return question.margin, ""
        if question.margin != "gap":
            return self._multiple(question.margin, f"{corpus}/{family}", question.metric), ""
        place = (corpus, family, metrics.unit_metric(question.metric))
        if place not in self.margins:
            self.margins[place] = self._gap_margin(*place)
        assert self.gap is not None
        margin = self.margins[place]
        return margin, "" if margin else f"the margin needs the runs of sweep {self.gap.sweep}"

    def _multiple(self, margin: str, pair: str, metric: str) -> float:
        """Return a multiple of a named margin such as `0.5 bleu`, in units of a metric."""
        times, _, name = margin.partition(" ")
        if name not in self.named:
            known = ", ".join(["gap", *self.named])
            raise InputError(f"expected a number or a multiple of a margin of the file ({known}), got {margin}.")
        score = metrics.unit_metric(metric).partition("/")[2]
        value = self.named[name].values.get(pair, {}).get(score)
        if value is None:
            raise InputError(f"margin {name} has no value for {score} in {pair}. Add it to `margins:`.")
        return float(times) * value

    def _gap_arms(self, corpus: str, family: str) -> list[ArmRuns]:
        if self.gap is None:
            raise InputError(
                "expected a number, got gap, which the file does not define. Add `gap:` to it, or give a number."
            )
        arms = self.runs.declared([self.gap.sweep], corpus, family)
        if not arms:
            raise InputError(
                f"expected a number in {corpus}/{family}, got gap, and sweep {self.gap.sweep} has no such runs."
            )
        shared = self.gap.where.get(family, {})
        return [find_levels(arms, shared | side)[0][1] for side in (self.gap.arm, self.gap.baseline)]

    def _gap_margin(self, corpus: str, family: str, metric: str) -> float | None:
        assert self.gap is not None
        arms = [self.runs.values(arm, Measure(metric)) for arm in self._gap_arms(corpus, family)]
        if any(arm.holes or not arm.values for arm in arms):
            return None
        top, bottom = (sum(arm.values.values()) / len(arm.values) for arm in arms)
        return self.gap.share * abs(top - bottom)


def _at(where: str, call: Any, *given: Any) -> Any:
    """The result of a call; its complaint with the place in the file in front."""
    try:
        return call(*given)
    except InputError as problem:
        raise InputError(f"{where}: {problem}") from None
