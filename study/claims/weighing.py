"""From the entry of a contrast to arms and weights: which declared arms it means, and how they are put together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from study.analysis import measures
from study.analysis.declared import Declared, Library, along, matching, one
from study.analysis.inference import Arm
from study.analysis.measures import Measure
from study.claims import derived
from study.claims.kinds import (
    AnyContrast,
    Band,
    Correlation,
    Costly,
    Difference,
    Interaction,
    Overrides,
    Ratio,
    Trend,
    Within,
)
from study.claims.schema import Question
from study.errors import InputError
from study.sweep.grid import text


@dataclass(frozen=True)
class Weighed:
    """A contrast ready to be tested: its arms, the weight of each, and those whose scores are compared."""

    name: str
    arms: dict[str, Arm]
    weights: dict[str, float]
    sides: tuple[str, ...]
    """Arms whose scores are compared with those of `bases`."""
    bases: tuple[str, ...]
    """Empty where the arms are no scores, such as widths of a band."""
    labels: dict[str, str]
    """Arm ↦ how a reader knows it."""
    declared: int
    """Runs of an arm."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scene:
    """Where contrasts are looked for: the arms of a sweep in one corpus and family, for one question."""

    library: Library
    question: Question
    arms: Sequence[Declared] = field(repr=False)
    margin: float | None = None

    @property
    def measure(self) -> Measure:
        """What the question reads of a run."""
        return Measure(self.question.metric, self.question.by_length, self.question.by_sentences)

    def one(self, chosen: Overrides) -> Declared:
        """The arm that is meant."""
        return one(self.arms, self.question.where | chosen)

    def along(self, chosen: Overrides, *over: str) -> list[tuple[tuple[Any, ...], Declared]]:
        """The arms that are meant, by the values of fields."""
        return along(self.arms, self.question.where | chosen, *over)

    def read(self, arm: Declared, measure: Measure | None = None) -> Arm:
        """What is on disk of an arm."""
        return self.library.measured(arm, measure or self.measure)

    @property
    def sharing(self) -> list[Declared]:
        """Every arm with the fields that the question's arms share."""
        return matching(self.arms, self.question.where)


def chosen_arms(contrast: AnyContrast, scene: Scene) -> list[Declared]:
    """Every arm that a contrast may read, whether or not it has run.

    Raises:
        InputError: an arm is none, or more than one.
    """
    match contrast:
        case Difference():
            sides = (contrast.arm, contrast.baseline)
            over = contrast.best_over
            found = [scene.along(side, *over) for side in sides]
        case Interaction():
            four = (contrast.arm, contrast.baseline, contrast.minus.arm, contrast.minus.baseline)
            found = [scene.along(side) for side in four]
        case Trend():
            found = [scene.along(side, contrast.over) for side in (contrast.arm, contrast.baseline) if side is not None]
            if len({tuple(map(_first, side)) for side in found}) > 1:
                raise InputError(f"arm and baseline have other values of {contrast.over}; give both the same")
            _places(contrast, found[0])
        case Band():
            found = [scene.along(side, contrast.over) for side in (contrast.arm, contrast.baseline)]
        case Within() | Costly():
            return [scene.one(contrast.arm)]
        case Correlation():
            return scene.sharing
    keys = [tuple(arm.key for _, arm in side) for side in found]
    if len(set(keys[:2])) < len(keys[:2]):
        raise InputError("arm and baseline are the same; give what tells them apart")
    return [arm for side in found for _, arm in side]


def _first(pair: tuple[Any, Declared]) -> Any:
    return pair[0]


def weigh(contrast: AnyContrast, scene: Scene) -> Weighed:
    """The arms of a contrast with what is on disk of each, and their weights."""
    match contrast:
        case Difference(best_over=()):
            return _weighed(contrast, scene, [(1, scene.one(contrast.arm)), (-1, scene.one(contrast.baseline))])
        case Difference():
            return _best(contrast, scene)
        case Interaction():
            first, second = contrast, contrast.minus
            parts = [(1, first.arm), (-1, first.baseline), (-1, second.arm), (1, second.baseline)]
            return _weighed(contrast, scene, [(weight, scene.one(side)) for weight, side in parts])
        case Trend():
            return _trend(contrast, scene)
        case Band():
            return _bands(contrast, scene)
        case Within():
            return _within(contrast, scene)
        case Costly():
            return _costly(contrast, scene)
    raise TypeError(f"{contrast.statistic} has no weights")


