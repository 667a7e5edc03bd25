"""Contrasts of claims: the declared arms that an entry names, with their weights, and the name of a contrast.

Some contrasts are of *synthetic arms*: per-seed values computed from several runs (the width of a band), or from
several scores of one run (one metric above another); or a value for each draw of the corpus.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from study.analysis import inference
from study.analysis.inference import Arm, SentenceNoise, Test
from study.analysis.labels import arm_words
from study.analysis.measures import Measure
from study.analysis.runs import ArmRuns, Runs, find_levels, matching
from study.claims.schema import Contrast, Overrides, Pair
from study.errors import InputError
from study.scores import metrics
from study.sweep.grid import text

RATE, DRAW = "training.learning_rate", "data.seed"
"""Fields over which a band is taken, and draws of the corpus."""


@dataclass(frozen=True)
class QuestionArms:
    """The arms of a question in one corpus and family.

    Attributes:
        runs: the runs.
        measure: the number that the question reads of a run.
        where: fields that all its arms share.
        arms: the arms of its sweeps.
    """

    runs: Runs
    measure: Measure
    where: Overrides
    arms: Sequence[ArmRuns]

    def levels(self, chosen: Overrides, *over: str) -> list[tuple[tuple[Any, ...], ArmRuns]]:
        """The arms with these values, by the values of the fields `over`."""
        return find_levels(self.arms, self.where | chosen, *over)

    def values(self, arm: ArmRuns, metric: str = "") -> Arm:
        """The values of an arm by seed, of the question's measure unless a metric is given."""
        return self.runs.values(arm, Measure(metric) if metric else self.measure)


@dataclass
class Weighted:
    """The arms of a contrast with their weights, ready to be tested.

    Attributes:
        parts: weights and arms; of a correlation without weights.
        declared: runs of an arm; arms of a correlation; draws of the corpus; processes.
        scores: arms whose means are scores; those with a weight below 0 are compared with.
        notes: notes on the choice of arms.
        pairs: both scores by seed, for every arm that takes part in a correlation.
    """

    parts: list[tuple[float, Arm]]
    declared: int
    scores: Sequence[tuple[float, Arm]] = ()
    notes: list[str] = field(default_factory=list)
    pairs: list[list[tuple[float, float]]] | None = None

    @property
    def lost(self) -> list[str]:
        """The rate of each arm with a diverged run, such as `2 of 5 runs of scale=none diverged`."""
        return [
            f"{arm.diverged} of {len(arm.values) + arm.diverged + arm.holes} runs of {arm.name} diverged"
            for _, arm in self.parts
            if arm.diverged
        ]

    @property
    def n(self) -> int:
        """The number that the test counts: seeds, arms or draws."""
        return min(len(arm.values) for _, arm in self.parts) if self.pairs is None else len(self.pairs)

    @property
    def pairable(self) -> bool:
        """Return True if there are several arms with the same seeds."""
        return len(self.parts) > 1 and len({tuple(sorted(arm.values)) for _, arm in self.parts}) == 1

    def test(self, contrast: Contrast, noise: SentenceNoise | None = None, paired: bool = False) -> Test:
        """Test the contrast, not adjusted; arms are paired by seed where they can be."""
        if self.pairs is None:
            return inference.contrast(self.parts, noise, paired and self.pairable)
        holes = any(arm.holes for _, arm in self.parts)
        return Test("missing runs") if holes else inference.correlated(self.pairs, contrast.level)


def weigh(contrast: Contrast, among: QuestionArms) -> Weighted:
    """Read the arms of a contrast, and weigh them.

    Raises:
        InputError: an arm is none, or more than one; or a record lacks the number.
    """
    sides = contrast.sides
    match contrast.statistic:
        case "correlation":
            return _correlation(contrast, among)
        case "within" | "costly":
            return _within(contrast, among)
        case "band":
            bands = [(float(sign), _band(contrast, side, among)) for sign, side in sides]
            return Weighted(bands, len(among.levels(contrast.arm, RATE)[0][1].runs))
        case "draws":
            return _draws(contrast, among)
    best = [_best(contrast, side, among) for _, side in sides]
    parts = [(float(sign), arm) for (sign, _), (arm, _) in zip(sides, best, strict=True)]
    weights: dict[str, float] = {}
    for weight, arm in parts:
        weights[arm.key] = weights.get(arm.key, 0.0) + weight
    if not any(weights.values()):
        raise InputError("expected different arms, got the same arm and baseline. Name a field in which they differ.")
    arms = {arm.key: among.values(arm) for _, arm in parts}
    weighted = [(weight, arms[key]) for key, weight in weights.items()]
    return Weighted(weighted, len(parts[0][1].runs), weighted, [note for _, note in best if note])


