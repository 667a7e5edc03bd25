"""Check the entry of a contrast, resolve it into the declared arms that it names and their weights, and test it.

Some contrasts are of *synthetic arms*: per-seed values computed from several runs (the width of a band), or from
several scores of one run (one metric above another); or a value for each draw of the corpus.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from study import metrics
from study.analysis.inference import Arm, Comparison, adjusted, contrasted, correlated
from study.analysis.labels import arm_words
from study.analysis.measures import Measure
from study.analysis.runs import ArmRuns, Runs, check_fields, find_levels, matching
from study.claims.schema import (
    AnyContrast,
    Band,
    Contrast,
    Correlation,
    Costly,
    Difference,
    Draws,
    Interaction,
    Overrides,
    Question,
    Ratio,
    Trend,
    Within,
)
from study.errors import InputError
from study.sweep.grid import text


@dataclass(frozen=True)
class WeightedContrast:
    """A contrast ready to be tested: its arms, the weight of each, and those whose scores are compared."""

    name: str
    """The contrast in words."""
    arms: dict[str, Arm]
    weights: dict[str, float]
    labels: dict[str, str]
    """Arm ↦ its label in the sweep."""
    declared: int
    """Runs of an arm."""
    sides: tuple[str, ...] = ()
    """Arms whose scores are compared with those of `bases`."""
    bases: tuple[str, ...] = ()
    """Empty where the arms are no scores, such as widths of a band."""
    notes: tuple[str, ...] = ()
    fields: str = ""
    """The contrast by names of fields."""


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

    def find(self, chosen: Overrides) -> ArmRuns:
        """The arm with these values."""
        return self.levels(chosen)[0][1]

    def levels(self, chosen: Overrides, *over: str) -> list[tuple[tuple[Any, ...], ArmRuns]]:
        """The arms with these values, by the values of the fields `over`."""
        return find_levels(self.arms, self.where | chosen, *over)

    def values(self, arm: ArmRuns, measure: Measure | None = None) -> Arm:
        """The values of an arm by seed, of the question's measure unless another is given."""
        return self.runs.values(arm, measure or self.measure)


def check(contrast: AnyContrast, among: QuestionArms) -> list[ArmRuns]:
    """Return every arm that a contrast may read, whether or not it has run.

    Raises:
        InputError: a field, value or metric that no run has; or an arm is none, or more than one.
    """
    corpus, metric = among.arms[0].corpus, among.measure.metric
    claimed, sides = [], [contrast.arm] if not isinstance(contrast, Correlation) else []
    match contrast:
        case Correlation() | Within():
            claimed = list(contrast.named)
        case Costly():
            claimed = [f"{metric}/without cross 0 0"]
        case Interaction():
            sides += [contrast.baseline, contrast.minus.arm, contrast.minus.baseline]
        case _:
            sides += [contrast.baseline or {}]
    for one in claimed:
        metrics.check_claimed(one, corpus)
    for side in sides:
        check_fields(side)
    if isinstance(contrast, Difference) and contrast.best_over:
        metrics.check_claimed(contrast.select, corpus)
        if not contrast.select.startswith("valid/"):
            raise InputError(f"select: expected a metric of validation such as valid/nll, got {contrast.select}.")
    if isinstance(contrast, Band) and metrics.metric_of(metric).direction >= 0:
        raise InputError(f"metric: expected a loss such as valid/nll with band, got {metric}.")
    return _named_arms(contrast, among)


def direction(contrast: Contrast, metric: str) -> int:
    """The sign of the difference that a claim predicts; 0 where it predicts none, or better and worse mean nothing."""
    if contrast.expect == "different":
        return 0
    if contrast.expect in ("higher", "lower"):
        return 1 if contrast.expect == "higher" else -1
    better = 1 if isinstance(contrast, Band) else metrics.metric_of(metric).direction
    return better if contrast.expect == "better" else -better


