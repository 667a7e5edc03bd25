"""Plans: how many seeds a sweep needs for a margin, from the validation scores of finished runs. No test score is read.

The standard deviation over seeds is that of the sweep's own runs, or of the published ones if there are too few.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from study import metrics
from study.analysis.measures import Measure
from study.analysis.power import AIMS, LEVEL, POWER, Spread, effect_size, power, seeds_for, spread
from study.analysis.runs import Overrides, Runs, matching
from study.claims import schema
from study.errors import InputError
from study.run_names import published
from study.sweep.spec import Spec

Spreads = dict[str, tuple[Spread, str]]
"""Corpus/family ↦ the spread of scores over seeds, and its source in words."""


def spreads(spec: Spec, out: Path, metric: str, pairs: Iterable[str], sides: Sequence[Overrides] = ({},)) -> Spreads:
    """Return the spread of scores in each corpus and family that has runs of two seeds with different scores.

    Args:
        spec: the sweep.
        out: folder of the user's runs.
        metric: a score of any split, such as `test/nll`; its values on validation are read.
        pairs: corpora and families.
        sides: arms that count have the values of one of these; by default all arms count.

    Raises:
        InputError: a record cannot be used, or lacks the score.
    """
    metric, found = f"valid/{metric.partition('/')[2]}", Spreads()
    for folder in (folder for folder in (out, published()) if folder.is_dir() and not found):
        runs = Runs(folder)
        for pair in pairs:
            corpus, _, family = pair.partition("/")
            arms = runs.named_arms([str(spec.path)], corpus, family)
            chosen = [one for one in arms if any(matching([one], side) for side in sides)]
            scored = [runs.values(one, Measure(metric)) for one in chosen]
            values = [arm.values for arm in scored if arm.values and not arm.diverged]
            seeds = sorted(set.intersection(*map(set, values))) if values else []
            if len(seeds) > 1 and (known := spread([[some[seed] for seed in seeds] for some in values])).sd:
                found[pair] = known, f"{metric} on {pair}: {len(values)} arms with {len(seeds)} seeds in {folder}"
    return found


def claim_lines(spec: Spec, out: Path) -> list[str]:
    """Return two lines about the claim of the study that needs most seeds of this sweep; none without such a claim.

    Claims about differences of two arms with a margin are planned, from runs that there are.
    """
    text = schema.HERE.read_text(encoding="utf-8")
    if not re.search(rf"^ *(- )?sweep: {re.escape(spec.name)}$", text, re.MULTILINE):
        return []
    file, found, n = schema.read(schema.HERE), [], len(spec.seeds)
    asked = [(claim.id, one) for claim in file.claims for one in claim.questions if one.sweep == spec.name]
    for name, question in asked:
        contrasts, kind = [one for one in question.contrasts if one.statistic == "difference"], question.type
        sides = [question.where | side for one in contrasts for side in (one.arm, one.baseline or {})]
        if not contrasts or kind not in AIMS or question.by_length:
            continue
        try:
            known = spreads(spec, out, question.metric, question.asked, sides)
        except InputError:  # validation does not have the score
            continue
        for pair, (one, _) in known.items():
            if margin := _margin(file, question, pair):
                effect, level = effect_size(margin, one.sd), LEVEL / len(contrasts)
                told = f"claim {name}: {kind} on {pair}, margin {margin:.3g} in {metrics.title(question.metric)}"
                found.append((power(kind, effect, n, level), effect, level, kind, told))
    if not found:
        return []
    share, effect, level, kind, told = min(found)
    need = seeds_for(kind, effect, level=level) or "over 1000"
    return [told, f"  {n} seeds have power {share:.2f}, {POWER:.2f} needs {need}: see `study plan --help`"]


def _margin(file: schema.ClaimFile, question: schema.Question, pair: str) -> float | None:
    """Return the margin of a question; None for `gap`, which is known after the runs."""
    if not isinstance(question.margin, str):
        return question.margin
    times, _, name = question.margin.partition(" ")
    worth = file.margins[name].values.get(pair, {}).get(metrics.unit_of(question.metric)) if name else None
    return worth and float(times) * worth
