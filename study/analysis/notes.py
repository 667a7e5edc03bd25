"""Notes under a comparison table: the rules, the numbers of runs, and everything that is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from study import metrics
from study.analysis import prunings, wording
from study.analysis.inference import FEW, FEWEST, Facet, Test

if TYPE_CHECKING:
    import pandas as pd

    from study.sweep.spec import Spec

RULES = {
    "best_valid_bleu": "the step with the best BLEU on validation",
    "best_valid_loss": "the step with the lowest loss on validation",
    "last": "the last step",
}
"""The field training.select, in words."""

MARKED = {"paired": "† paired t-test", "welch": "‡ Welch's t-test"}
"""Methods of a comparison table that have a mark, in words."""

LISTED = 6
"""So many failures or inapplicable cells are listed by name, the rest counted."""


def notes(spec: Spec, frame: pd.DataFrame, facets: list[Facet]) -> list[str]:
    """The notes of a table, in the order of reading."""
    compared = facets if prunings.compares(spec) else []
    tests = [c.test for facet in compared for c in facet.family.comparisons.values() if c.test]
    return [
        _scores(spec, frame),
        *([_differences(spec, tests)] if compared else ()),
        *_other_tests(compared),
        _of_pruning(spec, frame) if prunings.questions(spec) else _columns(frame),
        *_power(compared),
        *_absent(frame),
    ]


def _scores(spec: Spec, frame: pd.DataFrame) -> str:
    rules = [RULES.get(rule, rule) for rule in sorted(set(frame["rule"]) - {""})]
    few = f" n < {FEW} is a quick look: expect wide intervals." if FEWEST <= len(spec.seeds) < FEW else ""
    return (
        f"Scores: split {spec.metric[0]}, mean ± sd over runs; n = {len(spec.seeds)} declared per arm (seeds "
        f"{', '.join(map(str, spec.seeds))}). Tested: {', '.join(rules) or 'nothing yet'}.{few}"
    )


def _differences(spec: Spec, tests: Sequence[Test]) -> str:
    short = metrics.title("/".join(spec.metric), unit=False)
    said = [f"Δ: {short} minus the baseline's (first arm)"]
    if any(test.method == "few" for test in tests):
        said.append(f"Arms of fewer than {FEWEST} runs have no interval, p or bold, since so few show no spread")
    return f"{'. '.join(said)}."


def _other_tests(facets: list[Facet]) -> Iterator[str]:
    methods = {c.test.method for facet in facets for c in facet.family.comparisons.values() if c.test}
    marks = [words for method, words in MARKED.items() if method in methods]
    if marks:
        yield f"{', '.join(marks)}: docs/statistics.md#marks."
    if paired := [_beside(facet, arm, model) for facet, arm, model in _models(facets)]:
        yield f"† One model of all arms gives {'; '.join(paired)}."


def _models(facets: list[Facet]) -> Iterator[tuple[Facet, str, Test]]:
    for facet in facets:
        for arm, comparison in facet.family.comparisons.items():
            if comparison.model:
                yield facet, arm, comparison.model


def _beside(facet: Facet, arm: str, model: Test) -> str:
    digits = metrics.decimals(facet.metric)
    where = ", ".join(wording.arm_words(label) for label in (facet.name, arm) if label)
    bounds = wording.interval(model.low, model.high, digits)
    p = f", unadjusted p {wording.p_value(model.p)}"
    return f"{wording.number(model.difference, digits, True)} {bounds}{p} ({where})"


def _columns(frame: pd.DataFrame) -> str:
    devices = sorted(set(frame["device"]) - {""})
    trained = f"Trained on {' and '.join(devices)}. " if devices else ""
    return f"{trained}docs/statistics.md#comparison-tables explains the columns."


def _of_pruning(spec: Spec, frame: pd.DataFrame) -> str:
    """Explain the columns of a pruned model."""
    asked, shares = prunings.questions(spec), ", ".join(f"{share:g}" for share in prunings.fractions(spec))
    parts = [f"BLEU and exact match are of the model without the first {shares} of the heads in the order."] * bool(
        shares
    )
    if "curve" in asked:
        parts.append(
            f"Of the curve in steps of a tenth: {metrics.METRICS['free'].title}, the largest share up to which no step "
            f"costs more than the margin (also as a number of heads); {metrics.METRICS['area'].title}, over all steps."
        )
    if set(asked) - {"curve", "retrain"}:
        parts.append("Where heads were masked alone, BLEU, exact match and NLL are the whole model's.")
    if "best_head" in asked:
        parts.append("One head a layer: the layer that suffers most when the best of its heads has to serve alone.")
    devices = sorted(set(frame["device"]) - {""})
    return " ".join([*parts, f"On {' and '.join(devices)}."] if devices else parts)


def _power(facets: list[Facet]) -> Iterator[str]:
    for facet in facets:
        known = [c.detectable for c in facet.family.comparisons.values() if c.detectable is not None]
        parts = []
        if facet.family.correlation is not None:
            parts.append(f"same-seed correlation {wording.number(facet.family.correlation, 2)}")
        if known:
            digits = metrics.decimals(facet.metric)
            ends = dict.fromkeys(wording.number(end, digits) for end in (min(known), max(known)))
            parts.append(f"smallest difference that these runs could show {' to '.join(ends)} (power .80)")
        if parts:
            text = "; ".join(parts)
            yield f"{wording.arm_words(facet.name)}: {text}." if facet.name else f"{text[0].upper()}{text[1:]}."


def _absent(frame: pd.DataFrame) -> Iterator[str]:
    """Failures and divergences with their error, cells that are no experiments with the reason."""
    for state, head in (("failed", "Failed"), ("diverged", "Diverged"), ("inapplicable", "Inapplicable, not run")):
        rows = frame[frame["state"] == state]
        if not len(rows):
            continue
        if state == "inapplicable":
            said = [f"{arm} ({note})" for arm, note in zip(rows["arm"], rows["note"], strict=True)]
        else:
            said = [
                f"{name} ({note or 'no reason given'})" for name, note in zip(rows["id"], rows["note"], strict=True)
            ]
        listed = list(dict.fromkeys(said))
        more = f"; and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
        yield f"{head}: {'; '.join(listed[:LISTED])}{more}."
