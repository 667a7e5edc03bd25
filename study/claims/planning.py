"""Power of the seeds of a sweep for the claims that ask it, before it runs, and first answers after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from study import metrics
from study.analysis.measures import Measure
from study.analysis.power import LEVEL, MOST, POWER, Spread, effect_size, power, seeds_for, spread
from study.analysis.runs import Overrides, Runs, matching
from study.claims import page, predictions, schema
from study.claims.evaluate import evaluate
from study.errors import InputError
from study.run_names import published, sweeps_folder
from study.sweep.spec import Spec

KINDS = {"superiority": "superiority", "equivalence": "equivalence", "noninferiority": "non-inferiority"}
"""Type of a question ↦ what its power is of."""
Spreads = dict[str, tuple[Spread, str]]
"""Corpus/family ↦ the spread of scores over seeds, and its source in words."""


def sources(out: Path) -> list[Runs]:
    """Return the runs of a folder and the published ones, each if it is there."""
    return [Runs(folder) for folder in (out, published()) if folder.is_dir()]


def spreads(
    spec: Spec, places: Iterable[Runs], metric: str, pairs: Iterable[str], sides: Sequence[Overrides] = ({},)
) -> Spreads:
    """Return the spread of validation scores in each corpus and family that has runs of two seeds.

    They are the sweep's own runs, or the published ones if there are none. No test score is read.

    Args:
        spec: the sweep.
        places: runs of the user, then published ones.
        metric: a score of any split, such as `test/nll`; its values on validation are read.
        pairs: corpora and families.
        sides: arms that count have the values of one of these; by default all arms count.

    Raises:
        InputError: a record cannot be used, or lacks the score.
    """
    metric, found = f"valid/{metric.partition('/')[2]}", Spreads()
    for runs in places:
        if found:
            break
        for pair in pairs:
            corpus, _, family = pair.partition("/")
            arms = runs.named_arms([str(spec.path)], corpus, family)
            chosen = [one for one in arms if any(matching([one], side) for side in sides)]
            values = [arm.values for arm in (runs.values(one, Measure(metric)) for one in chosen) if not arm.diverged]
            values = [some for some in values if some]
            seeds = sorted(set.intersection(*map(set, values))) if values else []
            if len(seeds) > 1 and (known := spread([[some[seed] for seed in seeds] for some in values])).sd:
                found[pair] = known, f"{metric} on {pair}: {len(values)} arms with {len(seeds)} seeds in {runs.folder}"
    return found


def power_lines(spec: Spec, out: Path) -> list[str]:
    """Return two lines on the question that needs most seeds of a sweep; none without a claim that asks it.

    Questions about differences of two arms with a margin are planned, from validation scores of runs that there are.
    """
    found, n, places = [], len(spec.seeds), sources(out)
    for file, claim in _asked(spec):
        for question in claim.questions:
            if question.sweep != spec.name or question.type not in KINDS or question.no_vote:
                continue
            contrasts = [one for one in question.contrasts if one.statistic == "difference"]
            sides = [question.where | side for one in contrasts for side in (one.arm, one.baseline)]
            try:
                known = spreads(spec, places, question.metric, question.asked, sides) if contrasts else {}
            except InputError:  # validation does not have the score
                continue
            for pair, (one, _) in known.items():
                if margin := schema.margin_of(question, question.metric, pair, file.margins):
                    kind, effect, level = KINDS[question.type], effect_size(margin, one.sd), LEVEL / len(contrasts)
                    told = f"{kind} on {pair}, margin {margin:.3g} in {metrics.title(question.metric)}"
                    need = seeds_for(kind, effect, level=level) or MOST + 1
                    found.append((need, power(kind, effect, n, level), f"claim {claim.id}: {told}"))
    if not found:
        return []
    need, share, told = max(found)
    most = f"over {MOST}" if need > MOST else need
    return [told, f"  {n} seeds have power {share:.2f}, {POWER:.2f} needs {most}: see `study plan --help`"]


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