def joined(weighed: Sequence[Weighed]) -> dict[str, Arm]:
    """Return the arms of all contrasts of a question, by key.

    Raises:
        ValueError: two arms have one key.
    """
    arms: dict[str, Arm] = {}
    for contrast in weighed:
        for key, arm in contrast.arms.items():
            if arms.setdefault(key, arm) != arm:
                raise ValueError(f"two arms have the key {key!r}")
    return arms


def _weighed(contrast: AnyContrast, scene: Scene, parts: Sequence[tuple[float, Declared]], *notes: str) -> Weighed:
    weights: dict[str, float] = {}
    for weight, arm in parts:
        weights[arm.key] = weights.get(arm.key, 0.0) + weight
    arms = {arm.key: arm for _, arm in parts}
    bases = tuple(arm.key for weight, arm in parts if weight < 0)
    if isinstance(contrast, Trend):
        bases = tuple(arms)
    return Weighed(
        name=name_of(contrast),
        arms={key: scene.read(arm) for key, arm in arms.items()},
        weights=weights,
        sides=tuple(key for key in arms if key not in bases),
        bases=bases,
        labels={key: arm.label for key, arm in arms.items()},
        declared=len(parts[0][1].cells),
        notes=notes,
    )


def _costly(contrast: Costly, scene: Scene) -> Weighed:
    """One synthetic arm: the share of heads that cost more than the margin, less a number, run by run."""
    declared, margin = scene.one(contrast.arm), scene.margin or 0.0
    measure = Measure(scene.question.metric, costing=margin)
    key = f"{declared.key} heads that cost more than {margin} − {contrast.minus}"
    return Weighed(
        name=contrast.name or f"{measure.title} − {text(contrast.minus)} %",
        arms={key: derived.above(key, scene.read(declared, measure), contrast.minus)},
        weights={key: 1.0},
        sides=(),
        bases=(),
        labels={key: declared.label},
        declared=len(declared.cells),
    )


def name_of(contrast: AnyContrast) -> str:
    """The contrast in words: what tells its arms apart."""
    if contrast.name:
        return contrast.name
    if isinstance(contrast, Correlation):
        return f"ρ of {' and '.join(contrast.between)}, {'between arms' if contrast.level == 'arms' else 'within arms'}"
    if isinstance(contrast, Within):
        taken = f"the mean of {', '.join(contrast.metrics)}" if len(contrast.metrics) > 1 else contrast.minus
        return f"{contrast.of} − {text(taken) if isinstance(taken, float) else ''.join(taken)}"
    if isinstance(contrast, Costly):
        return f"heads that cost more than the margin − {text(contrast.minus)} %"
    arm, base = contrast.arm, contrast.baseline or {}
    sides = [side for side in (_side(arm, base), _side(base, arm)) if side]
    if isinstance(contrast, Ratio):
        shared = {name: value for name, value in arm.items() if base.get(name) == value}
        return ", ".join([" ÷ ".join(sides), *([_side(shared, {})] if shared else [])])
    name = " − ".join(sides)
    match contrast:
        case Interaction():
            return f"({name}) − ({_side(contrast.minus.arm, arm)})"
        case Trend():
            return f"slope of {name} over {contrast.over.rpartition('.')[2]}"
        case Band():
            return f"{name}, band of good {contrast.over.rpartition('.')[2]}s"
        case Difference(best_over=[*over]) if over:
            return f"{name}, each at its best {' and '.join(one.rpartition('.')[2] for one in over)}"
    return name


def _side(side: Overrides, other: Overrides) -> str:
    own = {name: value for name, value in side.items() if name not in other or other[name] != value}
    return ", ".join(f"{name.rpartition('.')[2]} {text(value)}" for name, value in (own or side).items())


def _best(contrast: Difference, scene: Scene) -> Weighed:
    """Each side at the value of a field that is best on validation."""
    parts, notes = [], []
    for weight, side in ((1, contrast.arm), (-1, contrast.baseline)):
        candidates = scene.along(side, *contrast.best_over)
        place = _chosen([scene.read(arm, Measure(contrast.select)) for _, arm in candidates], contrast.select)
        values, arm = candidates[place]
        parts.append((weight, arm))
        at = [_place(name, i, values, candidates) for i, name in enumerate(contrast.best_over)]
        if scene.read(arm).values:
            notes.append(f"{_side(side, {})} is best at {', '.join(at)}")
    return _weighed(contrast, scene, parts, *notes)