def _named_arms(contrast: AnyContrast, among: QuestionArms) -> list[ArmRuns]:
    match contrast:
        case Within() | Costly():
            return [among.find(contrast.arm)]
        case Correlation():
            return matching(among.arms, among.where)
        case Difference():
            found = [among.levels(side, *contrast.best_over) for side in (contrast.arm, contrast.baseline)]
        case Interaction():
            four = (contrast.arm, contrast.baseline, contrast.minus.arm, contrast.minus.baseline)
            found = [among.levels(side) for side in four]
        case Draws():
            found = [among.levels(side, contrast.over) for side in (contrast.arm, contrast.baseline)]
            if [value for value, _ in found[0]] != [value for value, _ in found[1]]:
                raise InputError(
                    f"over: expected the same values of {contrast.over} for arm and baseline, got different ones."
                )
        case Trend():
            sides = [side for side in (contrast.arm, contrast.baseline) if side is not None]
            found = [among.levels(side, contrast.over) for side in sides]
            if len({tuple(value for value, _ in side) for side in found}) > 1:
                raise InputError(
                    f"over: expected the same values of {contrast.over} for arm and baseline, got different ones."
                )
            _slopes(contrast, found[0])
        case Band():
            found = [among.levels(side, contrast.over) for side in (contrast.arm, contrast.baseline)]
    keys = [tuple(arm.key for _, arm in side) for side in found]
    if len(set(keys[:2])) < len(keys[:2]):
        raise InputError("expected different arms, got the same arm and baseline. Name a field in which they differ.")
    return [arm for side in found for _, arm in side]


def weigh(contrast: AnyContrast, among: QuestionArms) -> WeightedContrast:
    """Read the arms of a contrast, and weigh them."""
    match contrast:
        case Difference(best_over=()):
            return _weighted(contrast, among, [(1, among.find(contrast.arm)), (-1, among.find(contrast.baseline))])
        case Difference():
            return _best(contrast, among)
        case Interaction():
            first, second = contrast, contrast.minus
            parts = [(1, first.arm), (-1, first.baseline), (-1, second.arm), (1, second.baseline)]
            return _weighted(contrast, among, [(weight, among.find(side)) for weight, side in parts])
        case Trend():
            return _trend(contrast, among)
        case Band():
            return _bands(contrast, among)
        case Within():
            return _within(contrast, among)
        case Costly():
            return _costly(contrast, among)
        case Draws():
            return _draws(contrast, among)
    raise TypeError(f"{contrast.statistic} has no weights")


def join_arms(weighted: Sequence[WeightedContrast]) -> dict[str, Arm]:
    """Return the arms of all contrasts of a question, by key.

    Raises:
        ValueError: two arms have one key.
    """
    arms: dict[str, Arm] = {}
    for contrast in weighted:
        for key, arm in contrast.arms.items():
            if arms.setdefault(key, arm) != arm:
                raise ValueError(f"two arms have the key {key!r}")
    return arms


def _weighted(
    contrast: AnyContrast, among: QuestionArms, parts: Sequence[tuple[float, ArmRuns]], *notes: str
) -> WeightedContrast:
    weights: dict[str, float] = {}
    for weight, arm in parts:
        weights[arm.key] = weights.get(arm.key, 0.0) + weight
    arms = {arm.key: arm for _, arm in parts}
    bases = tuple(arm.key for weight, arm in parts if weight < 0)
    if isinstance(contrast, Trend):
        bases = tuple(arms)
    return WeightedContrast(
        name=name_of(contrast),
        fields=fields_of(contrast),
        arms={key: among.values(arm) for key, arm in arms.items()},
        weights=weights,
        sides=tuple(key for key in arms if key not in bases),
        bases=bases,
        labels={key: arm.label for key, arm in arms.items()},
        declared=len(parts[0][1].cells),
        notes=notes,
    )


def name_of(contrast: AnyContrast) -> str:
    """Return a contrast in words, such as `all states − final state`."""
    return _named(contrast, words=True)


def fields_of(contrast: AnyContrast) -> str:
    """Return a contrast by names of fields, such as `memory states − memory final`."""
    return _named(contrast, words=False)


