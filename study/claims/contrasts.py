"""Contrasts of claims: the declared arms that an entry names, with their weights.

Some contrasts are of *synthetic arms*: per-seed values computed from several runs (the width of a band), or from
several scores of one run (one metric above another); or a value for each draw of the corpus.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from study import metrics
from study.analysis import inference
from study.analysis.inference import Arm, Test
from study.analysis.labels import arm_words
from study.analysis.measures import Measure
from study.analysis.runs import ArmRuns, Runs, find_levels, matching
from study.claims.schema import Contrast, Overrides, Pair
from study.errors import InputError
from study.sweep.grid import text

Levels = list[tuple[tuple[Any, ...], ArmRuns]]
"""Values of some fields, each with the arm that has them."""


@dataclass(frozen=True)
class QuestionArms:
    """The arms of a question in one corpus and family."""

    runs: Runs
    measure: Measure
    """The number that the question reads of a run."""
    where: Overrides
    """Fields that all its arms share."""
    arms: Sequence[ArmRuns] = field(repr=False)
    margin: float | None = None

    def levels(self, chosen: Overrides, *over: str) -> Levels:
        """The arms with these values, by the values of the fields `over`."""
        return find_levels(self.arms, self.where | chosen, *over)

    def one(self, chosen: Overrides) -> ArmRuns:
        """The arm with these values."""
        return self.levels(chosen)[0][1]

    def values(self, arm: ArmRuns, metric: str = "") -> Arm:
        """The values of an arm by seed, of the question's measure unless a metric is given."""
        return self.runs.values(arm, Measure(metric) if metric else self.measure)


@dataclass
class Weighted:
    """A contrast ready to be tested."""

    parts: list[tuple[float, Arm]] = field(default_factory=list)
    """Arms with their weights; of a correlation the arms that take part, without weight."""
    declared: int = 0
    """Runs of an arm; arms of a correlation; draws of the corpus; processes."""
    bases: Sequence[Arm] = ()
    """Arms with which the others are compared; empty if the arms are no scores, such as widths of a band."""
    scores: Sequence[Arm] = ()
    """All arms whose means are scores."""
    notes: list[str] = field(default_factory=list)
    diverged: list[str] = field(default_factory=list)
    """Arms that diverged runs keep out of a correlation."""
    saturated: int = 0
    """Arms that take no part because a score is at an edge of its range."""
    pairs: list[Sequence[tuple[float, float]]] | None = None
    """Both scores by seed, for every arm that takes part in a correlation."""
    holes: bool = False
    costing: Measure | None = None
    """The measure of a share of heads."""

    @property
    def runs(self) -> tuple[str, ...]:
        """Ids of the runs behind the contrast."""
        return tuple(run for _, arm in self.parts for run in arm.runs)

    @property
    def lost(self) -> tuple[str, ...]:
        """The rate of each arm with a diverged run, such as `2 of 5 runs of scale=none diverged`."""
        rates = [
            f"{arm.diverged} of {self.declared} runs of {arm.name} diverged" for _, arm in self.parts if arm.diverged
        ]
        return (*dict.fromkeys(rates), *self.diverged)

    @property
    def n(self) -> int:
        """The number that the test counts: seeds, arms or draws."""
        return min(len(arm.values) for _, arm in self.parts) if self.pairs is None else len(self.pairs)

    def add(self, weight: float, arm: Arm) -> None:
        """Add an arm with its weight; the weights of one arm sum up."""
        there = {one.label: i for i, (_, one) in enumerate(self.parts)}
        if arm.label in there:
            self.parts[there[arm.label]] = (self.parts[there[arm.label]][0] + weight, arm)
        else:
            self.parts.append((weight, arm))

    def test(self, contrast: Contrast) -> Test:
        """Test the contrast, not adjusted."""
        if self.pairs is None:
            return inference.contrast(self.parts)
        return Test("missing runs") if self.holes else inference.correlated(self.pairs, contrast.level)


