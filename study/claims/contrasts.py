"""Contrasts of claims: the declared arms that an entry names, their weights, and the test.

Some contrasts are of *synthetic arms*: per-seed values computed from several runs (the width of a band), or from
several scores of one run (one metric above another); or a value for each draw of the corpus.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from study import metrics
from study.analysis.inference import Arm, Comparison, adjusted, compared, correlated, correlation_power
from study.analysis.labels import arm_words
from study.analysis.measures import Measure
from study.analysis.runs import ArmRuns, Runs, check_fields, find_levels, matching
from study.claims.schema import Contrast, Overrides, Pair, Question
from study.errors import InputError
from study.sweep.grid import text


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

    def levels(self, chosen: Overrides, *over: str) -> list[tuple[tuple[Any, ...], ArmRuns]]:
        """The arms with these values, by the values of the fields `over`."""
        return find_levels(self.arms, self.where | chosen, *over)

    def values(self, arm: ArmRuns, metric: str | None = None) -> Arm:
        """The values of an arm by seed, of the question's measure unless a metric is given."""
        return self.runs.values(arm, Measure(metric) if metric else self.measure)


@dataclass
class Weighted:
    """A contrast ready to be tested."""

    contrast: Contrast
    measure: Measure
    arms: dict[str, Arm] = field(default_factory=dict)
    """Every arm that is read, by key; those with a weight are tested."""
    weights: dict[str, float] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    """Arm ↦ its label in the sweep."""
    declared: int = 0
    """Runs of an arm; arms of a correlation; draws of the corpus."""
    bases: tuple[str, ...] = ()
    """Arms with which the others are compared; empty where the arms are no scores, such as widths of a band."""
    notes: list[str] = field(default_factory=list)
    diverged: list[str] = field(default_factory=list)
    """Arms that diverged runs keep out of a correlation."""
    pairs: list[Sequence[tuple[float, float]]] = field(default_factory=list)
    """Both scores by seed, for every arm that takes part in a correlation."""
    holes: bool = False
    saturated: int = 0
    """Arms that take no part because a score is at an edge of its range."""

    @property
    def runs(self) -> tuple[str, ...]:
        """Ids of the runs behind the contrast."""
        return tuple(run for arm in self.arms.values() for run in arm.runs)

    @property
    def n(self) -> int:
        """The number that the test counts: seeds, arms or draws."""
        return len(self.pairs) if self.contrast.between else min(len(arm.values) for arm in self.arms.values())

    def add(self, weight: float, arm: Arm, label: str, declared: int) -> None:
        """Add an arm with its weight; the weights of one arm sum up."""
        self.arms.setdefault(arm.label, arm)
        self.labels.setdefault(arm.label, label)
        self.weights[arm.label] = self.weights.get(arm.label, 0.0) + weight
        self.declared = self.declared or declared

    def compared(self) -> Comparison:
        """Test the contrast, not adjusted."""
        if self.contrast.level is None:
            return compared([self.arms[key] for key in self.weights], self.weights)
        return Comparison(why="missing runs") if self.holes else correlated(self.pairs, self.contrast.level)


def direction(contrast: Contrast, metric: str) -> int:
    """The sign of the difference that a claim predicts; 0 where it predicts none, or better and worse mean nothing."""
    if contrast.expect == "different":
        return 0
    if contrast.expect in ("higher", "lower"):
        return 1 if contrast.expect == "higher" else -1
    metric = contrast.between[1] if contrast.between else metric
    better = 1 if contrast.statistic == "band" else metrics.metric_of(metric).direction
    return better if contrast.expect == "better" else -better


def sides_of(contrast: Contrast) -> list[tuple[int, Overrides]]:
    """Return the sides of a contrast with their signs: arm, baseline, and those of `minus`."""
    found = [(1, contrast.arm)] if contrast.between is None else []
    found += [(-1, contrast.baseline)] if contrast.baseline is not None else []
    minus = contrast.minus
    return found + ([(-1, minus.arm), (1, minus.baseline)] if isinstance(minus, Pair) else [])