def _named(contrast: AnyContrast, words: bool) -> str:
    """Return the settings in which the arms of a contrast differ."""
    if contrast.name:
        return contrast.name
    if isinstance(contrast, Correlation):
        both = " and ".join(_metric(name, words) for name in contrast.between)
        return f"ρ of {both}, {'between arms' if contrast.level == 'arms' else 'within arms'}"
    if isinstance(contrast, Within):
        taken = [_metric(name, words) for name in contrast.metrics]
        mean = f"the mean of {', '.join(taken)}" if len(taken) > 1 else "".join(taken)
        base = text(contrast.minus) if isinstance(contrast.minus, float) else mean
        return f"{_metric(contrast.of, words)} − {base}"
    if isinstance(contrast, Costly):
        return f"heads that cost more than the margin − {text(contrast.minus)} %"
    arm, base_arm = contrast.arm, contrast.baseline or {}
    sides = [side for side in (_side(arm, base_arm, words), _side(base_arm, arm, words)) if side]
    if isinstance(contrast, Ratio):
        shared = {name: value for name, value in arm.items() if base_arm.get(name) == value}
        return ", ".join([" ÷ ".join(sides), *([_side(shared, {}, words)] if shared else [])])
    name = " − ".join(sides)
    match contrast:
        case Interaction():
            return f"({name}) − ({_side(contrast.minus.arm, arm, words)})"
        case Trend():
            return f"slope of {name} over {_field(contrast.over, words)}"
        case Draws():
            return f"{name}, over draws of the corpus"
        case Band():
            return f"{name}, band of good {_field(contrast.over, words)}s"
        case Difference(best_over=[*over]) if over:
            return f"{name}, each at its best {' and '.join(_field(one, words) for one in over)}"
    return name


def _side(side: Overrides, other: Overrides, words: bool) -> str:
    own = {name: value for name, value in side.items() if name not in other or other[name] != value} or side
    fields = [(_field(name, words=False), text(value)) for name, value in own.items()]
    return arm_words(" ".join(map("=".join, fields))) if words else ", ".join(map(" ".join, fields))


def _field(name: str, words: bool) -> str:
    last = name.rpartition(".")[2]
    return last.replace("_", " ") if words else last


def _metric(name: str, words: bool) -> str:
    return Measure(name).title if words else name


def _best(contrast: Difference, among: QuestionArms) -> WeightedContrast:
    """Take each side at the value of a field that is best on validation."""
    parts, notes = [], []
    for weight, side in ((1, contrast.arm), (-1, contrast.baseline)):
        candidates = among.levels(side, *contrast.best_over)
        place = _chosen([among.values(arm, Measure(contrast.select)) for _, arm in candidates], contrast.select)
        values, arm = candidates[place]
        parts.append((weight, arm))
        at = [_place(name, i, values, candidates) for i, name in enumerate(contrast.best_over)]
        if among.values(arm).values:
            notes.append(f"{_side(side, {}, words=True)} is best at {', '.join(at)}")
    return _weighted(contrast, among, parts, *notes)


def _place(name: str, i: int, values: Sequence[Any], candidates: Sequence[tuple[Sequence[Any], ArmRuns]]) -> str:
    """`learning rate 0.003`, and whether that is at the edge of a grid of three values or more."""
    there = sorted({one[i] for one, _ in candidates})
    edge = " (the edge of the grid)" if len(there) > 2 and values[i] in (there[0], there[-1]) else ""
    return f"{_field(name, words=True)} {text(values[i])}{edge}"


def _chosen(arms: Sequence[Arm], select: str) -> int:
    """The best by the mean on validation, of those without a diverged run if there are any; a hole stops the choice."""
    holes = [i for i, arm in enumerate(arms) if arm.holes]
    if holes:
        return holes[0]
    sound = [i for i, arm in enumerate(arms) if not arm.diverged] or [i for i, arm in enumerate(arms) if arm.values]
    means = {i: sum(arms[i].values.values()) / len(arms[i].values) for i in sound}
    return max(means, key=lambda i: means[i] * metrics.metric_of(select).direction) if means else 0


def _trend(contrast: Trend, among: QuestionArms) -> WeightedContrast:
    levels = among.levels(contrast.arm, contrast.over)
    slopes = _slopes(contrast, levels)
    parts = [(slope, arm) for slope, (_, arm) in zip(slopes, levels, strict=True)]
    if contrast.baseline is not None:
        bases = among.levels(contrast.baseline, contrast.over)
        parts += [(-slope, arm) for slope, (_, arm) in zip(slopes, bases, strict=True)]
    return _weighted(contrast, among, parts)


