"""Asking the records: every claim checked against the sweeps, then answered from what has run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from study.analysis import measures
from study.analysis.declared import Declared, Library, check_fields, one
from study.analysis.inference import contrasted
from study.analysis.measures import Measure
from study.claims import costs, verdicts
from study.claims import schema as entries
from study.claims.correlations import correlations
from study.claims.costs import Costs
from study.claims.kinds import AnyContrast, Band, Correlation, Costly, Difference, Interaction, Within
from study.claims.schema import Claim, Gap, Question
from study.claims.verdicts import NOT_RUN, Verdict
from study.claims.weighing import Scene, chosen_arms, joined, weigh
from study.errors import InputError
from study.sweep import fields


@dataclass(frozen=True)
class Asked:
    """The claims of one file, and where its sweeps are."""

    path: Path
    claims: tuple[Claim, ...]


@dataclass
class Asker:
    """Every claim of ours, and those of a user's file beside them."""

    library: Library
    files: Sequence[Asked]
    gap: Gap | None
    _margins: dict[tuple[str, str, str], float | None] = field(default_factory=dict)

    @property
    def claims(self) -> list[Claim]:
        """All of them, in the order of the files."""
        return [claim for asked in self.files for claim in asked.claims]

    def verdicts(self, wanted: Iterable[str] = ()) -> list[Verdict]:
        """The verdicts of the claims wanted (by id or slug; all, if none is named), each claim checked first.

        Raises:
            InputError: a claim that is not there, one that names what no sweep has, or a record that can't be used.
        """
        names = set(wanted)
        if unknown := names - {name for claim in self.claims for name in (str(claim.id), claim.slug)}:
            there = ", ".join(str(claim.id) for claim in self.claims)
            raise InputError(f"there is no claim {min(unknown)}; there are {there}")
        found = []
        for asked in self.files:
            for claim in asked.claims:
                self.check(asked, claim)
                if not names or names & {str(claim.id), claim.slug}:
                    found += list(self._answers(asked, claim))
        return found

    def check(self, asked: Asked, claim: Claim) -> None:
        """Refuse a claim that names a sweep, arm, field, value or metric that is not there.

        Raises:
            InputError: with the file, the claim and the field.
        """
        for number, question in enumerate(claim.questions):
            where = f"{asked.path}: claim {claim.id}.questions.{number}"
            for pair in question.asked:
                _at(f"{where}.asked", fields.check, "data.name", pair.split("/")[0])
                _at(f"{where}.asked", fields.check, "model.family", pair.split("/")[1])
            if question.benchmark is not None:
                _at(where, costs.check, question, self.costs)
            if question.sweep is None:
                continue
            for pair in question.asked:
                self._check_pair(asked, claim, question, pair, where)

    def _check_pair(self, asked: Asked, claim: Claim, question: Question, pair: str, where: str) -> None:
        scene = _at(f"{where}.sweep", self._scene, asked, question, pair)
        if not scene.arms:
            raise InputError(f"{where}.asked: sweep {question.sweep} has no runs in {pair}")
        corpus, family = pair.split("/")
        splits = _splits(scene)
        _at(f"{where}.metric", measures.check, question.metric, splits)
        _at(f"{where}.where", check_fields, question.where)
        seeds: dict[tuple[int, ...], Declared] = {}
        for number, contrast in enumerate(question.contrasts):
            place = f"{where}.contrasts.{number}"
            directed = contrast.expect == "different" or verdicts.direction(contrast, question.metric) != 0
            if not directed and claim.kind(question) != "equivalence":
                raise InputError(
                    f"{place}.expect: {question.metric} is neither better nor worse; say higher, lower or different"
                )
            _at(place, _check_contrast, contrast, question, splits)
            seeds |= {tuple(sorted(arm.cells)): arm for arm in _at(place, chosen_arms, contrast, scene)}
        if len(seeds) > 1:
            (a, first), (b, second) = list(seeds.items())[:2]
            raise InputError(
                f"{where}: {first.label} has seeds {list(a)}, and {second.label} {list(b)}; "
                "a comparison needs the same list for every arm"
            )
        if question.margin_in(corpus) == "gap":
            _at(f"{where}.margin", self._gap_arms, corpus, family)

    def _scene(self, asked: Asked, question: Question, pair: str) -> Scene:
        assert question.sweep is not None
        beside = asked.path.parent
        spec = self.library.spec(question.sweep, beside)
        corpus, family = pair.split("/")
        arms = {arm.key: arm for arm in self.library.arms(spec, corpus, family)}
        for name in question.with_sweeps:
            arms |= {arm.key: arm for arm in self.library.arms(self.library.spec(name, beside), corpus, family)}
        return Scene(self.library, question, tuple(arms.values()))

    def _answers(self, asked: Asked, claim: Claim) -> Iterator[Verdict]:
        for question in claim.questions:
            if question.awaits is not None:
                for pair in question.asked or ("/",):
                    corpus, family = pair.split("/")
                    yield Verdict(claim, question, corpus, family, NOT_RUN, note=f"awaits {question.awaits}")
                continue
            if question.benchmark is not None:
                yield self._cost(claim, question)
            for pair in question.asked:
                yield self._answer(claim, question, pair, self._scene(asked, question, pair))

    @cached_property
    def costs(self) -> Costs | None:
        """The measured times, if there are any."""
        return costs.read(self.library.benchmarks)

    def _cost(self, claim: Claim, question: Question) -> Verdict:
        if self.costs is None:
            return Verdict(claim, question, costs.WHERE, "", NOT_RUN, note=costs.AWAITS)
        findings = costs.findings(kind := claim.kind(question), question, self.costs)
        word = verdicts.combined(question, kind, [found.word for found in findings])
        return Verdict(claim, question, costs.WHERE, self.costs.machine, word, tuple(findings))

    def _answer(self, claim: Claim, question: Question, pair: str, scene: Scene) -> Verdict:
        corpus, family = pair.split("/")
        kind = claim.kind(question)
        margin, unknown = self._margin(question, corpus, family)
        costly = any(isinstance(contrast, Costly) for contrast in question.contrasts)
        if any(isinstance(contrast, Correlation) for contrast in question.contrasts):
            findings = correlations(kind, question, scene, margin)
        else:
            weighed = [weigh(contrast, replace(scene, margin=margin)) for contrast in question.contrasts]
            reference = self.library.measured(scene.arms[0], None)
            compared = contrasted(joined(weighed), [one.weights for one in weighed], reference)
            findings = [
                verdicts.finding("shape" if unknown else kind, question, *both, None if costly else margin)
                for both in zip(question.contrasts, weighed, compared, strict=True)
            ]
        if unknown and (kind == "equivalence" or costly):
            findings = [replace(found, word=NOT_RUN) for found in findings]
        word = verdicts.combined(question, kind, [found.word for found in findings])
        if question.descriptive and word != NOT_RUN:
            word = verdicts.DESCRIPTIVE
            findings = [replace(found, word=word) for found in findings]
        tested = any(found.comparison.test for found in findings)
        return Verdict(claim, question, corpus, family, word, tuple(findings), unknown if tested else "")

    def _margin(self, question: Question, corpus: str, family: str) -> tuple[float | None, str]:
        """The margin, and why it is not known if it should be."""
        rule = question.margin_in(corpus)
        if rule != "gap":
            return rule, ""
        place = (corpus, family, measures.in_units_of(question.metric))
        if place not in self._margins:
            self._margins[place] = self._gap_margin(*place)
        margin = self._margins[place]
        assert self.gap is not None
        return margin, "" if margin is not None else f"the margin needs the sweep {self.gap.sweep}"

    def _gap_arms(self, corpus: str, family: str) -> list[Declared]:
        if self.gap is None:
            raise InputError("gap is not defined; give the file a `gap:`, or a number here")
        arms = self.library.arms(self.library.spec(self.gap.sweep, Path()), corpus, family)
        if not arms:
            raise InputError(f"gap: sweep {self.gap.sweep} has no runs in {corpus}/{family}; give a number")
        shared = self.gap.where.get(family, {})
        return [one(arms, shared | side) for side in (self.gap.arm, self.gap.baseline)]

    def _gap_margin(self, corpus: str, family: str, metric: str) -> float | None:
        assert self.gap is not None
        arms = [self.library.measured(arm, Measure(metric)) for arm in self._gap_arms(corpus, family)]
        if any(arm.holes or not arm.values for arm in arms):
            return None
        top, bottom = (sum(arm.values.values()) / len(arm.values) for arm in arms)
        return self.gap.share * abs(top - bottom)


