"""Scales of the dot product by d, by the learning rate, and by the share of the rate with which W_Q and W_K learn.

The sweeps `scale_rates_*` train one head of width d with 1/√d, with 1/d, and with 1/√d whose maps learn at d^−¼ or d^−½
of the rate. Runs of one arm stand in several of these sweeps; here each arm has all its seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev
from typing import NamedTuple

from study.analysis.inference import Arm
from study.analysis.labels import mean_sd, number
from study.analysis.labels import setting as words
from study.analysis.measures import Measure
from study.analysis.runs import ArmRuns, Runs
from study.analysis.tables import Row, Table

PARTS = (
    "recurrent",
    "transformer",
    "by_d",
    "edge",
    "seeds",
    "seeds_2",
    "one_head",
    "four_heads",
    "width_edge",
    "longer",
    "warmup",
)
SWEEPS = tuple(f"scale_rates_{part}" for part in PARTS)
KINDS = {
    ("1/√d", "common"): "1/√d",
    ("1/d", "common"): "1/d",
    ("unscaled", "maps learn as with 1/d"): "1/√d, maps at d^−¼ of the rate",
    ("unscaled", "maps learn at d^−½ of the rate with 1/√d"): "1/√d, maps at d^−½ of the rate",
}
"""Scale and rate of the maps, in words ↦ the arm. An unscaled product whose maps are smaller and slower is 1/√d."""
EXPONENTS = (0.0, -0.25, -0.5)
"""Exponent of d in the share of the rate with which the maps of 1/√d learn, in the order of their arms."""
STARTS_AS_RSQRT = ("1/√d", "1/√d, maps at d^−¼ of the rate", "1/√d, maps at d^−½ of the rate")
RATE = 1e-2
"""Learning rate at which the shares are compared, that of the recipe."""
NLL, EXACT, VALID = Measure("test/nll/without pronouns"), Measure("test/exact"), Measure("valid/nll")


class Setting(NamedTuple):
    """What arms have in common that are compared over learning rates."""

    family: str
    width: int
    heads: int
    d: int
    steps: int
    warmup: int

    @property
    def words(self) -> str:
        """`transformer, width 64, 1 head, d = 1,024`."""
        heads = "1 head" if self.heads == 1 else f"{self.heads} heads"
        more = f", {self.steps:,} updates" if self.steps != 800 else ""
        more += f", warm-up {self.warmup}" if self.warmup != 100 else ""
        return f"{self.family}, width {self.width}, {heads}, d = {self.d:,}{more}"


class Point(NamedTuple):
    """An arm at one learning rate, by its scores: exact match and NLL on the test, NLL on validation."""

    rate: float
    exact: Arm
    nll: Arm
    valid: Arm


def points(runs: Runs) -> dict[Setting, dict[str, list[Point]]]:
    """Return the points of every setting by arm, in the order of learning rates; those without runs left out."""
    present = [name for name in SWEEPS if name in runs.store.manifest["sweeps"]] if runs.store.published else SWEEPS
    settings: dict[Setting, dict[str, list[Point]]] = {}
    for family in ("recurrent", "transformer"):
        for arm in runs.named_arms(present, "grammar", family):
            scores = [runs.values(arm, measure) for measure in (EXACT, NLL, VALID)]
            if scores[0].values:
                kind, setting = _place(arm)
                point = Point(arm.fields["training.learning_rate"], *scores)
                settings.setdefault(setting, {}).setdefault(kind, []).append(point)
    for arms in settings.values():
        for of_arm in arms.values():
            of_arm.sort(key=lambda point: point.rate)
    return settings


def _place(arm: ArmRuns) -> tuple[str, Setting]:
    """Return the arm and the setting of declared runs."""
    experiment = arm.runs[0].cell.experiment
    assert experiment is not None
    site, model, training = experiment.model.attention.aligning, experiment.model, experiment.training
    d = site.key_width or model.width // site.heads
    setting = Setting(model.family, model.width, site.heads, d, training.steps, training.warmup)
    return KINDS[words("scale", site.scale or ""), words("map_rate", site.map_rate)], setting


def best(of_arm: Sequence[Point]) -> Point:
    """Return the point of the learning rate that validation chooses."""
    return min(of_arm, key=lambda point: point.valid.mean or math.inf)


def rates_table(runs: Runs) -> Table:
    """Return the scores of every arm at every learning rate; the rate that validation chooses is bold."""
    rows = []
    for setting, arms in points(runs).items():
        for arm, of_arm in arms.items():
            for point in of_arm:
                chosen = len(of_arm) > 1 and point is best(of_arm)
                cells = {
                    "arm": arm,
                    "rate": f"{point.rate:g}",
                    "n": str(len(point.nll.values)),
                    "exact": mean_sd(point.exact.mean, _sd(point.exact), 1),
                    "nll": mean_sd(point.nll.mean, _sd(point.nll), 3),
                    "valid": number(point.valid.mean, 3),
                }
                numbers = setting._asdict() | {
                    "arm": arm,
                    "learning_rate": point.rate,
                    "chosen": chosen,
                    "n": len(point.nll.values),
                    "exact": point.exact.mean,
                    "nll": point.nll.mean,
                    "valid": point.valid.mean,
                    "runs": " ".join(point.nll.runs),
                }
                bold = frozenset(cells) if chosen else frozenset()
                rows.append(Row(cells, setting.words, bold, numbers))
    columns = {"arm": "arm", "rate": "learning rate", "n": "runs", "exact": "exact match, %"}
    columns |= {"nll": "NLL per sentence (without pronouns)", "valid": "NLL on validation"}
    notes = [
        "Mean ± standard deviation over seeds, at the last update. Bold: of several learning rates the one with the "
        "least mean NLL on validation."
    ]
    return Table("scales: 1/√d, 1/d and slower maps by d and by the learning rate", columns, rows, notes)


def shares_table(runs: Runs) -> Table:
    """Return the share of the rate that is best for the maps of 1/√d, by family and d, and how it falls with d.

    A parabola goes through the mean NLL of the three shares over their exponents e of d. Its least value is at e*.
    The slope is that of e* ln d over ln d, by least squares over d from 64 on; none if an e* is outside the shares.
    """
    least: dict[str, dict[int, tuple[list[float], float | None]]] = {}
    for setting, arms in points(runs).items():
        alike = setting.width == 64 and setting.steps == 800 and setting.warmup == 100
        at_rate = [[p for p in arms.get(arm, ()) if p.rate == RATE] for arm in STARTS_AS_RSQRT]
        if alike and all(at_rate):
            losses = [point.nll.mean or math.nan for (point,) in at_rate]
            least.setdefault(setting.family, {})[setting.d] = losses, vertex(EXPONENTS, losses)
    rows = []
    for family, by_d in least.items():
        fitted = {d: exponent for d, (_, exponent) in by_d.items() if d >= 64}
        exponents = [exponent for exponent in fitted.values() if exponent is not None]
        slope = None
        if len(exponents) == len(fitted) > 1:
            slope = _slope(
                [math.log(d) for d in fitted], [e * math.log(d) for d, e in zip(fitted, exponents, strict=True)]
            )
        for d, (losses, exponent) in sorted(by_d.items()):
            cells = {"arm": f"d = {d:,}"} | {f"nll {i}": number(loss, 3) for i, loss in enumerate(losses)}
            cells |= {"least": number(exponent, 2), "slope": number(slope, 2) if d == max(by_d) else ""}
            numbers = {"family": family, "d": d} | {f"nll_{i}": loss for i, loss in enumerate(losses)}
            rows.append(Row(cells, family, numbers=numbers | {"least": exponent, "slope": slope}))
    columns = {"arm": "d"} | {f"nll {i}": f"NLL, share d^{e:g}".replace("-", "−") for i, e in enumerate(EXPONENTS)}
    columns |= {"least": "best exponent", "slope": "slope over ln d"}
    notes = [
        "One head, width 64, 800 updates, learning rate 0.01. W_Q and W_K of 1/√d learn at a share of the rate. "
        "A parabola through the three losses has its least value at the best exponent (–: outside the shares). "
        "Slope: of ln(best share) over ln d, from d = 64 on."
    ]
    return Table("shares: the share of the learning rate that is best for W_Q and W_K", columns, rows, notes)


def vertex(places: Sequence[float], values: Sequence[float]) -> float | None:
    """Return where a parabola through three equally spaced points is least; None outside them or if not convex."""
    step = places[1] - places[0]
    bend = values[0] - 2 * values[1] + values[2]
    if bend <= 0:
        return None
    place = places[1] - step * (values[2] - values[0]) / (2 * bend)
    return place if min(places) <= place <= max(places) else None


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Slope of the line through points by least squares."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return covariance / sum((a - mean_x) ** 2 for a in x)


def _sd(arm: Arm) -> float:
    """Standard deviation over seeds; NaN of one."""
    return stdev(arm.values.values()) if len(arm.values) > 1 else math.nan