def _slopes(contrast: Trend, levels: Sequence[tuple[Any, ArmRuns]]) -> list[float]:
    """The weights (x − x̄) / Σ (x − x̄)² of a least-squares slope over the values x of the field."""
    places = [value for (value,), _ in levels]
    if not all(isinstance(value, int | float) for value in places):
        raise InputError(f"over: expected a field of numbers, got {contrast.over} ({places}). Name another field.")
    middle = sum(places) / len(places)
    return [(x - middle) / sum((x - middle) ** 2 for x in places) for x in places]


def _bands(contrast: Band, among: QuestionArms) -> WeightedContrast:
    """Two synthetic arms: the width of each side's band, by seed. The runs that make an arm name it."""
    arms, weights, labels, notes, declared = {}, {}, {}, [], 0
    for weight, side in ((1.0, contrast.arm), (-1.0, contrast.baseline)):
        rates = among.levels(side, contrast.over)
        key = f"band within {contrast.within} of {' '.join(arm.key for _, arm in rates)}"
        arms[key], edge = band(key, [(rate, among.values(arm)) for (rate,), arm in rates], contrast.within)
        weights[key], labels[key], declared = weight, _side(side, {}, words=True), len(rates[0][1].cells)
        notes += [f"{labels[key]}: the best rate is at the grid's edge in {edge} of {declared} runs"] if edge else []
    return WeightedContrast(
        name_of(contrast), arms, weights, labels, declared, notes=tuple(notes), fields=fields_of(contrast)
    )


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
        best = min(range(len(losses)), key=losses.__getitem__)
        low = high = best
        while low > 0 and losses[low - 1] <= losses[best] + within:
            low -= 1
        while high < len(losses) - 1 and losses[high + 1] <= losses[best] + within:
            high += 1
        widths[seed] = math.log2(rates[high][0] / rates[low][0])
        edges += best in (0, len(losses) - 1)
    holes = sum(arm.holes for _, arm in rates)
    everywhere = max(len(arm.values) + arm.diverged for _, arm in rates) - len(seeds)
    runs = tuple(run for _, arm in rates for run in arm.runs)
    return Arm(label, widths, diverged=0 if holes else everywhere, holes=holes, runs=runs), edges


def _within(contrast: Within, among: QuestionArms) -> WeightedContrast:
    """One synthetic arm: the metric less the other, run by run."""
    declared = among.find(contrast.arm)
    of = among.values(declared, Measure(contrast.of))
    key, side = f"{declared.key} {contrast.named} − {contrast.minus}", f"{declared.key} {contrast.of}"
    bases = {f"{declared.key} {metric}": among.values(declared, Measure(metric)) for metric in contrast.metrics}
    taken = contrast.minus if isinstance(contrast.minus, float) else list(bases.values())
    arms = {key: _above(key, of, taken), side: of, **bases}
    return WeightedContrast(
        name=name_of(contrast),
        fields=fields_of(contrast),
        arms=arms,
        weights={key: 1.0},
        sides=(side,),
        bases=tuple(bases),
        labels=dict.fromkeys(arms, declared.label),
        declared=len(declared.cells),
    )


def _costly(contrast: Costly, among: QuestionArms) -> WeightedContrast:
    """One synthetic arm: the share of heads that cost more than the margin, less a number, run by run."""
    declared, margin = among.find(contrast.arm), among.margin or 0.0
    measure = Measure(among.measure.metric, costing=margin)
    key = f"{declared.key} heads that cost more than {margin} − {contrast.minus}"
    return WeightedContrast(
        name=contrast.name or f"{measure.title} − {text(contrast.minus)} %",
        fields=contrast.name or f"{measure.title} − {text(contrast.minus)} %",
        arms={key: _above(key, among.values(declared, measure), contrast.minus)},
        weights={key: 1.0},
        labels={key: declared.label},
        declared=len(declared.cells),
    )