def weigh(contrast: Contrast, among: QuestionArms) -> Weighted:
    """Read the arms of a contrast, and weigh them.

    Raises:
        InputError: an arm is none, or more than one; or a record lacks the number.
    """
    kinds = {"correlation": _correlation, "within": _within, "costly": _costly, "draws": _draws, "band": _bands}
    return kinds.get(contrast.statistic, _arms)(contrast, among)


def _arms(contrast: Contrast, among: QuestionArms) -> Weighted:
    """Weigh arms as they are: a difference, an interaction or a trend."""
    out, sides = Weighted(), contrast.sides
    if contrast.statistic == "trend":
        parts = _slopes(contrast, among)
    elif contrast.best_over:
        parts = [(float(sign), _best(out, contrast, among, side)) for sign, side in sides]
    else:
        parts = [(float(sign), among.one(side)) for sign, side in sides]
    for weight, arm in parts:
        out.add(weight, among.values(arm))
    if not any(weight for weight, _ in out.parts):
        raise InputError("expected different arms, got the same arm and baseline. Name a field in which they differ.")
    less = {arm.key for weight, arm in parts if weight < 0 or contrast.statistic == "trend"}
    out.scores = [arm for _, arm in out.parts]
    return replace(out, declared=len(parts[0][1].cells), bases=[arm for arm in out.scores if arm.label in less])


def _best(out: Weighted, contrast: Contrast, among: QuestionArms, side: Overrides) -> ArmRuns:
    """Take a side at the values of some fields that are best on validation.

    The best has the best mean of those without a diverged run, if there are any; a hole stops the choice.
    """
    if not contrast.select.startswith("valid/"):
        raise InputError(f"select: expected a metric of validation such as valid/nll, got {contrast.select}.")
    candidates = among.levels(side, *contrast.best_over)
    arms = [among.values(arm, contrast.select) for _, arm in candidates]
    sound = [i for i, arm in enumerate(arms) if not arm.diverged] or [i for i, arm in enumerate(arms) if arm.values]
    means = {i: (arms[i].mean or 0.0) * metrics.metric_of(contrast.select).direction for i in sound}
    holes = [i for i, arm in enumerate(arms) if arm.holes]
    values, arm = candidates[holes[0] if holes else max(means, key=means.__getitem__) if means else 0]
    places = []
    for i, name in enumerate(contrast.best_over):
        there = sorted({one[i] for one, _ in candidates})
        edge = " (the edge of the grid)" if len(there) > 2 and values[i] in (there[0], there[-1]) else ""
        places.append(f"{_field(name)} {text(values[i])}{edge}")
    if among.values(arm).values:
        out.notes.append(f"{_side(side)} is best at {', '.join(places)}")
    return arm


def _slopes(contrast: Contrast, among: QuestionArms) -> list[tuple[float, ArmRuns]]:
    """Return arms with the weights ± (x − x̄) / Σ (x − x̄)² of a least-squares slope over the values x of the field."""
    levels = _aligned(contrast, among)
    places = [value for (value,), _ in levels[0]]
    if not all(isinstance(value, int | float) for value in places):
        raise InputError(
            f"over: expected a field of numbers, got {contrast.over_field} ({places}). Name another field."
        )
    middle = sum(places) / len(places)
    slopes = [(x - middle) / sum((x - middle) ** 2 for x in places) for x in places]
    sides = zip(contrast.sides, levels, strict=True)
    return [(sign * x, arm) for (sign, _), side in sides for x, (_, arm) in zip(slopes, side, strict=True)]


def _aligned(contrast: Contrast, among: QuestionArms) -> list[Levels]:
    """Return the arms of each side by the values of a field, which are the same on all sides."""
    found = [among.levels(side, contrast.over_field) for _, side in contrast.sides]
    if len({tuple(value for value, _ in side) for side in found}) > 1:
        raise InputError(
            f"over: expected the same values of {contrast.over_field} for arm and baseline, got different ones."
        )
    return found


