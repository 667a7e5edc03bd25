"""Scales of the dot product by d, by the learning rate, and by the share of the rate with which W_Q and W_K learn.

The sweeps `scale_rates_*` train one head of width d with 1/√d, with 1/d, and with 1/√d whose W_Q and W_K learn at
d^−¼ or d^−½ of the rate. Runs of one arm stand in several of these sweeps; here each arm has all its seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import linear_regression
from typing import TYPE_CHECKING, Any

import numpy as np

from study.analysis.labels import mean_sd, number, setting
from study.analysis.measures import Measure
from study.analysis.runs import ArmRuns, Runs
from study.analysis.tables import Row, Table

if TYPE_CHECKING:
    import pandas as pd

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
    "one_head_low",
    "longer",
    "warmup",
)
SWEEPS = tuple(f"scale_rates_{part}" for part in PARTS)
KINDS = {
    ("1/√d", "common"): "1/√d",
    ("1/d", "common"): "1/d",
    ("unscaled", "W_Q and W_K learn as with 1/d"): "1/√d, W_Q and W_K at d^−¼ of the rate",
    ("unscaled", "W_Q and W_K learn at d^−½ of the rate with 1/√d"): "1/√d, W_Q and W_K at d^−½ of the rate",
}
"""Scale and rate of W_Q and W_K, in words ↦ the arm. An unscaled product is 1/√d if both are smaller and slower."""
ARMS = ("1/√d", "1/√d, W_Q and W_K at d^−¼ of the rate", "1/√d, W_Q and W_K at d^−½ of the rate")
EXPONENTS = (0.0, -0.25, -0.5)
LOSSES = ("nll_0", "nll_1", "nll_2")
"""Arms of 1/√d; exponents of d in the share of the rate with which W_Q and W_K learn; columns of their losses."""
SETTING = ("family", "width", "heads", "d", "steps", "warmup")
"""Columns that arms have in common that are compared over learning rates."""
NUMBERS = (*SETTING, "arm", "learning_rate", "chosen", "n", "exact", "exact_sd", "nll", "nll_sd", "valid", "runs")
"""Columns of the CSV."""
RATE = 1e-2
"""Learning rate at which the shares are compared, that of the recipe."""
NLL, EXACT, VALID = Measure("test/nll/without pronouns"), Measure("test/exact"), Measure("valid/nll")


def points(runs: Runs) -> pd.DataFrame:
    """Return one row for each arm at each learning rate, a setting after the other; those without runs are left out.

    Columns: `NUMBERS` (means and standard deviations over seeds; chosen: of several rates it has the least NLL on
    validation), and best: chosen, or the only rate.
    """
    import pandas as pd

    present = [name for name in SWEEPS if name in runs.store.manifest["sweeps"]] if runs.store.published else SWEEPS
    rows = []
    for family in ("recurrent", "transformer"):
        for arm in runs.named_arms(present, "grammar", family):
            exact, nll, valid = (runs.values(arm, measure) for measure in (EXACT, NLL, VALID))
            if exact.values:
                row = _setting(arm) | {"n": len(nll.values), "valid": valid.mean, "runs": " ".join(nll.runs)}
                row |= {"exact": exact.mean, "exact_sd": exact.sd, "nll": nll.mean, "nll_sd": nll.sd}
                rows.append(row)
    frame = pd.DataFrame(rows, columns=NUMBERS)
    settings = frame.groupby(list(SETTING), sort=False)
    curves = frame.groupby([*SETTING, "arm"], sort=False)
    frame["best"] = frame.index.isin(curves["valid"].idxmin())
    frame["chosen"] = frame["best"] & curves["valid"].transform("size").gt(1)
    order = pd.DataFrame({"setting": settings.ngroup(), "curve": curves.ngroup(), "rate": frame["learning_rate"]})
    return frame.loc[order.sort_values(["setting", "curve", "rate"]).index]


def usual(table: pd.DataFrame) -> pd.DataFrame:
    """Return the points of models of width 64 with 800 updates and a warm-up of 100."""
    return table[(table["width"] == 64) & (table["steps"] == 800) & (table["warmup"] == 100)]


def _setting(arm: ArmRuns) -> dict[str, Any]:
    """Return what declared runs are: their setting, arm and learning rate."""
    model, training = arm.experiment.model, arm.experiment.training
    site = model.attention.aligning
    return {
        "family": model.family,
        "width": model.width,
        "heads": site.heads,
        "d": site.key_width or model.width // site.heads,
        "steps": training.steps,
        "warmup": training.warmup,
        "arm": KINDS[setting("scale", site.scale or ""), setting("map_rate", site.map_rate)],
        "learning_rate": training.learning_rate,
    }


def _words(point: Mapping[Any, Any]) -> str:
    """`transformer, width 64, 1 head, d = 1,024`."""
    heads = "1 head" if point["heads"] == 1 else f"{point['heads']} heads"
    words = f"{point['family']}, width {point['width']}, {heads}, d = {point['d']:,}"
    if point["steps"] != 800:
        words += f", {point['steps']:,} updates"
    if point["warmup"] != 100:
        words += f", warm-up {point['warmup']}"
    return words


def rates_table(runs: Runs) -> Table:
    """Return the scores of every arm at every learning rate; the rate that validation chooses is bold."""
    rows = []
    for point in points(runs).drop(columns="best").to_dict("records"):
        cells = {
            "arm": point["arm"],
            "rate": f"{point['learning_rate']:g}",
            "n": str(point["n"]),
            "exact": mean_sd(point["exact"], point["exact_sd"], 1),
            "nll": mean_sd(point["nll"], point["nll_sd"], 3),
            "valid": number(point["valid"], 3),
        }
        bold = frozenset(cells) if point["chosen"] else frozenset()
        rows.append(Row(cells, _words(point), bold, point))
    columns = {"arm": "arm", "rate": "learning rate", "n": "runs", "exact": "exact match, %"}
    columns |= {"nll": "NLL per sentence (without pronouns)", "valid": "NLL on validation"}
    notes = [
        "Mean ± standard deviation over seeds, at the last update. Bold: of several learning rates the one with the "
        "least mean NLL on validation."
    ]
    return Table("scales: 1/√d, 1/d and slower W_Q and W_K by d and by the learning rate", columns, rows, notes)


def shares_table(runs: Runs) -> Table:
    """Return the share of the rate that is best for W_Q and W_K under 1/√d, by family and d, and how it falls with d.

    A parabola goes through the mean NLL of the three shares over their exponents e of d. Its least value is at e*.
    The slope is that of e* ln d over ln d, by least squares over d from 64 on; none if an e* is outside the shares.
    """
    table = usual(points(runs))
    at_rate = table[table["learning_rate"] == RATE]
    losses = at_rate.pivot(index=["family", "d"], columns="arm", values="nll").reindex(columns=ARMS).dropna()
    losses = losses.set_axis(LOSSES, axis=1)
    losses["least"] = [vertex(EXPONENTS, values) for values in losses.to_numpy().tolist()]
    rows = []
    for family, by_d in losses.reset_index().groupby("family"):
        large = by_d[by_d["d"] >= 64]
        slope = None
        if len(large) > 1 and large["least"].notna().all():
            log_d = np.log(large["d"])
            slope = linear_regression(log_d, large["least"] * log_d).slope
        for row in by_d.to_dict("records"):
            cells = {"arm": f"d = {row['d']:,}", "least": number(row["least"], 2)}
            cells["slope"] = number(slope, 2) if row["d"] == by_d["d"].max() else ""
            for name in LOSSES:
                cells[name] = number(row[name], 3)
            rows.append(Row(cells, str(family), numbers=row | {"slope": slope}))
    columns = {"arm": "d"}
    for name, exponent in zip(LOSSES, EXPONENTS, strict=True):
        columns[name] = f"NLL, share d^{exponent:g}".replace("-", "−")
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
