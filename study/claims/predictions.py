"""Predictions of effects: what was predicted of each arm, and how many predictions are right.

A file of `FILES` has the predictions, with their rule. It was committed before the arms of its second sweep were
trained. docs/statistics.md defines the classes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from study.analysis.agreement import BLEU, agree
from study.analysis.runs import Runs, primary
from study.analysis.tables import rounded
from study.schema import Section
from study.sweep.file import read_yaml

if TYPE_CHECKING:
    import pandas as pd

FILES = {
    "": "predictions.yaml",
    "-decoder_only": "predictions_decoder_only.yaml",
    "-decoder_only_multi30k": "predictions_decoder_only_multi30k.yaml",
    "-decoder_only_transfer": "predictions_decoder_only_transfer.yaml",
}
"""End of the names of tables ↦ file in this folder."""
SIGNS = {"gains": -1, "no difference": 0, "costs": 1, "breaks": 1}
"""Class of an effect ↦ the direction of the loss."""
NAIVE = {"every arm is worse": 1, "nothing matters": 0}
"""Predictor that looks at no arm ↦ its direction for all."""
GAINS = "the rule, arms that gain"
FITTED = "the rule, class in the fitted unit"
BREAKS = 0.25
"""Nats of loss from which on an arm breaks the model in the first sweep; the rule of all files."""


class Predictions(Section):
    """The file.

    Attributes:
        sweeps: the sweep from which effects are predicted, and that for which; the same one twice if they are predicted
            from the encoder–decoders with the same fields.
        bleu: the scores in BLEU of both; an arm on which the second one clearly says the opposite of NLL is open. None:
            NLL decides alone.
        breaks: nats of loss in the second sweep from which on an arm breaks the model.
        arms: arm as its sweep has it ↦ what it does.
        blind: `study sweep` shows no test score of the second sweep.
    """

    sweeps: tuple[str, str]
    bleu: tuple[str, str] | None = ("test/bleu", BLEU)
    breaks: float
    arms: dict[str, Literal["gains", "no difference", "costs", "breaks"]]
    blind: bool = False


def read() -> dict[str, Predictions]:
    """Read the files: end of the names of tables ↦ predictions."""
    folder = Path(__file__).parent
    return {end: Predictions.model_validate(read_yaml(folder / name)) for end, name in FILES.items()}


def compare(runs: Runs, predictions: Predictions) -> dict[str, pd.DataFrame]:
    """Return two tables by name; none until every arm of both sweeps has all its runs.

    `predictions` has a row for each arm: its effects, what was predicted and found, and whether class and direction are
    right. `hits` has a row for each predictor: the directions that it has right, their share with the exact binomial
    interval, and p of the exact test of McNemar (1947) against the rule.

    The rule has further rows. One counts its classes, and another one its classes with the first sweep's limit in the
    second one's unit: times the slope of the least-squares line through the base arm, of the second effects over the
    first ones. The last one counts the arms that gain among those that were predicted to, with p of Fisher's exact test
    of one side.

    Args:
        runs: runs of both sweeps.
        predictions: what was predicted.
    """
    from scipy.stats import binomtest, fisher_exact

    specs = [runs.spec(name) for name in predictions.sweeps]
    losses = agree(runs, specs, [primary(spec) for spec in specs])
    bleus = agree(runs, specs, predictions.bleu) if predictions.bleu else None
    if losses.lacking or (bleus and bleus.lacking) or not losses.effects:
        return {}
    first, second = (np.array([loss[f"{side}_effect"] for loss in losses.effects]) for side in ("first", "second"))
    fitted = BREAKS * float(first @ second / (first @ first))
    rows, in_unit = [], []
    for place, loss in enumerate(losses.effects):
        bleu = bleus.effects[place] if bleus else None
        row = {name: value for name, value in loss.items() if name.startswith(("arm", "first", "second"))}
        if bleu:
            row |= {f"bleu_{end}": bleu[f"second_{end}"] for end in ("effect", "low", "high")}
        row["foretold"] = predictions.arms[loss["arm"]]
        row["found"] = _class(loss, bleu, predictions.breaks)
        in_unit.append(_class(loss, bleu, fitted) == row["foretold"])
        row["class"] = row["found"] == row["foretold"]
        row["direction"] = SIGNS.get(row["found"]) == SIGNS[row["foretold"]]
        row["runs"] = loss["runs"]
        rows.append(row)
    guesses = {f"the rule, {part}": [row[part] for row in rows] for part in ("direction", "class")}
    guesses[FITTED] = in_unit
    for name, sign in NAIVE.items():
        guesses[name] = [SIGNS.get(row["found"]) == sign for row in rows]
    rule = guesses["the rule, direction"]
    guesses[GAINS] = [row["found"] == "gains" for row in rows if row["foretold"] == "gains"]
    counts = []
    for name, hits in guesses.items():
        if not hits:
            continue
        share = binomtest(sum(hits), len(hits)).proportion_ci()
        count = {"predictor": name, "hits": sum(hits), "arms": len(hits), "low": share.low, "high": share.high}
        count["p"] = None
        split = [by_rule for by_rule, hit in zip(rule, hits, strict=False) if by_rule != hit]
        if name in NAIVE and split:
            count["p"] = binomtest(sum(split), len(split)).pvalue
        if name == GAINS and len(hits) < len(rows):
            rest = [row["found"] == "gains" for row in rows if row["foretold"] != "gains"]
            table = [[sum(side), len(side) - sum(side)] for side in (hits, rest)]
            count["p"] = fisher_exact(table, "greater").pvalue
        counts.append(count)
    return {"predictions": rounded(rows), "hits": rounded(counts)}


def _class(loss: dict[str, Any], bleu: dict[str, Any] | None, limit: float) -> str:
    """Return the class of an arm's effect in the second sweep, by its effects in NLL and, if there is one, in BLEU."""
    loss_sign = _sign(loss)
    if bleu and loss_sign and loss_sign == _sign(bleu):
        return "open"
    if loss_sign > 0 and loss["second_effect"] >= limit:
        return "breaks"
    return {-1: "gains", 0: "no difference", 1: "costs"}[loss_sign]


def _sign(effect: dict[str, Any]) -> int:
    """Return the sign of an effect in the second sweep; 0 if its interval includes 0."""
    if effect["second_low"] > 0:
        return 1
    return -1 if effect["second_high"] < 0 else 0