def check(contrast: Contrast, among: QuestionArms) -> list[ArmRuns]:
    """Return every arm that a contrast may read, whether or not it has run.

    Raises:
        InputError: a field, value or metric that no run has; or an arm is none, or more than one.
    """
    corpus, metric, kind = among.arms[0].corpus, among.measure.metric, contrast.statistic
    for name in (*contrast.named, *([f"{metric}/without cross 0 0"] if kind == "costly" else ())):
        metrics.check_claimed(name, corpus)
    for _, side in sides_of(contrast):
        check_fields(side)
    if contrast.best_over:
        metrics.check_claimed(contrast.select, corpus)
        if not contrast.select.startswith("valid/"):
            raise InputError(f"select: expected a metric of validation such as valid/nll, got {contrast.select}.")
    if kind == "band" and metrics.metric_of(metric).direction >= 0:
        raise InputError(f"metric: expected a loss such as valid/nll with band, got {metric}.")
    if kind == "correlation":
        return matching(among.arms, among.where)
    over = contrast.best_over or ((contrast.over,) if contrast.over else ())
    found = [among.levels(side, *over) for _, side in sides_of(contrast)]
    if kind in ("draws", "trend") and len({tuple(value for value, _ in side) for side in found}) > 1:
        raise InputError(f"over: expected the same values of {contrast.over} for arm and baseline, got different ones.")
    if kind == "trend":
        _slopes(contrast, found[0])
    keys = [tuple(arm.key for _, arm in side) for side in found]
    if len(set(keys[:2])) < len(keys[:2]):
        raise InputError("expected different arms, got the same arm and baseline. Name a field in which they differ.")
    return [arm for side in found for _, arm in side]


def test(question: Question, among: QuestionArms) -> list[tuple[Weighted, Comparison]]:
    """Test every contrast of a question, adjusted by Holm over all of them."""
    found = [weigh(contrast, among) for contrast in question.contrasts]
    return list(zip(found, adjusted([one.compared() for one in found]), strict=True))


def weigh(contrast: Contrast, among: QuestionArms) -> Weighted:
    """Read the arms of a contrast, and weigh them."""
    out = Weighted(contrast, among.measure)
    kinds = {"correlation": _correlation, "within": _within, "costly": _costly, "draws": _draws, "band": _bands}
    kinds.get(contrast.statistic, _arms)(out, among)
    return out


def _arms(out: Weighted, among: QuestionArms) -> None:
    """Weigh arms as they are: a difference, an interaction or a trend."""
    contrast, sides = out.contrast, sides_of(out.contrast)
    if contrast.statistic == "trend":
        levels = [(sign, among.levels(side, contrast.over)) for sign, side in sides]
        slopes = _slopes(contrast, levels[0][1])
        parts = [(sign * x, arm) for sign, side in levels for x, (_, arm) in zip(slopes, side, strict=True)]
    else:
        pick = _best if contrast.best_over else _only
        parts = [(float(sign), pick(out, among, side)) for sign, side in sides]
    for weight, arm in parts:
        out.add(weight, among.values(arm), arm.label, len(arm.cells))
    negative = tuple(dict.fromkeys(arm.key for weight, arm in parts if weight < 0))
    out.bases = tuple(out.arms) if contrast.statistic == "trend" else negative


def _only(out: Weighted, among: QuestionArms, side: Overrides) -> ArmRuns:
    return among.levels(side)[0][1]


def _best(out: Weighted, among: QuestionArms, side: Overrides) -> ArmRuns:
    """Take a side at the values of some fields that are best on validation.

    The best has the best mean of those without a diverged run, if there are any; a hole stops the choice.
    """
    contrast, candidates = out.contrast, among.levels(side, *out.contrast.best_over)
    arms = [among.values(arm, contrast.select) for _, arm in candidates]
    sound = [i for i, arm in enumerate(arms) if not arm.diverged] or [i for i, arm in enumerate(arms) if arm.values]
    means = {i: (arms[i].mean or 0.0) * metrics.metric_of(contrast.select).direction for i in sound}
    holes = [i for i, arm in enumerate(arms) if arm.holes]
    values, arm = candidates[holes[0] if holes else max(means, key=means.__getitem__) if means else 0]
    places = []
    for i, name in enumerate(contrast.best_over):
        there = sorted({one[i] for one, _ in candidates})
        edge = " (the edge of the grid)" if len(there) > 2 and values[i] in (there[0], there[-1]) else ""
        places.append(f"{_field(name, words=True)} {text(values[i])}{edge}")
    if among.values(arm).values:
        out.notes.append(f"{_side(side, {}, words=True)} is best at {', '.join(places)}")
    return arm


