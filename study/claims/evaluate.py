"""Evaluation of claims: every claim is checked against the sweeps, then its contrasts are tested on the runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from study import metrics
from study.analysis.measures import Measure
from study.analysis.runs import Runs, check_fields, find_levels
from study.claims import costs, matrix, verdicts
from study.claims.contrasts import QuestionArms, weigh
from study.claims.costs import Costs
from study.claims.noise import sentence_tests, with_tests
from study.claims.schema import Claim, ClaimFile, Gap, NamedMargin, Question
from study.claims.verdicts import Verdict
from study.errors import InputError

BLEU = "bleu"
"""Named margin with the value of one BLEU in each score."""


def evaluate(
    files: Sequence[ClaimFile],
    runs: Runs,
    measured: Costs | None = None,
    wanted: Iterable[str] = (),
    by_score: bool = False,
) -> list[Verdict]:
    """Return the verdicts of the claims wanted (by id or slug; all, if none is named), each checked and computed.

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
    named = {name: margin for file in files for name, margin in file.margins.items()}
    claims, names, found = [claim for file in files for claim in file.claims], set(wanted), list[Verdict]()
    if unknown := names - {name for claim in claims for name in claim.names}:
        ids = _listed([str(claim.id) for claim in claims])
        raise InputError(f"claim: expected {ids} or a name, got {min(unknown)}. `study claims` lists all.")
    for file in files:
        evaluator, own = _Evaluator(runs, measured, gap, named, file, by_score), list[Verdict]()
        for claim in file.claims:
            if not names or names & claim.names:
                own += verdicts.supersede(list(evaluator.verdicts(claim)))
        found += own if names else verdicts.over_the_study(own)
    return with_tests(found, sentence_tests(runs.store))