def _bands(contrast: Contrast, among: QuestionArms) -> Weighted:
    """Two synthetic arms: the width of each side's band, by seed. The runs that make an arm name it."""
    if metrics.metric_of(among.measure.metric).direction >= 0:
        raise InputError(f"metric: expected a loss such as valid/nll with band, got {among.measure.metric}.")
    out = Weighted()
    for weight, side in contrast.sides:
        rates, name = among.levels(side, contrast.over_field), _side(side)
        key = f"band within {contrast.within} of {' '.join(arm.key for _, arm in rates)}"
        arm, edge = band(key, [(rate, among.values(arm)) for (rate,), arm in rates], contrast.within)
        out.add(float(weight), replace(arm, name=name))
        out.declared = out.declared or len(rates[0][1].cells)
        if edge:
            out.notes.append(f"{name}: the best rate is at the grid's edge in {edge} of {out.declared} runs")
    return out


def band(label: str, rates: Sequence[tuple[float, Arm]], within: float) -> tuple[Arm, int]:
    """The width of the band of each seed as an arm, and in how many seeds the best rate is at the grid's edge.

    Args:
        label: the arm's name.
        rates: learning rates in rising order, each with its losses by seed; a seed without one has diverged there.
        within: how far above the best loss is still good.
    """
    seeds = sorted({seed for _, arm in rates for seed in arm.values})
    widths, edges = {}, 0
    for seed in seeds:
        losses = [arm.values.get(seed, math.inf) for _, arm in rates]
        low = high = best = min(range(len(losses)), key=losses.__getitem__)
        while low > 0 and losses[low - 1] <= losses[best] + within:
            low -= 1
        while high < len(losses) - 1 and losses[high + 1] <= losses[best] + within:
            high += 1
        widths[seed] = math.log2(rates[high][0] / rates[low][0])
        edges += best in (0, len(losses) - 1)
    made = _synthetic(label, widths, [arm for _, arm in rates])
    everywhere = max(len(arm.values) + arm.diverged for _, arm in rates) - len(seeds)
    return replace(made, diverged=0 if made.holes else everywhere), edges


def _synthetic(label: str, values: Mapping[int, float], of: Sequence[Arm]) -> Arm:
    """Return an arm whose values are computed from several others."""
    lost, runs = sum(arm.diverged for arm in of), tuple(run for arm in of for run in arm.runs)
    return Arm(label, values, lost, sum(arm.holes for arm in of), runs=runs, name=of[0].name)


def _within(contrast: Contrast, among: QuestionArms) -> Weighted:
    """One synthetic arm: the metric less the mean of others, or less a number, run by run."""
    declared = among.one(contrast.arm)
    of, *bases = (among.values(declared, metric) for metric in contrast.named)
    values, number = {}, contrast.minus if isinstance(contrast.minus, float) else 0.0
    if all(base.values for base in bases):
        for seed, value in of.values.items():
            taken = [base.values[seed] for base in bases]
            values[seed] = value - (sum(taken) / len(taken) if taken else number)
    made = replace(of, label=f"{of.label} {contrast.named} − {contrast.minus}", values=values)
    return Weighted([(1.0, made)], len(declared.cells), bases, [of, *bases])


def _costly(contrast: Contrast, among: QuestionArms) -> Weighted:
    """One synthetic arm: the share of heads that cost more than the margin, less a number, run by run."""
    metrics.check_claimed(f"{among.measure.metric}/without cross 0 0", among.arms[0].corpus)
    declared, number = among.one(contrast.arm), contrast.minus
    assert isinstance(number, float)
    measure = Measure(among.measure.metric, costing=among.margin or 0.0)
    of = among.runs.values(declared, measure)
    made = replace(of, values={seed: value - number for seed, value in of.values.items()})
    return Weighted([(1.0, made)], len(declared.cells), costing=measure)


