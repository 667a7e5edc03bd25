"""Predictions of effects from one sweep for another: what was foretold of each arm, and how many are right.

`predictions.yaml` has what was foretold, with its rule. It was committed before the arms of the second sweep were
trained, and so was this module. docs/statistics.md defines the classes.
"""

from __future__ import annotations

from collections.abc import Hashable
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
"""Class of an effect ↦ the direction of the loss; the class `open` has none."""
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
    import pandas as pd
    from scipy.stats import binomtest

    specs = [runs.spec(name) for name in predictions.sweeps]
    losses = agree(runs, specs, [primary(spec) for spec in specs])
    bleus = agree(runs, specs, ["test/bleu", BLEU])
    if losses.lacking or bleus.lacking or not losses.effects:
        return {}
    loss, bleu = pd.DataFrame(losses.effects), pd.DataFrame(bleus.effects)
    arms = loss.drop(columns=["family", "runs"])
    for end in ("effect", "low", "high"):
        arms[f"bleu_{end}"] = bleu[f"second_{end}"]
    arms["foretold"] = arms["arm"].map(predictions.arms)
    arms["found"] = [_class(row, predictions.breaks) for row in arms.to_dict("records")]
    direction = arms["found"].map(SIGNS)
    arms["class"] = arms["found"] == arms["foretold"]
    arms["direction"] = direction == arms["foretold"].map(SIGNS)
    arms["runs"] = loss["runs"]
    hits = arms[["direction", "class"]].add_prefix("the rule, ")
    for name, sign in NAIVE.items():
        hits[name] = direction == sign
    rule = hits["the rule, direction"]
    counts = []
    for predictor, right in hits.items():
        number = int(right.sum())
        share = binomtest(number, len(arms)).proportion_ci()
        differing = rule[rule != right]
        p = binomtest(differing.sum(), len(differing)).pvalue if predictor in NAIVE and len(differing) else None
        ends = {"low": share.low, "high": share.high, "p": p}
        counts.append({"predictor": predictor, "hits": number, "arms": len(arms), **ends})
    return {"predictions": rounded(arms.to_dict("records")), "hits": rounded(counts)}


def _class(arm: dict[Hashable, Any], limit: float) -> str:
    """Return the class of an arm's effect in the second sweep, by its effects in NLL and in BLEU."""
    loss_sign, bleu_sign = _sign(arm, "second"), _sign(arm, "bleu")
    if loss_sign and loss_sign == bleu_sign:
        return "open"
    if loss_sign > 0 and arm["second_effect"] >= limit:
        return "breaks"
    return {-1: "gains", 0: "no difference", 1: "costs"}[loss_sign]


def _sign(arm: dict[Hashable, Any], score: str) -> int:
    """Return the sign of an effect; 0 if its interval includes 0."""
    if arm[f"{score}_low"] > 0:
        return 1
    return -1 if arm[f"{score}_high"] < 0 else 0