def _slopes(contrast: Contrast, levels: Sequence[tuple[Any, ArmRuns]]) -> list[float]:
    """The weights (x − x̄) / Σ (x − x̄)² of a least-squares slope over the values x of the field."""
    places = [value for (value,), _ in levels]
    if not all(isinstance(value, int | float) for value in places):
        raise InputError(f"over: expected a field of numbers, got {contrast.over} ({places}). Name another field.")
    middle = sum(places) / len(places)
    return [(x - middle) / sum((x - middle) ** 2 for x in places) for x in places]


def _bands(out: Weighted, among: QuestionArms) -> None:
    """Two synthetic arms: the width of each side's band, by seed. The runs that make an arm name it."""
    for weight, side in sides_of(out.contrast):
        rates, within = among.levels(side, out.contrast.over), out.contrast.within or 0.0
        key = f"band within {within} of {' '.join(arm.key for _, arm in rates)}"
        arm, edge = band(key, [(rate, among.values(arm)) for (rate,), arm in rates], within)
        out.add(float(weight), arm, _side(side, {}, words=True), len(rates[0][1].cells))
        if edge:
            out.notes.append(f"{out.labels[key]}: the best rate is at the grid's edge in {edge} of {out.declared} runs")


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
    holes = sum(arm.holes for _, arm in rates)
    everywhere = max(len(arm.values) + arm.diverged for _, arm in rates) - len(seeds)
    return _synthetic(label, widths, [arm for _, arm in rates], 0 if holes else everywhere), edges


def _within(out: Weighted, among: QuestionArms) -> None:
    """One synthetic arm: the metric less the other, run by run."""
    contrast, declared = out.contrast, _only(out, among, out.contrast.arm)
    of, *bases = (
        replace(among.values(declared, metric), label=f"{declared.key} {metric}") for metric in contrast.named
    )
    _above(out, declared, f"{declared.key} {contrast.named} − {contrast.minus}", of, bases)
    out.arms |= {arm.label: arm for arm in (of, *bases)}
    out.bases, out.labels = tuple(arm.label for arm in bases), dict.fromkeys(out.arms, declared.label)


def _costly(out: Weighted, among: QuestionArms) -> None:
    """One synthetic arm: the share of heads that cost more than the margin, less a number, run by run."""
    declared, margin = _only(out, among, out.contrast.arm), among.margin or 0.0
    out.measure = Measure(among.measure.metric, costing=margin)
    key = f"{declared.key} heads that cost more than {margin} − {out.contrast.minus}"
    _above(out, declared, key, among.runs.values(declared, out.measure), [])


def _above(out: Weighted, declared: ArmRuns, key: str, of: Arm, bases: Sequence[Arm]) -> None:
    """Add the arm of each run's value less that of its base: the mean of other scores of the run, or a number."""
    number, values = out.contrast.minus if isinstance(out.contrast.minus, float) else 0.0, {}
    if all(arm.values for arm in bases):
        for seed, value in of.values.items():
            taken = [arm.values[seed] for arm in bases]
            values[seed] = value - (sum(taken) / len(taken) if taken else number)
    out.add(1.0, replace(of, label=key, values=values), declared.label, len(declared.cells))


def _draws(out: Weighted, among: QuestionArms) -> None:
    """One synthetic arm: the difference of means on each draw of the corpus, by the draw."""
    first, second = (among.levels(side, out.contrast.over) for _, side in sides_of(out.contrast))
    pairs = [(draw, of, base) for ((draw,), of), (_, base) in zip(first, second, strict=True)]
    key = " ".join(f"{of.key} − {base.key}" for _, of, base in pairs)
    made = {draw: (among.values(of), among.values(base)) for draw, of, base in pairs}
    sides = [arm for both in made.values() for arm in both]
    whole = all(arm.values for arm in sides)
    values = {draw: (of.mean or 0.0) - (base.mean or 0.0) for draw, (of, base) in made.items()} if whole else {}
    out.add(1.0, _synthetic(key, values, sides, sum(arm.diverged for arm in sides)), pairs[0][1].label, len(pairs))
    seeds = min(len(arm.values) for arm in sides) if whole else len(pairs[0][1].cells)
    out.notes.append(f"n counts draws of the corpus, of {seeds} seeds each")


