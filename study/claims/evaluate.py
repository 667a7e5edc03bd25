"""Evaluation of claims: every claim is checked against the sweeps, then its contrasts are tested on the runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from study.analysis.measures import Measure
from study.analysis.runs import Runs
from study.claims import costs
from study.claims.contrasts import QuestionArms, weigh
from study.claims.schema import Claim, ClaimFile, NamedMargin, Overrides, Question, margin_of
from study.claims.sentences import SentenceNoises
from study.claims.verdicts import Finding, conclude, over_the_study
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
    margins = {name: margin for file in files for name, margin in file.margins.items()}
    names, known = set(wanted), {name for file in files for claim in file.claims for name in claim.names}
    if unknown := names - known:
        raise InputError(f"claim: expected a number or name of a claim, got {min(unknown)}. `study claims` lists all.")
    found: list[Finding] = []
    for file in files:
        evaluator = Evaluator(runs, margins, file.path, noises or SentenceNoises(runs.store))
        claims = [claim for claim in file.claims if not names or names & claim.names]
        rows = [row for claim in claims for row in evaluator.rows(claim)]
        if not names:
            over_the_study(rows)
        found += rows
    return found


@dataclass
class Evaluator:
    """Evaluates the questions of one file of claims."""

    runs: Runs
    margins: Mapping[str, NamedMargin]
    path: Path
    noises: SentenceNoises

    def rows(self, claim: Claim) -> list[Finding]:
        """Return the rows of one claim.

        Raises:
            InputError: a sweep, arm, field, value or metric is not there; with the file, the claim and the field.
        """
        found: list[Finding] = []
        for number, question in enumerate(claim.questions):
            try:
                found += costs.rows(claim, question, self.runs.folder) if question.benchmark else []
                for pair in question.asked:
                    found += self.ask(claim, question, pair)
            except InputError as problem:
                raise InputError(f"{self.path}: claim {claim.id}.questions.{number}: {problem}") from None
        return found

    def ask(self, claim: Claim, question: Question, pair: str) -> list[Finding]:
        """Return the rows of a question in one corpus and family.

        Raises:
            InputError: see `rows`.
        """
        rows = self._tested(claim, question, question.metric, pair)
        if question.second:
            for row, second in zip(rows, self._tested(claim, question, question.second, pair), strict=True):
                row.second = second
        conclude(rows)
        return rows

    def _tested(self, claim: Claim, question: Question, metric: str, pair: str) -> list[Finding]:
        """Return the rows of a question by one of its scores."""
        corpus, _, family = pair.partition("/")
        sweeps = [name for name in (question.sweep, *question.with_sweeps) if name]
        place: Overrides = {"data.name": corpus, "model.family": family}
        for chosen in (place, question.where, *(side for one in question.contrasts for _, side in one.sides)):
            for name, value in chosen.items():
                fields.check(name, value)
        arms = self.runs.named_arms(sweeps, corpus, family, self.path.parent)
        if not arms:
            raise InputError(f"asked: expected a corpus/family of sweep {question.sweep}, got {pair}.")
        for name in (metric, *(name for contrast in question.contrasts for name in contrast.named)):
            metrics.check_claimed(name, arms[0].corpus)
        margin = margin_of(question, metric, pair, self.margins)
        measure = Measure(metric, (margin or 0.0) if "costly" in question.statistics else None)
        among = QuestionArms(self.runs, measure, question.where, arms)
        effects, rows = self._effects(claim, question, metric, pair), []
        for contrast in question.contrasts:
            any_sign = contrast.expect == "different" and question.type != "noninferiority"
            if not (contrast.direction(metric) or any_sign or question.type == "equivalence"):
                takes = f"expected higher or lower for a {question.type} by {metric}, got {contrast.expect}"
                raise InputError(f"expect: {takes}. Only a superiority may be different.")
            weighted = weigh(contrast, among)
            if question.design == "paired" and not weighted.pairable and all(arm.values for _, arm in weighted.parts):
                raise InputError("design: expected the same seeds in all arms of a paired contrast, got others.")
            limit = None if measure.costing is not None else margin
            row = Finding(claim, question, contrast, corpus, family, measure, weighted, limit, effects)
            row.noise = self.noises.of(row)
            rows.append(row)
        return rows

    def _effects(self, claim: Claim, question: Question, metric: str, pair: str) -> list[tuple[float, float]]:
        """Return published effects in BLEU and in units of a score, by the named margin `bleu`; none without one."""
        unit, bleu = metrics.unit_of(metric), self.margins.get("bleu")
        one_bleu = bleu.values.get(pair, {}).get(unit) if bleu else None
        one_bleu = 1.0 if unit.split("/")[0] == "bleu" else one_bleu
        if one_bleu is None or not question.statistics <= {"difference", "interaction", "within", "draws"}:
            return []
        own = [one.bleu for one in claim.effects if not one.parts or question.part in one.parts]
        return [(effect, effect * one_bleu) for effect in own]