def _place(name: str, i: int, values: Sequence[Any], candidates: Sequence[tuple[Sequence[Any], Declared]]) -> str:
    """`learning_rate 0.003`, and whether that is at the edge of a grid of three values or more."""
    there = sorted({one[i] for one, _ in candidates})
    edge = " (the edge of the grid)" if len(there) > 2 and values[i] in (there[0], there[-1]) else ""
    return f"{name.rpartition('.')[2]} {text(values[i])}{edge}"


def _chosen(arms: Sequence[Arm], select: str) -> int:
    """The best by the mean on validation, of those without a diverged run if there are any; a hole stops the choice."""
    holes = [i for i, arm in enumerate(arms) if arm.holes]
    if holes:
        return holes[0]
    sound = [i for i, arm in enumerate(arms) if not arm.diverged] or [i for i, arm in enumerate(arms) if arm.values]
    means = {i: sum(arms[i].values.values()) / len(arms[i].values) for i in sound}
    return max(means, key=lambda i: means[i] * measures.better(select)) if means else 0


def _trend(contrast: Trend, scene: Scene) -> Weighed:
    levels = scene.along(contrast.arm, contrast.over)
    places = _places(contrast, levels)
    middle = sum(places) / len(places)
    slopes = [(x - middle) / sum((x - middle) ** 2 for x in places) for x in places]
    parts = [(slope, arm) for slope, (_, arm) in zip(slopes, levels, strict=True)]
    if contrast.baseline is not None:
        bases = scene.along(contrast.baseline, contrast.over)
        parts += [(-slope, arm) for slope, (_, arm) in zip(slopes, bases, strict=True)]
    return _weighed(contrast, scene, parts)


def _places(contrast: Trend, levels: Sequence[tuple[Any, Declared]]) -> list[float]:
    """Where the values of the field stand on the axis of the slope."""
    values = [value for (value,), _ in levels]
    if contrast.spacing == "rank":
        return [float(i) for i in range(len(values))]
    if not all(isinstance(value, int | float) and (value > 0 or contrast.spacing == "linear") for value in values):
        raise InputError(f"over {contrast.over}: {values} can't be spaced {contrast.spacing}; use spacing: rank")
    return [math.log2(value) if contrast.spacing == "log2" else float(value) for value in values]


def _bands(contrast: Band, scene: Scene) -> Weighed:
    """Two synthetic arms: the width of each side's band, by seed. The runs that make an arm name it."""
    arms, weights, labels, notes, declared = {}, {}, {}, [], 0
    for weight, side in ((1.0, contrast.arm), (-1.0, contrast.baseline)):
        rates = scene.along(side, contrast.over)
        key = f"band within {contrast.within} of {' '.join(arm.key for _, arm in rates)}"
        arms[key], edge = derived.band(key, [(rate, scene.read(arm)) for (rate,), arm in rates], contrast.within)
        weights[key], labels[key], declared = weight, _side(side, {}), len(rates[0][1].cells)
        notes += [f"{labels[key]}: the best rate is at the grid's edge in {edge} of {declared} runs"] if edge else []
    return Weighed(name_of(contrast), arms, weights, (), (), labels, declared, tuple(notes))


def _within(contrast: Within, scene: Scene) -> Weighed:
    """One arm that is none of the sweep: what the metric is above the other, run by run."""
    declared = scene.one(contrast.arm)
    of = scene.read(declared, Measure(contrast.of))
    key, side = f"{declared.key} {contrast.named} − {contrast.minus}", f"{declared.key} {contrast.of}"
    bases = {f"{declared.key} {metric}": scene.read(declared, Measure(metric)) for metric in contrast.metrics}
    taken = contrast.minus if isinstance(contrast.minus, float) else list(bases.values())
    arms = {key: derived.above(key, of, taken), side: of, **bases}
    return Weighed(
        name=name_of(contrast),
        arms=arms,
        weights={key: 1.0},
        sides=(side,),
        bases=tuple(bases),
        labels=dict.fromkeys(arms, declared.label),
        declared=len(declared.cells),
    )