def _synthetic(label: str, values: Mapping[int, float], of: Sequence[Arm], diverged: int) -> Arm:
    """Return an arm whose values are computed from several others."""
    runs = tuple(run for arm in of for run in arm.runs)
    return Arm(label, values, diverged=diverged, holes=sum(arm.holes for arm in of), runs=runs)


def _correlation(out: Weighted, among: QuestionArms) -> None:
    """Pairs of scores by arm. An arm takes part if it is whole and its second score is not at an edge of its range."""
    assert out.contrast.between is not None
    x, y = out.contrast.between
    limits, without = metrics.metric_of(y).limits, 0
    sharing = matching(among.arms, among.where)
    out.declared = len(sharing)
    for arm in sharing:
        first, second = among.values(arm, x), among.values(arm, y)
        if first.holes:
            out.holes = True
        elif first.diverged:
            out.diverged.append(f"{first.diverged} of {len(arm.cells)} runs of {arm.label} diverged")
        elif not first.values or not second.values:
            without += 1
        elif limits and metrics.end(second.mean or 0.0, limits):
            out.saturated += 1
        else:
            out.arms[arm.key] = first
            out.pairs.append([(first.values[seed], second.values[seed]) for seed in sorted(first.values)])
    left = ((out.saturated, "saturated arms left out"), (without, "arms without a value left out"))
    out.notes += ["n counts arms", *(f"{count} {what}" for count, what in left if count)]


def power(weighted: Weighted, margin: float | None, tests: int) -> str:
    """Return in words what a rank correlation between so many arms can show."""
    shown, within = correlation_power(len(weighted.pairs), tests)
    told = f"{len(weighted.pairs)} arms show a ρ beyond ±{shown:.2f} with power .80"
    if margin is not None and within >= margin:
        told += f", and equivalence within ±{within:.2f} at best, so not within the margin"
    return told


def name_of(contrast: Contrast, words: bool = True, costing: Measure | None = None) -> str:
    """Return a contrast in words, such as `all states − final state`, or by names of fields."""
    if contrast.name:
        return contrast.name
    kind, minus = contrast.statistic, contrast.minus
    if contrast.between:
        both = " and ".join(_metric(name, words) for name in contrast.between)
        return f"ρ of {both}, {'between arms' if contrast.level == 'arms' else 'within arms'}"
    if kind == "within":
        taken = [_metric(name, words) for name in contrast.metrics]
        mean = f"the mean of {', '.join(taken)}" if len(taken) > 1 else "".join(taken)
        return f"{_metric(contrast.of, words)} − {text(minus) if isinstance(minus, float) else mean}"
    if kind == "costly":
        what = costing.title if costing and costing.costing is not None else "heads that cost more than the margin"
        return f"{what} − {text(minus)} %"
    arm, base_arm = contrast.arm, contrast.baseline or {}
    sides = [side for side in (_side(arm, base_arm, words), _side(base_arm, arm, words)) if side]
    if kind == "ratio":
        shared = {name: value for name, value in arm.items() if base_arm.get(name) == value}
        return ", ".join([" ÷ ".join(sides), *([_side(shared, {}, words)] if shared else [])])
    name = " − ".join(sides)
    if isinstance(minus, Pair):
        return f"({name}) − ({_side(minus.arm, arm, words)})"
    over = _field(contrast.over, words)
    forms = {
        "trend": f"slope of {name} over {over}",
        "draws": f"{name}, over draws of the corpus",
        "band": f"{name}, band of good {over}s",
    }
    if contrast.best_over:
        return f"{name}, each at its best {' and '.join(_field(one, words) for one in contrast.best_over)}"
    return forms.get(kind, name)


def _side(side: Overrides, other: Overrides, words: bool) -> str:
    own = {name: value for name, value in side.items() if name not in other or other[name] != value} or side
    fields = [(_field(name, words=False), text(value)) for name, value in own.items()]
    return arm_words(" ".join(map("=".join, fields))) if words else ", ".join(map(" ".join, fields))


def _field(name: str, words: bool) -> str:
    last = name.rpartition(".")[2]
    return last.replace("_", " ") if words else last


def _metric(name: str, words: bool) -> str:
    return Measure(name).title if words else name