def _draws(contrast: Draws, among: QuestionArms) -> WeightedContrast:
    """One synthetic arm: the difference of means on each draw of the corpus, by the draw."""
    levels = zip(among.levels(contrast.arm, contrast.over), among.levels(contrast.baseline, contrast.over), strict=True)
    pairs = [(draw, of, base) for ((draw,), of), (_, base) in levels]
    key = " ".join(f"{of.key} − {base.key}" for _, of, base in pairs)
    made = {draw: (among.values(of), among.values(base)) for draw, of, base in pairs}
    sides = [arm for both in made.values() for arm in both]
    whole = all(arm.values for arm in sides)
    found = Arm(
        key,
        {draw: (of.mean or 0.0) - (base.mean or 0.0) for draw, (of, base) in made.items()} if whole else {},
        diverged=sum(arm.diverged for arm in sides),
        holes=sum(arm.holes for arm in sides),
        runs=tuple(run for arm in sides for run in arm.runs),
    )
    seeds = min(len(arm.values) for arm in sides) if whole else len(pairs[0][1].cells)
    return WeightedContrast(
        name=name_of(contrast),
        fields=fields_of(contrast),
        arms={key: found},
        weights={key: 1.0},
        labels={key: pairs[0][1].label},
        declared=len(pairs),
        notes=(f"n counts draws of the corpus, of {seeds} seeds each",),
    )


def _above(label: str, of: Arm, base: Sequence[Arm] | float) -> Arm:
    """Each run's value less that of a base: the mean of other scores of the same run, or a number."""
    if isinstance(base, float):
        values = {seed: value - base for seed, value in of.values.items()}
    elif all(arm.values for arm in base):
        values = {seed: v - sum(arm.values[seed] for arm in base) / len(base) for seed, v in of.values.items()}
    else:
        values = {}
    return Arm(label, values, of.diverged, of.holes, of.valid_bleu, of.runs)


@dataclass
class CorrelatedArms:
    """The arms of a rank correlation: pairs of scores by seed, and the arms that take no part."""

    name: str
    """The contrast in words."""
    fields: str
    """The contrast by names of fields."""
    level: str
    declared: int
    """Number of arms."""
    pairs: list[Sequence[tuple[float, float]]] = field(default_factory=list)
    holes: bool = False
    diverged: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    saturated: int = 0
    without: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """The unit of n, and the arms that were left out."""
        left = ((self.saturated, "saturated arms left out"), (self.without, "arms without a value left out"))
        return ("n counts arms", *(f"{count} {what}" for count, what in left if count))


def compare(question: Question, among: QuestionArms) -> list[tuple[WeightedContrast | CorrelatedArms, Comparison]]:
    """Test every contrast of a question, adjusted by Holm over all of them.

    An arm takes part in a correlation if it is whole and its second score is not at an edge of its range. A diverged
    run takes its arm out.
    """
    if any(isinstance(contrast, Correlation) for contrast in question.contrasts):
        found = [_correlated_arms(one, among) for one in question.contrasts if isinstance(one, Correlation)]
        plain = [Comparison(why="missing runs") if arms.holes else correlated(arms.pairs, arms.level) for arms in found]
        return list(zip(found, adjusted(plain), strict=True))
    weighted = [weigh(contrast, among) for contrast in question.contrasts]
    compared = contrasted(join_arms(weighted), [one.weights for one in weighted])
    return list(zip(weighted, compared, strict=True))


def _correlated_arms(contrast: Correlation, among: QuestionArms) -> CorrelatedArms:
    x, y = contrast.between
    limits, sharing = metrics.metric_of(y).limits, matching(among.arms, among.where)
    out = CorrelatedArms(name_of(contrast), fields_of(contrast), contrast.level, len(sharing))
    for arm in sharing:
        first, second = (among.values(arm, Measure(metric)) for metric in (x, y))
        if first.holes:
            out.holes = True
        elif first.diverged:
            out.diverged.append(f"{first.diverged} of {len(arm.cells)} runs of {arm.label} diverged")
        elif not first.values or not second.values:
            out.without += 1
        elif limits and metrics.end(sum(second.values.values()) / len(second.values), limits):
            out.saturated += 1
        else:
            out.runs += first.runs
            out.pairs.append([(first.values[seed], second.values[seed]) for seed in sorted(first.values)])
    return out
