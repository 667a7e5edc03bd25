"""Evaluation of claims: every claim is checked against the sweeps, then its contrasts are tested on the runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from study.analysis.measures import Measure
from study.analysis.runs import ArmRuns, Runs
from study.claims.contrasts import QuestionArms, Weighted, weigh
from study.claims.schema import Claim, ClaimFile, Contrast, NamedMargin, Overrides, Question, margin_of
from study.claims.sentences import SentenceNoises
from study.claims.verdicts import Comparison, Finding, conclude, over_the_study
from study.errors import InputError
from study.scores import metrics
from study.sweep import fields


def evaluate(
    files: Sequence[ClaimFile], runs: Runs, wanted: Iterable[str] = (), noises: SentenceNoises | None = None
) -> list[Finding]:
    """Return a row for each contrast of the claims wanted (by id or slug; all, if none is named), checked and tested.

    p by Benjamini and Hochberg is over all contrasts of a file, so it is there only if no claim is named.

    Args:
        files: claims; each named margin is the last file's that defines it.
        runs: sweeps and runs.
        wanted: ids or slugs.
        noises: noise of the sentences (default: that of the folder of runs).

    Raises:
        InputError: a claim that is not there, one that names what no sweep has, or a record that can't be used.
    """
    margins: dict[str, NamedMargin] = {}
    for file in files:
        margins |= file.margins
    names = list(wanted)
    for name in names:
        if not any(claim.asked_as(name) for file in files for claim in file.claims):
            raise InputError(f"claim: expected a number or name of a claim, got {name}. `study claims` lists all.")
    rows: list[Finding] = []
    for file in files:
        evaluator = Evaluator(runs, margins, file, noises or SentenceNoises(runs.store))
        of_file: list[Finding] = []
        for claim in file.claims:
            if not names or any(map(claim.asked_as, names)):
                of_file += evaluator.answers(claim)
        rows += of_file if names else over_the_study(of_file)
    return rows


@dataclass
class Evaluator:
    """Evaluates the questions of one file of claims."""

    runs: Runs
    margins: Mapping[str, NamedMargin]
    file: ClaimFile
    noises: SentenceNoises

    def answers(self, claim: Claim) -> list[Finding]:
        """Answer the questions of one claim: a row for each contrast.

        Raises:
            InputError: a sweep, arm, field, value or metric is not there; with the file, the claim and the field.
        """
        rows: list[Finding] = []
        for number, question in enumerate(claim.questions):
            try:
                for pair in question.asked:
                    rows += self.answer(claim, question, pair)
            except InputError as problem:
                raise InputError(f"{self.file.path}: claim {claim.id}.questions.{number}: {problem}") from None
        return rows

    def answer(self, claim: Claim, question: Question, pair: str) -> list[Finding]:
        """Answer a question in one corpus and family: a row for each contrast.

        Raises:
            InputError: see `answers`.
        """
        first = self._comparisons(claim, question, question.metric, pair)
        second = self._comparisons(claim, question, question.second, pair) if question.second else []
        return conclude(first, second)

    def _comparisons(self, claim: Claim, question: Question, metric: str, pair: str) -> list[Comparison]:
        """Return the contrasts of a question by one of its scores, checked, with their arms."""
        corpus, _, family = pair.partition("/")
        arms = self._arms(question, corpus, family)
        for contrast in question.contrasts:
            for name in (metric, *contrast.metric_names):
                metrics.check_claimed(name, arms[0].experiment.data)
        margin = margin_of(question, metric, pair, self.margins)
        costing = None
        if "costly" in question.statistics:  # the margin is in what is counted
            costing = margin
            margin = None
        measure = Measure(metric, costing)
        question_arms = QuestionArms(self.runs, measure, question.where, arms)
        effects = self._effects(claim, question, metric, pair)
        comparisons = []
        for contrast in question.contrasts:
            _check_direction(question, contrast, metric)
            weighted = weigh(contrast, question_arms)
            if question.design == "paired" and not weighted.pairable and all(arm.values for arm in weighted.arms):
                raise InputError("design: expected the same seeds in all arms of a paired contrast, got others.")
            if (question.checkpoint or self.file.checkpoint) == "same update":
                self._check_updates(weighted)
            comparison = Comparison(
                claim=claim,
                question=question,
                contrast=contrast,
                corpus=corpus,
                family=family,
                measure=measure,
                weighted=weighted,
                margin=margin,
                effects=effects,
                noise=self.noises.of(contrast, metric, weighted),
            )
            comparisons.append(comparison)
        return comparisons

    def _check_updates(self, weighted: Weighted) -> None:
        """Refuse runs that were tested at different updates."""
        updates = self.runs.updates(weighted.arms)
        if len(updates) > 1:
            raise InputError(
                f"checkpoint: expected runs that were tested at the same update, got {', '.join(map(str, updates))}. "
                "Train with `training.select: last`, or add `checkpoint: selected` to the question."
            )

    def _arms(self, question: Question, corpus: str, family: str) -> tuple[ArmRuns, ...]:
        """Return the arms of the sweeps of a question in one corpus and family; check the fields that it names."""
        declared: list[Overrides] = [{"data.name": corpus, "model.family": family}, question.where]
        for contrast in question.contrasts:
            declared += [side for _, side in contrast.sides]
        for overrides in declared:
            for name, value in overrides.items():
                fields.check(name, value)
        sweeps = (question.sweep, *question.with_sweeps)
        arms = self.runs.named_arms(sweeps, corpus, family, self.file.path.parent)
        if not arms:
            pair = f"{corpus}/{family}"
            raise InputError(f"asked: expected a corpus/family of sweep {question.sweep}, got {pair}.")
        return arms

    def _effects(self, claim: Claim, question: Question, metric: str, pair: str) -> list[tuple[float, float]]:
        """Return published effects in BLEU and in units of a score, by the named margin `bleu`; none without one."""
        unit = metrics.unit_of(metric)
        if unit.split("/")[0] == "bleu":
            one_bleu: float | None = 1.0
        else:
            one_bleu = self.margins["bleu"].values.get(pair, {}).get(unit) if "bleu" in self.margins else None
        if one_bleu is None or not question.statistics <= {"difference", "interaction", "within", "draws"}:
            return []
        effects = []
        for effect in claim.effects:
            if not effect.parts or question.part in effect.parts:
                effects.append((effect.bleu, effect.bleu * one_bleu))
        return effects


def _check_direction(question: Question, contrast: Contrast, metric: str) -> None:
    """Refuse a contrast without a predicted sign, where its question needs one."""
    any_sign = contrast.expect == "different" and question.type != "noninferiority"
    if not (contrast.direction(metric) or any_sign or question.type == "equivalence"):
        takes = f"expected higher or lower for a {question.type} by {metric}, got {contrast.expect}"
        raise InputError(f"expect: {takes}. Only a superiority may be different.")
