"""Evaluation of claims: every claim is checked against the sweeps, then its contrasts are tested on the runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from study import metrics
from study.analysis.measures import Measure
from study.analysis.runs import Runs, check_fields, find_levels
from study.claims import costs, matrix
from study.claims.contrasts import QuestionArms, weigh
from study.claims.costs import Costs
from study.claims.noise import add_sentence_tests
from study.claims.schema import Claim, ClaimFile, Gap, Overrides, Question
from study.claims.verdicts import Finding, conclude, over_the_study, supersede
from study.errors import InputError


def evaluate(
    files: Sequence[ClaimFile],
    runs: Runs,
    measured: Costs | None = None,
    wanted: Iterable[str] = (),
    by_score: bool = False,
) -> list[Finding]:
    """Return a row for each contrast of the claims wanted (by id or slug; all, if none is named), checked and tested.

    p by Benjamini and Hochberg is over all contrasts of a file, so it is there only if no claim is named.

    Args:
        files: claims; `gap` and each named margin are the last file's that defines them.
        runs: sweeps and runs.
        measured: times of attention sites, for questions with a benchmark.
        wanted: ids or slugs.
        by_score: judge each question also by the other scores, see `matrix`.

    Raises:
        InputError: a claim that is not there, one that names what no sweep has, or a record that can't be used.
    """
    gap = next((file.gap for file in reversed(files) if file.gap), None)
    worth = {name: margin.values for file in files for name, margin in file.margins.items()}
    names, known = set(wanted), {name for file in files for claim in file.claims for name in claim.names}
    if unknown := names - known:
        raise InputError(f"claim: expected a number or name of a claim, got {min(unknown)}. `study claims` lists all.")
    found: list[Finding] = []
    for file in files:
        evaluator, rows = _Evaluator(runs, gap, worth, file.path), list[Finding]()
        for claim in file.claims:
            if not names or names & claim.names:
                own = evaluator.rows(claim, measured, by_score)
                supersede(own)
                rows += own
        if not names:
            over_the_study(rows)
        found += rows
    add_sentence_tests(found, runs.store)
    return found


@dataclass
class _Evaluator:
    runs: Runs
    gap: Gap | None
    worth: Mapping[str, Mapping[str, Mapping[str, float]]]
    path: Path

    def rows(self, claim: Claim, measured: Costs | None, by_score: bool) -> list[Finding]:
        """Return the rows of one claim.

        Raises:
            InputError: a sweep, arm, field, value or metric is not there; with the file, the claim and the field.
        """
        found: list[Finding] = []
        for number, question in enumerate(claim.questions):
            try:
                found += costs.rows(claim, question, measured) if question.benchmark else []
                for pair in question.asked:
                    rows = self._ask(claim, question, pair)
                    found += rows
                    for row in (row for row in rows if by_score and row.decides):
                        row.by_score = self._by_score(row, pair)
            except InputError as problem:
                raise InputError(f"{self.path}: claim {claim.id}.questions.{number}: {problem}") from None
        return found

    def _ask(self, claim: Claim, question: Question, pair: str) -> list[Finding]:
        """Return the rows of a question in one corpus and family."""
        corpus, _, family = pair.partition("/")
        sweeps = [name for name in (question.sweep, *question.with_sweeps) if name]
        place: Overrides = {"data.name": corpus, "model.family": family}
        for chosen in (place, question.where, *(side for one in question.contrasts for _, side in one.sides)):
            check_fields(chosen)
        arms = self.runs.named_arms(sweeps, corpus, family, self.path.parent)
        if not arms:
            raise InputError(f"asked: expected a corpus/family of sweep {question.sweep}, got {pair}.")
        for name in (question.metric, *(name for contrast in question.contrasts for name in contrast.named)):
            metrics.check_claimed(name, arms[0].corpus)
        margin, unknown = self._margin(question, pair)
        costing = (margin or 0.0) if "costly" in question.statistics else None
        measure = Measure(question.metric, question.by_length, question.by_sentences, costing)
        among, worth, rows = QuestionArms(self.runs, measure, question.where, arms), self._bleu(question, pair), []
        own = [one.bleu for one in claim.effects if not one.parts or question.part in one.parts]
        effects = [(bleu, bleu * worth) for bleu in own if worth is not None]
        for contrast in question.contrasts:
            directed = contrast.expect == "different" or contrast.direction(question.metric)
            if not directed and question.type != "equivalence":
                got = f"{question.metric}, which has no better, got {contrast.expect}"
                raise InputError(f"expect: expected higher, lower or different with {got}.")
            limit, weighted = None if costing is not None else margin, weigh(contrast, among)
            rows.append(Finding(claim, question, contrast, corpus, family, measure, weighted, limit, unknown, effects))
        conclude(rows)
        return rows

    def _by_score(self, row: Finding, pair: str) -> dict[str, Finding | str]:
        """Return the row that decides by each score, or why there is none; nothing outside the matrix."""
        found, question = dict[str, Finding | str](), row.question
        worth = self.worth.get(str(question.margin).partition(" ")[2], {}).get(pair, {})
        for score in matrix.SCORES if matrix.covers(question, pair) else ():
            other = matrix.with_score(question, score, worth)
            try:
                rows = [] if isinstance(other, str) else self._ask(row.claim, other, pair)
                found[score] = next((one for one in rows if one.decides), str(other))
            except InputError:  # the question has been checked, so its records lack the score
                found[score] = matrix.NOT_SCORED
        return found

    def _bleu(self, question: Question, pair: str) -> float | None:
        """The value of one BLEU in units of a question, by the named margin `bleu`; None without one."""
        if question.by_length or not question.statistics <= {"difference", "interaction", "within", "draws"}:
            return None
        unit = metrics.unit_of(question.metric)
        return 1.0 if unit.split("/")[0] == "bleu" else self.worth.get("bleu", {}).get(pair, {}).get(unit)

    def _margin(self, question: Question, pair: str) -> tuple[float | None, str]:
        """The margin, and why it is not known if it should be."""
        if not isinstance(question.margin, str):
            return question.margin, ""
        unit, (times, _, name) = metrics.unit_of(question.metric), question.margin.partition(" ")
        if name:
            if unit not in (worth := self.worth.get(name, {}).get(pair, {})):
                raise InputError(
                    f"margin: expected {name} with a value for {unit} in {pair}, got none. Add it to `margins:`."
                )
            return float(times) * worth[unit], ""
        if self.gap is None:
            raise InputError("margin: expected a number, got gap, which no file defines. Add `gap:`, or a number.")
        (corpus, _, family), gap = pair.partition("/"), self.gap
        arms, shared = self.runs.named_arms([gap.sweep], corpus, family), gap.where.get(family, {})
        if not arms:
            raise InputError(f"margin: expected a number in {pair}, got gap, and sweep {gap.sweep} has no such runs.")
        measure = Measure(f"{question.metric.partition('/')[0]}/{unit}")
        sides = [find_levels(arms, shared | side)[0][1] for side in (gap.arm, gap.baseline)]
        top, bottom = (self.runs.values(side, measure) for side in sides)
        if top.holes or bottom.holes or top.mean is None or bottom.mean is None:
            return None, f"the margin needs the runs of sweep {gap.sweep}"
        return gap.share * abs(top.mean - bottom.mean), ""