def _listed(ids: Sequence[str]) -> str:
    """Return ids with the whole numbers that follow one another as a range: `1–29, mine`."""
    numbers = [name for name in ids if name.isdigit()]
    follow = numbers == [str(number) for number in range(1, len(numbers) + 1)]
    short = [f"1–{len(numbers)}"] if follow and len(numbers) > 1 else numbers
    return ", ".join([*short, *(name for name in ids if name not in numbers)])


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Begin a complaint with its place in the file."""
    try:
        yield
    except InputError as problem:
        raise InputError(f"{where}: {problem}") from None


@dataclass
class _Evaluator:
    runs: Runs
    measured: Costs | None
    gap: Gap | None
    named: Mapping[str, NamedMargin]
    file: ClaimFile
    by_score: bool
    gaps: dict[tuple[str, str], float | None] = field(default_factory=dict)

    def verdicts(self, claim: Claim) -> Iterator[Verdict]:
        """Yield one verdict for each question, corpus and family of a claim.

        Raises:
            InputError: a sweep, arm, field, value or metric is not there; with the file, the claim and the field.
        """
        for number, question in enumerate(claim.questions):
            where = f"{self.file.path}: claim {claim.id}.questions.{number}"
            if question.benchmark is not None:
                yield costs.verdict(claim, question, self.measured, where)
            for pair in question.asked:
                verdict = self._verdict(claim, question, pair, where)
                yield replace(verdict, by_score=self._by_score(verdict, pair) if self.by_score else {})

    def _verdict(self, claim: Claim, question: Question, pair: str, where: str) -> Verdict:
        corpus, _, family = pair.partition("/")
        sweeps = [name for name in (question.sweep, *question.with_sweeps) if name]
        with _at(f"{where}.asked"):
            check_fields({"data.name": corpus, "model.family": family})
        with _at(f"{where}.sweep"):
            arms = self.runs.named_arms(sweeps, corpus, family, self.file.path.parent)
        if not arms:
            raise InputError(f"{where}.asked: expected a corpus/family of sweep {question.sweep}, got {pair}.")
        with _at(f"{where}.metric"):
            metrics.check_claimed(question.metric, arms[0].corpus)
        with _at(f"{where}.where"):
            check_fields(question.where)
        with _at(f"{where}.margin"):
            margin, unknown = self._margin(question, pair)
        measure = Measure(question.metric, question.by_length, question.by_sentences)
        among, weighted = QuestionArms(self.runs, measure, question.where, arms, margin), []
        for place, contrast in enumerate(question.contrasts):
            at = f"{where}.contrasts.{place}"
            if (
                not contrast.direction(question.metric)
                and contrast.expect != "different"
                and question.type != "equivalence"
            ):
                got = f"{question.metric}, which has no better, got {contrast.expect}"
                raise InputError(f"{at}.expect: expected higher, lower or different with {got}.")
            with _at(at):
                for name in contrast.named:
                    metrics.check_claimed(name, arms[0].corpus)
                for _, side in contrast.sides:
                    check_fields(side)
                weighted.append(weigh(contrast, among))
        worth = self._worth_of_bleu(question, pair)
        own = [one for one in claim.effects if worth is not None and (not one.parts or question.part in one.parts)]
        effects = [(one.bleu, one.bleu * (worth or 0.0)) for one in own]
        return verdicts.conclude(claim, question, (corpus, family), weighted, margin, unknown, effects)

    def _by_score(self, verdict: Verdict, pair: str) -> dict[str, Verdict | str]:
        """The verdict by each score of the matrix, or why there is none; empty for a question outside it."""
        found, question = dict[str, Verdict | str](), verdict.question
        for score in matrix.SCORES if matrix.covers(question, pair) else ():
            other = matrix.with_score(question, score, self._worth(str(question.margin).partition(" ")[2], pair))
            try:
                found[score] = other if isinstance(other, str) else self._verdict(verdict.claim, other, pair, "")
            except InputError:  # the question has been checked, so its records lack the score
                found[score] = matrix.NOT_SCORED
        return found

    def _worth(self, name: str, pair: str) -> Mapping[str, float]:
        """The values of a named margin in a corpus and family, by score; empty where it is none."""
        return self.named[name].values.get(pair, {}) if name in self.named else {}

    def _worth_of_bleu(self, question: Question, pair: str) -> float | None:
        """The value of one BLEU in units of a question, by the named margin `bleu`; None without one."""
        if question.by_length or not all(one.facts.in_score for one in question.contrasts):
            return None
        unit = metrics.unit_of(question.metric)
        return 1.0 if unit.split("/")[0] == BLEU else self._worth(BLEU, pair).get(unit)

    def _margin(self, question: Question, pair: str) -> tuple[float | None, str]:
        """The margin, and why it is not known if it should be."""
        if not isinstance(question.margin, str):
            return question.margin, ""
        unit, (times, _, name) = metrics.unit_of(question.metric), question.margin.partition(" ")
        if name:
            if name not in self.named:
                known = ", ".join(["gap", *self.named])
                got = f"a multiple of a margin of the file ({known}), got {question.margin}"
                raise InputError(f"expected a number or {got}.")
            if unit not in (worth := self._worth(name, pair)):
                raise InputError(f"margin {name} has no value for {unit} in {pair}. Add it to `margins:`.")
            return float(times) * worth[unit], ""
        if self.gap is None:
            raise InputError(
                "expected a number, got gap, which the file does not define. Add `gap:` to it, or give a number."
            )
        metric = f"{question.metric.partition('/')[0]}/{unit}"
        if (pair, metric) not in self.gaps:
            self.gaps[pair, metric] = self._gap(self.gap, pair, metric)
        found = self.gaps[pair, metric]
        return found, "" if found else f"the margin needs the runs of sweep {self.gap.sweep}"

    def _gap(self, gap: Gap, pair: str, metric: str) -> float | None:
        """The margin `gap` in a score; None without its runs."""
        corpus, _, family = pair.partition("/")
        arms, shared = self.runs.named_arms([gap.sweep], corpus, family), gap.where.get(family, {})
        if not arms:
            raise InputError(f"expected a number in {pair}, got gap, and sweep {gap.sweep} has no such runs.")
        sides = [find_levels(arms, shared | side)[0][1] for side in (gap.arm, gap.baseline)]
        top, bottom = (self.runs.values(side, Measure(metric)) for side in sides)
        if top.holes or bottom.holes or top.mean is None or bottom.mean is None:
            return None
        return gap.share * abs(top.mean - bottom.mean)
