"""Predictions of effects: what was predicted of each arm, and how many predictions are right.

A file of `FILES` has the predictions, with their rule. It was committed before the arms of its second sweep were
trained. docs/statistics.md defines the classes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from study.analysis.agreement import BLEU, agree
from study.analysis.runs import Runs
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
"""Class of an effect ↦ the direction of the loss; the class `open` has none."""
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
    import pandas as pd
    from scipy.stats import binomtest, fisher_exact

    specs = [runs.spec(name) for name in predictions.sweeps]
    losses = agree(runs, specs, [spec.metric for spec in specs])
    bleus = agree(runs, specs, predictions.bleu) if predictions.bleu else None
    if losses.lacking or (bleus and bleus.lacking) or not losses.effects:
        return {}
    arms = pd.DataFrame(losses.effects).drop(columns="family")
    if bleus:
        bleu = pd.DataFrame(bleus.effects)
        for end in ("effect", "low", "high"):
            arms[f"bleu_{end}"] = bleu[f"second_{end}"]
    slope = (arms["first_effect"] * arms["second_effect"]).sum() / (arms["first_effect"] ** 2).sum()
    arms["foretold"] = arms["arm"].map(predictions.arms)
    arms["found"] = _classes(arms, predictions.breaks)
    direction = arms["found"].map(SIGNS)
    arms["class"] = arms["found"] == arms["foretold"]
    arms["direction"] = direction == arms["foretold"].map(SIGNS)
    arms["runs"] = arms.pop("runs")
    hits = arms[["direction", "class"]].add_prefix("the rule, ")
    hits[FITTED] = _classes(arms, BREAKS * slope) == arms["foretold"]
    for name, sign in NAIVE.items():
        hits[name] = direction == sign
    counts = []
    for predictor, right in hits.items():
        differing = arms["direction"][arms["direction"] != right]
        p = binomtest(differing.sum(), len(differing)).pvalue if predictor in NAIVE and len(differing) else None
        counts.append({"predictor": predictor, **_share(right), "p": p})
    predicted, gains = arms["foretold"] == "gains", arms["found"] == "gains"
    if predicted.any():
        table = [[(gains & side).sum(), (~gains & side).sum()] for side in (predicted, ~predicted)]
        p = None if predicted.all() else fisher_exact(table, "greater").pvalue
        counts.append({"predictor": GAINS, **_share(gains[predicted]), "p": p})
    return {"predictions": rounded(arms.to_dict("records")), "hits": rounded(counts)}


def _share(right: pd.Series) -> dict[str, Any]:
    """Return how many are right, of how many, and the exact interval of their share."""
    from scipy.stats import binomtest

    number = int(right.sum())
    share = binomtest(number, len(right)).proportion_ci()
    return {"hits": number, "arms": len(right), "low": share.low, "high": share.high}


def _classes(arms: pd.DataFrame, limit: float) -> pd.Series:
    """Return the class of each effect in the second sweep, by the effects in NLL and, if there are any, in BLEU."""
    sign = _sign(arms, "second")
    classes = sign.map({-1: "gains", 0: "no difference", 1: "costs"})
    classes[(sign > 0) & (arms["second_effect"] >= limit)] = "breaks"
    if "bleu_low" in arms:
        classes[(sign != 0) & (sign == _sign(arms, "bleu"))] = "open"
    return classes


def _sign(arms: pd.DataFrame, score: str) -> pd.Series:
    """Return the sign of each effect; 0 if its interval includes 0."""
    return (arms[f"{score}_low"] > 0).astype(int) - (arms[f"{score}_high"] < 0).astype(int)