def _best(contrast: Contrast, side: Overrides, among: QuestionArms) -> tuple[ArmRuns, str]:
    """Return the arm of a side and, with `best_over`, the values of these fields that are best on validation.

    The best has the best mean of those without a diverged run, if there are any; a hole stops the choice.
    """
    candidates = among.levels(side, *contrast.best_over)
    if not contrast.best_over:
        return candidates[0][1], ""
    direction = metrics.metric_of(contrast.select).direction

    def quality(candidate: tuple[Any, ArmRuns]) -> tuple[bool, bool, float]:
        arm = among.values(candidate[1], contrast.select)
        return arm.holes > 0, not arm.diverged, -math.inf if arm.mean is None else direction * arm.mean

    values, best = max(candidates, key=quality)
    places = []
    for i, name in enumerate(contrast.best_over):
        there = sorted({one[i] for one, _ in candidates})
        edge = " (the edge of the grid)" if len(there) > 2 and values[i] in (there[0], there[-1]) else ""
        places.append(f"{_field(name)} {text(values[i])}{edge}")
    return best, f"{_side(side)} is best at {', '.join(places)}" if among.values(best).values else ""


def _band(contrast: Contrast, side: Overrides, among: QuestionArms) -> Arm:
    """Return a synthetic arm: the width of a side's band of learning rates, by seed. A rate that diverged is bad."""
    if metrics.metric_of(among.measure.metric).direction >= 0:
        raise InputError(f"metric: expected a loss such as valid/nll with band, got {among.measure.metric}.")
    levels, widths = among.levels(side, RATE), {}
    rates, arms = [rate for (rate,), _ in levels], [among.values(arm) for _, arm in levels]
    for seed in sorted({seed for arm in arms for seed in arm.values}):
        losses = [arm.values.get(seed, math.inf) for arm in arms]
        low = high = losses.index(min(losses))
        limit = losses[low] + contrast.within
        while low > 0 and losses[low - 1] <= limit:
            low -= 1
        while high < len(losses) - 1 and losses[high + 1] <= limit:
            high += 1
        widths[seed] = math.log2(rates[high] / rates[low])
    made = _synthetic(_side(side), widths, arms)
    everywhere = max(len(arm.values) + arm.diverged for arm in arms) - len(widths)
    return replace(made, diverged=0 if made.holes else everywhere)


def _within(contrast: Contrast, among: QuestionArms) -> Weighted:
    """One synthetic arm, run by run: a metric, or the share of heads that are costly, minus other metrics or a number.

    `minus` is their mean.
    """
    (_, declared), *_ = among.levels(contrast.arm)
    if contrast.statistic == "costly":
        metrics.check_claimed(f"{among.measure.metric}/without cross 0 0", declared.corpus)
    of, bases = among.values(declared, contrast.of), [among.values(declared, name) for name in contrast.subtracted]
    number = contrast.minus if isinstance(contrast.minus, float) else 0.0
    values = dict(of.values) if all(base.values for base in bases) else {}
    for seed in values:
        taken = [base.values[seed] for base in bases] or [number]
        values[seed] -= sum(taken) / len(taken)
    scores = [] if contrast.statistic == "costly" else [(1.0, of), *((-1.0, base) for base in bases)]
    return Weighted([(1.0, replace(of, values=values))], len(declared.runs), scores)