def asker(library: Library, beside: Path | None = None) -> Asker:
    """The claims of this study, and those of a file beside them.

    Raises:
        InputError: a file that can't be read, or an id that is taken.
    """
    ours = entries.read(entries.HERE)
    files = [Asked(entries.HERE, ours.claims)]
    gap = ours.gap
    if beside is not None:
        theirs = entries.read(beside)
        taken = {name for claim in ours.claims for name in (str(claim.id), claim.slug)}
        for claim in theirs.claims:
            if same := taken & {str(claim.id), claim.slug}:
                raise InputError(f"{beside}: claim {claim.id}: {min(same)} is a claim of this study; take another name")
        files.append(Asked(beside, theirs.claims))
        gap = theirs.gap or gap
    return Asker(library, files, gap)


def _at(where: str, call: Any, *given: Any) -> Any:
    """What a call returns; its complaint with the place in the file in front."""
    try:
        return call(*given)
    except InputError as problem:
        raise InputError(f"{where}: {problem}") from None


def _splits(scene: Scene) -> tuple[str, ...]:
    """The scored splits of the corpus that a question is asked of."""
    cell = next(iter(scene.arms[0].cells.values()))
    assert cell.experiment is not None
    return cell.experiment.data.scored


def _check_contrast(contrast: AnyContrast, question: Question, splits: tuple[str, ...]) -> None:
    """Fields, values and metrics that a contrast names."""
    if isinstance(contrast, Correlation | Within):
        for metric in contrast.named:
            measures.check(metric, splits)
        check_fields(contrast.arm if isinstance(contrast, Within) else {})
        return
    if isinstance(contrast, Costly):
        measures.check(f"{question.metric}/without cross 0 0", splits)
        check_fields(contrast.arm)
        return
    sides = [contrast.arm, contrast.baseline or {}]
    if isinstance(contrast, Interaction):
        sides += [contrast.minus.arm, contrast.minus.baseline]
    for side in sides:
        check_fields(side)
    if isinstance(contrast, Difference) and contrast.best_over:
        measures.check(contrast.select, splits)
        if not contrast.select.startswith("valid/"):
            raise InputError(f"select: {contrast.select} is not of validation; name one such as valid/nll")
    if isinstance(contrast, Band) and measures.better(question.metric) >= 0:
        raise InputError(f"a band is of a loss, and metric is {question.metric}; use valid/nll")
