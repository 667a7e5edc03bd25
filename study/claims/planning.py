"""The spread of scores over seeds, from which seeds are planned, and first answers of a sweep to its claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from study.analysis.measures import Measure
from study.analysis.power import Spread, spread
from study.analysis.runs import Runs
from study.claims import page, predictions, schema
from study.claims.evaluate import evaluate
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
    metric, found = f"valid/{metric.partition('/')[2]}", Spreads()
    for runs in places:
        if found:
            break
        for pair in pairs:
            corpus, _, family = pair.partition("/")
            arms = [runs.values(arm, Measure(metric)) for arm in runs.named_arms([str(spec.path)], corpus, family)]
            values = [arm.values for arm in arms if not arm.diverged]
            values = [some for some in values if some]
            seeds = sorted(set.intersection(*map(set, values))) if values else []
            if len(seeds) > 1 and (known := spread([[some[seed] for seed in seeds] for some in values])).sd:
                found[pair] = known, f"{metric} on {pair}: {len(values)} arms with {len(seeds)} seeds in {runs.folder}"
    return found


def answers(spec: Spec, out: Path) -> Iterator[str]:
    """Yield the answers of a sweep's runs to the claims of this study that ask it: a line for each question."""
    runs = Runs(out, sweeps_folder())
    for file, claim in _asked(spec):
        own = claim.model_copy(update={"questions": tuple(one for one in claim.questions if one.sweep == spec.name)})
        rows = evaluate([file.model_copy(update={"claims": (own,)})], runs)
        yield f"claim {claim.id}: {claim.statement}"
        yield from (f"  {page.answer(row)}" for row in rows if row.decides)


def blind(spec: Spec) -> bool:
    """Return True if no test score of a sweep is to be seen yet: its file, a question or a prediction says so."""
    questions = (question for _, claim in _asked(spec) for question in claim.questions if question.sweep == spec.name)
    predicted = predictions.read()
    return spec.blind or any(each.blind for each in questions) or (predicted.blind and spec.name == predicted.sweeps[1])


def _asked(spec: Spec) -> list[tuple[schema.ClaimFile, schema.Claim]]:
    """Return the claims of this study that ask a sweep of this study."""
    if spec.path.resolve().parent != sweeps_folder().resolve():
        return []
    file = schema.read(schema.HERE)
    return [(file, claim) for claim in file.claims if any(one.sweep == spec.name for one in claim.questions)]