def _draws(contrast: Contrast, among: QuestionArms) -> Weighted:
    """One synthetic arm: the difference of means on each draw of the corpus, by the draw."""
    first, second = _aligned(contrast, among)
    pairs = [
        (draw, among.values(of), among.values(base)) for ((draw,), of), (_, base) in zip(first, second, strict=True)
    ]
    sides = [arm for _, *both in pairs for arm in both]
    whole = all(arm.values for arm in sides)
    values = {draw: (of.mean or 0.0) - (base.mean or 0.0) for draw, of, base in pairs} if whole else {}
    arm = _synthetic(" ".join(arm.label for arm in sides), values, sides)
    seeds = min(len(arm.values) for arm in sides) if whole else len(first[0][1].cells)
    return Weighted([(1.0, arm)], len(pairs), notes=[f"n counts draws of the corpus, of {seeds} seeds each"])


def _correlation(contrast: Contrast, among: QuestionArms) -> Weighted:
    """Pairs of scores by arm. An arm takes part if it is whole and its second score is not at an edge of its range."""
    limits, without = metrics.metric_of(contrast.between[1]).limits, 0
    sharing, pairs = matching(among.arms, among.where), list[Sequence[tuple[float, float]]]()
    out, seeds = Weighted(declared=len(sharing)), {tuple(sorted(arm.cells)): arm.label for arm in sharing}
    if len(seeds) > 1:
        both = " and ".join(f"{list(given)} for {label}" for given, label in list(seeds.items())[:2])
        raise InputError(f"with_sweeps: expected the same seeds for every arm, got {both}.")
    for arm in sharing:
        first, second = (among.values(arm, metric) for metric in contrast.between)
        if first.holes:
            out.holes = True
        elif first.diverged:
            out.diverged.append(f"{first.diverged} of {len(arm.cells)} runs of {arm.label} diverged")
        elif not first.values or not second.values:
            without += 1
        elif limits and metrics.end(second.mean or 0.0, limits):
            out.saturated += 1
        else:
            out.parts.append((0.0, first))
            pairs.append([(first.values[seed], second.values[seed]) for seed in sorted(first.values)])
    left = ((out.saturated, "saturated arms left out"), (without, "arms without a value left out"))
    out.notes += ["n counts arms", *(f"{count} {what}" for count, what in left if count)]
    return replace(out, pairs=pairs)


def name_of(contrast: Contrast, words: bool = True, costing: Measure | None = None) -> str:
    """Return a contrast in words, such as `all states − final state`, or by names of fields."""
    if contrast.name:
        return contrast.name
    arm, base, minus = contrast.arm, contrast.baseline, contrast.minus
    shared = {name: value for name, value in arm.items() if base.get(name) == value}
    ratio = contrast.statistic == "ratio"
    sides = (" ÷ " if ratio else " − ").join(filter(None, (_side(arm, base, words), _side(base, arm, words))))
    taken = ", ".join(_metric(name, words) for name in contrast.subtracted)
    name = contrast.facts.title.format(
        sides=sides + (f", {_side(shared, {}, words)}" if ratio and shared else ""),
        other=_side(minus.arm, arm, words) if isinstance(minus, Pair) else "",
        over=_field(contrast.over_field, words),
        of=_metric(contrast.of, words) if contrast.of else "",
        minus=text(minus) if isinstance(minus, float) else "the mean of " * (len(contrast.subtracted) > 1) + taken,
        between=" and ".join(_metric(one, words) for one in contrast.between),
        level="between" if contrast.level == "arms" else "within",
        costly=costing.title if costing else "heads that cost more than the margin",
    )
    best = " and ".join(_field(one, words) for one in contrast.best_over)
    return f"{name}, each at its best {best}" if best else name


def _side(side: Overrides, other: Overrides | None = None, words: bool = True) -> str:
    """Return the fields of a side that another side has not, in words or by their names."""
    own = {
        name: value for name, value in side.items() if name not in (other or {}) or (other or {})[name] != value
    } or side
    fields = [(_field(name, words=False), text(value)) for name, value in own.items()]
    return arm_words(" ".join(map("=".join, fields))) if words else ", ".join(map(" ".join, fields))


def _field(name: str, words: bool = True) -> str:
    last = name.rpartition(".")[2]
    return last.replace("_", " ") if words else last


def _metric(name: str, words: bool) -> str:
    return Measure(name).title if words else name