def _draws(contrast: Contrast, among: QuestionArms) -> Weighted:
    """One synthetic arm: the difference of means on each draw of the corpus, by the draw."""
    own, base = (
        {draw: among.values(arm) for (draw,), arm in among.levels(side, DRAW)}
        for side in (contrast.arm, contrast.baseline)
    )
    if own.keys() != base.keys():
        raise InputError(f"draws: expected the same values of {DRAW} for arm and baseline, got different ones.")
    values = {draw: (own[draw].mean or 0.0) - (base[draw].mean or 0.0) for draw in own}
    arms = [arm for draw in own for arm in (own[draw], base[draw])]
    made = _synthetic(arms[0].name, values if all(arm.values for arm in arms) else {}, arms)
    seeds = min(len(arm.values) for arm in arms)
    return Weighted([(1.0, made)], len(own), notes=[f"n counts draws of the corpus, of {seeds} seeds each"])


def _correlation(contrast: Contrast, among: QuestionArms) -> Weighted:
    """Pairs of scores by arm. An arm takes part if it is whole and its second score is not at an edge of its range."""
    sharing, limits = matching(among.arms, among.where), metrics.metric_of(contrast.between[1]).limits
    both = [tuple(among.values(arm, metric) for metric in contrast.between) for arm in sharing]
    pairs = []
    for first, second in both:
        at_edge = second.mean is not None and limits and metrics.end(second.mean, limits)
        if first.values and second.values and not (first.diverged or first.holes or at_edge):
            pairs.append([(first.values[seed], second.values[seed]) for seed in sorted(first.values)])
    notes = ["n counts arms"]
    if left := len(both) - len(pairs):
        notes.append(f"{left} arms left out: diverged, without a value, or at an edge of the range")
    return Weighted([(0.0, first) for first, _ in both], len(both), notes=notes, pairs=pairs)


def _synthetic(name: str, values: Mapping[int, float], of: Sequence[Arm]) -> Arm:
    """Return an arm whose values are computed from several others."""
    diverged, holes = sum(arm.diverged for arm in of), sum(arm.holes for arm in of)
    return Arm(name, values, diverged, holes, tuple(run for arm in of for run in arm.runs), name)


def name_of(contrast: Contrast, measure: Measure, words: bool = True) -> str:
    """Return a contrast in words, such as `all states − final state`, or by names of fields."""
    if contrast.name:
        return contrast.name
    arm, base, minus, kind = contrast.arm, contrast.baseline, contrast.minus, contrast.statistic
    sides = [_side(one, other, words) for one, other in ((arm, base), (base, arm)) if one]
    name = (" ÷ " if kind == "ratio" else " − ").join(sides)
    taken = ", ".join(_metric(one, words) for one in contrast.subtracted)
    match kind:
        case "ratio" if shared := {field: value for field, value in arm.items() if base.get(field) == value}:
            return f"{name}, {_side(shared, {}, words)}"
        case "interaction" if isinstance(minus, Pair):
            return f"({name}) − ({_side(minus.arm, arm, words)})"
        case "band":
            return f"{name}, band of good {_field(RATE, words)}s"
        case "correlation":
            between = " and ".join(_metric(one, words) for one in contrast.between)
            return f"ρ of {between}, {'between' if contrast.level == 'arms' else 'within'} arms"
        case "within":
            mean = "the mean of " if len(contrast.subtracted) > 1 else ""
            return f"{_metric(contrast.of, words)} − {mean}{taken or text(minus)}"
        case "costly":
            return f"{measure.title} − {text(minus)} %"
        case "draws":
            return f"{name}, over draws of the corpus"
    best = " and ".join(_field(one, words) for one in contrast.best_over)
    return f"{name}, each at its best {best}" if best else name


def _side(side: Overrides, other: Overrides | None = None, words: bool = True) -> str:
    """Return the fields of a side that another side has not, in words or by their names."""
    other = other or {}
    own = {name: value for name, value in side.items() if name not in other or other[name] != value} or side
    fields = [(_field(name, words=False), text(value)) for name, value in own.items()]
    return arm_words(" ".join(map("=".join, fields))) if words else ", ".join(map(" ".join, fields))


def _field(name: str, words: bool = True) -> str:
    last = name.rpartition(".")[2]
    return last.replace("_", " ") if words else last


def _metric(name: str, words: bool) -> str:
    return Measure(name).title if words else name
