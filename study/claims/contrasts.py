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
from study.sweep.fields import text

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

    def levels(self, chosen: Overrides, *over: str) -> dict[tuple[Any, ...], ArmRuns]:
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
        declared: runs of an arm; arms of a correlation; draws of the corpus.
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
    def arms(self) -> list[Arm]:
        """The arms without their weights."""
        return [arm for _, arm in self.parts]

    @property
    def lost(self) -> list[str]:
        """The rate of each arm with a diverged run, such as `2 of 5 runs of scale=none diverged`."""
        notes = []
        for arm in self.arms:
            if arm.diverged:
                notes.append(f"{arm.diverged} of {arm.declared} runs of {arm.name} diverged")
        return notes

    @property
    def n(self) -> int:
        """The number that the test counts: seeds, arms or draws."""
        return min(len(arm.values) for arm in self.arms) if self.pairs is None else len(self.pairs)

    @property
    def pairable(self) -> bool:
        """Return True if there are several arms with the same seeds."""
        first, *rest = self.arms
        return bool(rest) and all(arm.values.keys() == first.values.keys() for arm in rest)

    def test(self, contrast: Contrast, noise: SentenceNoise | None = None, paired: bool = False) -> Test:
        """Test the contrast, not adjusted; arms are paired by seed where they can be."""
        if self.pairs is None:
            return inference.contrast(self.parts, noise, paired and self.pairable)
        if any(arm.holes for arm in self.arms):
            return Test("missing runs")
        return inference.correlated(self.pairs, contrast.level)


def weigh(contrast: Contrast, among: QuestionArms) -> Weighted:
    """Read the arms of a contrast, and weigh them.

    Raises:
        InputError: an arm is none, or more than one; or a record lacks the number.
    """
    match contrast.statistic:
        case "correlation":
            return _correlation(contrast, among)
        case "within" | "costly":
            return _within(contrast, among)
        case "band":
            return _bands(contrast, among)
        case "draws":
            return _draws(contrast, among)
    return _difference(contrast, among)


def _difference(contrast: Contrast, among: QuestionArms) -> Weighted:
    """Arms of a difference or an interaction. An arm that stands on several sides has the sum of their weights."""
    arms: dict[str, ArmRuns] = {}
    weights: dict[str, float] = {}
    notes = []
    for sign, side in contrast.sides:
        arm, note = _best(contrast, side, among)
        arms[arm.key] = arm
        weights[arm.key] = weights.get(arm.key, 0.0) + sign
        if note:
            notes.append(note)
    if not any(weights.values()):
        raise InputError("expected different arms, got the same arm and baseline. Name a field in which they differ.")
    parts = [(weight, among.values(arms[key])) for key, weight in weights.items()]
    declared = len(next(iter(arms.values())).runs)
    return Weighted(parts, declared, parts, notes)


def _best(contrast: Contrast, side: Overrides, among: QuestionArms) -> tuple[ArmRuns, str]:
    """Return the arm of a side and, with `best_over`, the values of these fields that are best on validation.

    The best has the best mean of those without a diverged run, if there are any; a hole stops the choice.
    """
    candidates = among.levels(side, *contrast.best_over)
    if not contrast.best_over:
        return candidates[()], ""
    direction = metrics.metric_of(contrast.select).direction

    def quality(level: tuple[Any, ...]) -> tuple[bool, bool, float]:
        arm = among.values(candidates[level], contrast.select)
        return arm.holes > 0, not arm.diverged, -math.inf if arm.mean is None else direction * arm.mean

    best = max(candidates, key=quality)
    if not among.values(candidates[best]).values:
        return candidates[best], ""
    settings = []
    for name, value, column in zip(contrast.best_over, best, zip(*candidates, strict=True), strict=True):
        grid = sorted(set(column))
        at_edge = len(grid) > 2 and value in (grid[0], grid[-1])
        settings.append(f"{_field(name)} {text(value)}{' (the edge of the grid)' if at_edge else ''}")
    return candidates[best], f"{_side(side, {})} is best at {', '.join(settings)}"


def _bands(contrast: Contrast, among: QuestionArms) -> Weighted:
    """The widths of the bands of both sides."""
    bands = []
    for sign, side in contrast.sides:
        bands.append((float(sign), _band(contrast, side, among)))
    first, *_ = among.levels(contrast.arm, RATE).values()
    return Weighted(bands, len(first.runs))


def _band(contrast: Contrast, side: Overrides, among: QuestionArms) -> Arm:
    """Return a synthetic arm: the width of a side's band of learning rates, by seed. A rate that diverged is bad."""
    if metrics.metric_of(among.measure.metric).direction >= 0:
        raise InputError(f"metric: expected a loss such as valid/nll with band, got {among.measure.metric}.")
    levels = among.levels(side, RATE)
    rates = [rate for (rate,) in levels]
    arms = list(map(among.values, levels.values()))
    widths = {}
    for seed in sorted(set[int]().union(*(arm.values for arm in arms))):
        losses = [arm.values.get(seed, math.inf) for arm in arms]
        low = high = losses.index(min(losses))
        limit = min(losses) + contrast.within
        while low > 0 and losses[low - 1] <= limit:
            low -= 1
        while high < len(losses) - 1 and losses[high + 1] <= limit:
            high += 1
        widths[seed] = math.log2(rates[high] / rates[low])
    band = _synthetic(_side(side, {}), widths, arms)
    diverged_everywhere = max(len(arm.values) + arm.diverged for arm in arms) - len(widths)
    return replace(band, diverged=0 if band.holes else diverged_everywhere)


