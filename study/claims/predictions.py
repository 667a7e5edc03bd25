"""Predictions of effects from one sweep for another: what was foretold of each arm, and how many are right.

`predictions.yaml` has what was foretold, with its rule. It was committed before the arms of the second sweep were
trained, and so was this module. docs/statistics.md defines the classes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from study.analysis.agreement import BLEU, agree
from study.analysis.runs import Runs, primary
from study.analysis.tables import rounded
from study.schema import Section
from study.sweep.file import read_yaml

if TYPE_CHECKING:
    import pandas as pd

FILE = Path(__file__).with_name("predictions.yaml")
SIGNS = {"gains": -1, "no difference": 0, "costs": 1, "breaks": 1}
"""Class of an effect ↦ the direction of the loss."""
NAIVE = {"every arm is worse": 1, "nothing matters": 0}
"""Predictor that looks at no arm ↦ its direction for all."""


class Predictions(Section):
    """The file.

    Attributes:
        sweeps: the sweep from which arms are foretold, and that for which.
        breaks: nats of loss in the second sweep from which on an arm breaks the model.
        arms: arm as its sweep has it ↦ what it does.
        blind: `study sweep` shows no test score of the second sweep.
    """

    sweeps: tuple[str, str]
    breaks: float
    arms: dict[str, Literal["gains", "no difference", "costs", "breaks"]]
    blind: bool = False


def read() -> Predictions:
    """Read `predictions.yaml`."""
    return Predictions.model_validate(read_yaml(FILE))


def compare(runs: Runs, predictions: Predictions) -> dict[str, pd.DataFrame]:
    """Return two tables by name; none until every arm of both sweeps has all its runs.

    `predictions` has a row for each arm: its effects, what was foretold and found, and whether class and direction are
    right. `hits` has a row for each predictor: the directions that it has right, their share with the exact binomial
    interval, and p of the exact test of McNemar (1947) against the rule; the rule has its classes, too.

    Args:
        runs: runs of both sweeps.
        predictions: what was foretold.
    """
    from scipy.stats import binomtest

    specs = [runs.spec(name) for name in predictions.sweeps]
    losses = agree(runs, specs, [primary(spec) for spec in specs])
    bleus = agree(runs, specs, ["test/bleu", BLEU])
    if losses.lacking or bleus.lacking or not losses.effects:
        return {}
    rows = []
    for loss, bleu in zip(losses.effects, bleus.effects, strict=True):
        row = {name: value for name, value in loss.items() if name.startswith(("arm", "first", "second"))}
        for end in ("effect", "low", "high"):
            row[f"bleu_{end}"] = bleu[f"second_{end}"]
        row["foretold"] = predictions.arms[loss["arm"]]
        row["found"] = _class(loss, bleu, predictions.breaks)
        row["class"] = row["found"] == row["foretold"]
        row["direction"] = SIGNS.get(row["found"]) == SIGNS[row["foretold"]]
        row["runs"] = loss["runs"]
        rows.append(row)
    guesses = {f"the rule, {part}": [row[part] for row in rows] for part in ("direction", "class")}
    for name, sign in NAIVE.items():
        guesses[name] = [SIGNS.get(row["found"]) == sign for row in rows]
    rule = guesses["the rule, direction"]
    counts = []
    for name, hits in guesses.items():
        share = binomtest(sum(hits), len(hits)).proportion_ci()
        count = {"predictor": name, "hits": sum(hits), "arms": len(hits), "low": share.low, "high": share.high}
        count["p"] = None
        split = [by_rule for by_rule, hit in zip(rule, hits, strict=True) if by_rule != hit]
        if name in NAIVE and split:
            count["p"] = binomtest(sum(split), len(split)).pvalue
        counts.append(count)
    return {"predictions": rounded(rows), "hits": rounded(counts)}


def _class(loss: dict[str, Any], bleu: dict[str, Any], limit: float) -> str:
    """Return the class of an arm's effect in the second sweep, by its effects in NLL and in BLEU."""
    loss_sign = _sign(loss)
    if loss_sign and loss_sign == _sign(bleu):
        return "open"
    if loss_sign > 0 and loss["second_effect"] >= limit:
        return "breaks"
    return {-1: "gains", 0: "no difference", 1: "costs"}[loss_sign]


def _sign(effect: dict[str, Any]) -> int:
    """Return the sign of an effect in the second sweep; 0 if its interval includes 0."""
    if effect["second_low"] > 0:
        return 1
    return -1 if effect["second_high"] < 0 else 0
