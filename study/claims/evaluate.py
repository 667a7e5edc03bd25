"""Evaluation of claims: every claim is checked against the sweeps, then its contrasts are tested on the runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from study import metrics
from study.analysis.measures import Measure
from study.analysis.runs import ArmRuns, Runs, check_fields, find_levels
from study.claims import costs, matrix, verdicts
from study.claims.contrasts import QuestionArms, check, direction, test
from study.claims.costs import Costs
from study.claims.noise import sentence_tests, with_tests
from study.claims.schema import Claim, ClaimFile, Gap, NamedMargin, Question
from study.claims.verdicts import PublishedEffect, Verdict
from study.errors import InputError

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
    evaluator = _Evaluator(runs, measured, gap, named)
    claims, names = [claim for file in files for claim in file.claims], set(wanted)
    if unknown := names - {name for claim in claims for name in (str(claim.id), claim.slug)}:
        ids = _listed([str(claim.id) for claim in claims])
        raise InputError(f"claim: expected {ids} or a name, got {min(unknown)}. `study claims` lists all.")
    found = []
    for file in files:
        chosen = [claim for claim in file.claims if not names or names & {str(claim.id), claim.slug}]
        own = [one for claim in chosen for one in verdicts.supersede(list(evaluator.verdicts(file, claim, by_score)))]
        found += own if names else verdicts.over_the_study(own)
    return with_tests(found, sentence_tests(runs.store))


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
    gaps: dict[tuple[str, ...], float | None] = field(default_factory=dict)

    def verdicts(self, file: ClaimFile, claim: Claim, by_score: bool) -> Iterator[Verdict]:
        """Yield one verdict for each question, corpus and family of a claim.

        Raises:
            InputError: a sweep, arm, field, value or metric is not there; with the file, the claim and the field.
        """
        for number, question in enumerate(claim.questions):
            where = f"{file.path}: claim {claim.id}.questions.{number}"
            if question.benchmark is not None:
                yield _at(where, costs.verdict, claim, question, self.measured)
            for pair in question.asked:
                self._check(file, question, pair, where)
                verdict = self._verdict(file, claim, question, pair)
                yield replace(verdict, by_score=self._by_score(file, claim, question, pair) if by_score else {})

    def _verdict(self, file: ClaimFile, claim: Claim, question: Question, pair: str) -> Verdict:
        margin, unknown = self._margin(question, pair)
        worth = self._worth_of_bleu(question, pair)
        effects = [
            PublishedEffect(one, one.bleu * worth, margin)
            for one in claim.effects
            if worth is not None and (not one.parts or question.part in one.parts)
        ]
        tested = test(question, self._arms(file, question, pair, margin))
        return verdicts.conclude(claim, question, pair, tested, margin, unknown, effects)

    def _worth_of_bleu(self, question: Question, pair: str) -> float | None:
        """The value of one BLEU in units of a question, by the named margin `bleu`; None without one."""
        if question.by_length or {one.statistic for one in question.contrasts} & UNITS_OF_THEIR_OWN:
            return None
        unit = metrics.unit_of(question.metric)
        return 1.0 if unit.split("/")[0] == BLEU else self._worth(BLEU, pair).get(unit)

    def _worth(self, name: str, pair: str) -> Mapping[str, float]:
        """The values of a named margin in a corpus and family, by score; empty where it is none."""
        return self.named[name].values.get(pair, {}) if name in self.named else {}

    def _by_score(self, file: ClaimFile, claim: Claim, question: Question, pair: str) -> dict[str, Verdict | str]:
        """The verdict by each score of the matrix, or why there is none; empty for a question outside it."""
        found: dict[str, Verdict | str] = {}
        for score in matrix.SCORES if matrix.covers(question, pair) else ():
            other = matrix.with_score(question, score, self._worth(str(question.margin).partition(" ")[2], pair))
            try:
                found[score] = other if isinstance(other, str) else self._verdict(file, claim, other, pair)
            except InputError:  # the question has been checked, so its records lack the score
                found[score] = matrix.NOT_SCORED
        return found

    def _check(self, file: ClaimFile, question: Question, pair: str, where: str) -> None:
        _at(f"{where}.asked", check_fields, dict(zip(("data.name", "model.family"), pair.split("/"), strict=True)))
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
            both = [f"{list(given)} for {arm.label}" for given, arm in seeds.items()]
            raise InputError(f"{where}: expected the same seeds for every arm, got {' and '.join(both[:2])}.")
        _at(f"{where}.margin", self._margin, question, pair)

    def _arms(self, file: ClaimFile, question: Question, pair: str, margin: float | None = None) -> QuestionArms:
        """The arms of a question's sweeps in one corpus and family, each once."""
        sweeps = [name for name in (question.sweep, *question.with_sweeps) if name]
        corpus, _, family = pair.partition("/")
        arms = self.runs.named_arms(sweeps, corpus, family, file.path.parent)
        measure = Measure(question.metric, question.by_length, question.by_sentences)
        return QuestionArms(self.runs, measure, question.where, arms, margin)

    def _margin(self, question: Question, pair: str) -> tuple[float | None, str]:
        """The margin, and why it is not known if it should be."""
        if not isinstance(question.margin, str):
            return question.margin, ""
        unit, (times, _, name) = metrics.unit_of(question.metric), question.margin.partition(" ")
        if name:
            if name not in self.named:
                known = ", ".join(["gap", *self.named])
                raise InputError(
                    f"expected a number or a multiple of a margin of the file ({known}), got {question.margin}."
                )
            if unit not in (worth := self._worth(name, pair)):
                raise InputError(f"margin {name} has no value for {unit} in {pair}. Add it to `margins:`.")
            return float(times) * worth[unit], ""
        if self.gap is None:
            raise InputError(
                "expected a number, got gap, which the file does not define. Add `gap:` to it, or give a number."
            )
        place = (pair, question.metric.partition("/")[0], unit)
        if place not in self.gaps:
            self.gaps[place] = self._gap(self.gap, *place)
        return self.gaps[place], "" if self.gaps[place] else f"the margin needs the runs of sweep {self.gap.sweep}"

    def _gap(self, gap: Gap, pair: str, split: str, unit: str) -> float | None:
        """The margin `gap` in a score; None without its runs."""
        corpus, _, family = pair.partition("/")
        arms = self.runs.named_arms([gap.sweep], corpus, family)
        if not arms:
            raise InputError(f"expected a number in {pair}, got gap, and sweep {gap.sweep} has no such runs.")
        shared, measure = gap.where.get(family, {}), Measure(f"{split}/{unit}")
        top, bottom = (
            self.runs.values(find_levels(arms, shared | side)[0][1], measure) for side in (gap.arm, gap.baseline)
        )
        whole = not (top.holes or bottom.holes) and top.mean is not None and bottom.mean is not None
        return gap.share * abs((top.mean or 0.0) - (bottom.mean or 0.0)) if whole else None


def _at(where: str, call: Any, *given: Any) -> Any:
    """The result of a call; its complaint with the place in the file in front."""
    try:
        return call(*given)
    except InputError as problem:
        raise InputError(f"{where}: {problem}") from None