def _within(contrast: Contrast, among: QuestionArms) -> Weighted:
    """One synthetic arm, run by run: a metric, or the share of heads that are costly, minus other metrics or a number.

    `minus` is their mean.
    """
    declared = among.levels(contrast.arm)[()]
    if contrast.statistic == "costly":
        metrics.check_claimed(f"{among.measure.metric}/without cross 0 0", declared.experiment.data)
    arm = among.values(declared, contrast.of)
    bases = [among.values(declared, name) for name in contrast.subtracted]
    number = contrast.minus if isinstance(contrast.minus, float) else 0.0
    values = dict(arm.values) if all(base.values for base in bases) else {}
    for seed in values:
        subtracted = [base.values[seed] for base in bases] or [number]
        values[seed] -= sum(subtracted) / len(subtracted)
    scores = [] if contrast.statistic == "costly" else [(1.0, arm), *((-1.0, base) for base in bases)]
    return Weighted([(1.0, replace(arm, values=values))], len(declared.runs), scores)


def _draws(contrast: Contrast, among: QuestionArms) -> Weighted:
    """One synthetic arm: the difference of means on each draw of the corpus, by the draw."""
    above = among.levels(contrast.arm, DRAW)
    below = among.levels(contrast.baseline, DRAW)
    if above.keys() != below.keys():
        raise InputError(f"draws: expected the same values of {DRAW} for arm and baseline, got different ones.")
    values = {}
    arms = []
    for level in above:
        arm, base = among.values(above[level]), among.values(below[level])
        values[level[0]] = (arm.mean or 0.0) - (base.mean or 0.0)
        arms += [arm, base]
    seeds = min(len(arm.values) for arm in arms)
    difference = _synthetic(arms[0].name, values if seeds else {}, arms)
    return Weighted([(1.0, difference)], len(above), notes=[f"n counts draws of the corpus, of {seeds} seeds each"])


def _correlation(contrast: Contrast, among: QuestionArms) -> Weighted:
    """Pairs of scores by arm. An arm takes part if it is whole and its second score is not at an edge of its range."""
    limits = metrics.metric_of(contrast.between[1]).limits
    arms = matching(among.arms, among.where)
    parts = []
    pairs = []
    for arm in arms:
        first, second = (among.values(arm, metric) for metric in contrast.between)
        parts.append((0.0, first))
        at_edge = second.mean is not None and limits and metrics.end(second.mean, limits)
        if first.values and second.values and not (first.diverged or first.holes or at_edge):
            pairs.append([(first.values[seed], second.values[seed]) for seed in sorted(first.values)])
    notes = ["n counts arms"]
    if left := len(arms) - len(pairs):
        notes.append(f"{left} arms left out: diverged, without a value, or at an edge of the range")
    return Weighted(parts, len(arms), notes=notes, pairs=pairs)


def _synthetic(name: str, values: Mapping[int, float], of: Sequence[Arm]) -> Arm:
    """Return an arm whose values are computed from several others."""
    diverged = holes = 0
    runs: list[str] = []
    for arm in of:
        diverged += arm.diverged
        holes += arm.holes
        runs += arm.runs
    return Arm(name, values, diverged, holes, tuple(runs), name)


def name_of(contrast: Contrast, measure: Measure, words: bool) -> str:
    """Return a contrast in words, such as `all states − final state`, or by names of fields."""
    if contrast.name:
        return contrast.name
    arm, base, minus = contrast.arm, contrast.baseline, contrast.minus
    name = f"{_side(arm, base, words)} − {_side(base, arm, words)}"
    match contrast.statistic:
        case "interaction" if isinstance(minus, Pair):
            return f"({name}) − ({_side(minus.arm, arm, words)})"
        case "band":
            return f"{name}, band of good {_field(RATE, words)}s"
        case "correlation":
            first, second = contrast.between
            level = "between" if contrast.level == "arms" else "within"
            return f"ρ of {_metric(first, words)} and {_metric(second, words)}, {level} arms"
        case "within":
            mean = "the mean of " if len(contrast.subtracted) > 1 else ""
            subtracted = ", ".join(_metric(metric, words) for metric in contrast.subtracted) or text(minus)
            return f"{_metric(contrast.of, words)} − {mean}{subtracted}"
        case "costly":
            return f"{measure.title} − {text(minus)} %"
        case "draws":
            return f"{name}, over draws of the corpus"
    best = " and ".join(_field(field, words) for field in contrast.best_over)
    return f"{name}, each at its best {best}" if best else name


def _side(side: Overrides, opposite: Overrides, words: bool = True) -> str:
    """Return the fields of a side that the opposite side has not, in words or by their names."""
    differing = {name: value for name, value in side.items() if name not in opposite or opposite[name] != value}
    equals = "=" if words else " "
    settings = [f"{_field(name, words=False)}{equals}{text(value)}" for name, value in (differing or side).items()]
    return arm_words(" ".join(settings)) if words else ", ".join(settings)


def _field(name: str, words: bool = True) -> str:
    last = name.rpartition(".")[2]
    return last.replace("_", " ") if words else last


def _metric(name: str, words: bool) -> str:
    return Measure(name).title if words else name
