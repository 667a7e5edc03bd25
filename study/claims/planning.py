"""The spread of scores over seeds, from which seeds are planned, and first answers of a sweep to its claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from study.analysis.measures import Measure
from study.analysis.power import Spread, spread
from study.analysis.runs import Runs
from study.claims import page, predictions, schema
from study.claims.evaluate import evaluate
from study.claims.verdicts import by_claim
from study.folders import published, sweeps_folder
from study.sweep.spec import Spec

Spreads = dict[str, tuple[Spread, str]]
"""Corpus/family ↦ the spread of scores over seeds, and its source in words."""


def sources(out: Path) -> list[Runs]:
    """Return the runs of a folder and the published ones, each if it is there."""
    return [Runs(folder) for folder in (out, published()) if folder.is_dir()]


def spreads(spec: Spec, places: Iterable[Runs], metric: str, pairs: Iterable[str]) -> Spreads:
    """Return the spread of validation scores in each corpus and family that has runs of two seeds.

    They are the sweep's own runs, or the published ones if there are none. No test score is read.

    Args:
        spec: the sweep.
        places: runs of the user, then published ones.
        metric: a score of any split, such as `test/nll`; its values on validation are read.
        pairs: corpora and families.

    Raises:
        InputError: a record cannot be used, or lacks the score.
    """
    metric = f"valid/{metric.partition('/')[2]}"
    spreads = Spreads()
    for runs in places:
        if spreads:
            break
        for pair in pairs:
            corpus, _, family = pair.partition("/")
            scores = []
            for arm in runs.named_arms([str(spec.path)], corpus, family):
                values = runs.values(arm, Measure(metric))
                if values.values and not values.diverged:
                    scores.append(values.values)
            seeds = sorted(set.intersection(*map(set, scores))) if scores else []
            if len(seeds) < 2:
                continue
            pooled = spread([[arm_scores[seed] for seed in seeds] for arm_scores in scores])
            if pooled.sd:
                source = f"{metric} on {pair}: {len(scores)} arms with {len(seeds)} seeds in {runs.folder}"
                spreads[pair] = pooled, source
    return spreads


def answers(spec: Spec, out: Path) -> Iterator[str]:
    """Yield the answers of a sweep's runs to the claims of this study that ask it: a line for each question."""
    rows = evaluate([_asking(spec)], Runs(out, sweeps_folder()))
    for claim, questions in by_claim(rows).items():
        yield f"claim {claim}: {questions[0].claim.statement}"
        for question in questions:
            yield f"  {page.answer(question)}"


def blind(spec: Spec) -> bool:
    """Return True if no test score of a sweep is to be seen yet: its file, a question or a prediction says so."""
    if spec.blind or any(told.blind and spec.name == told.sweeps[1] for told in predictions.read().values()):
        return True
    return any(question.blind for claim in _asking(spec).claims for question in claim.questions)


def _asking(spec: Spec) -> schema.ClaimFile:
    """Return the claims of this study that ask a sweep of this study, without their questions about other sweeps."""
    file = schema.read(schema.HERE)
    claims = []
    if spec.path.resolve().parent == sweeps_folder().resolve():
        for claim in file.claims:
            questions = tuple(question for question in claim.questions if question.sweep == spec.name)
            if questions:
                claims.append(claim.model_copy(update={"questions": questions}))
    return file.model_copy(update={"claims": tuple(claims)})
