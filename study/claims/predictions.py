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


def compare(runs: Runs, told: Predictions) -> dict[str, pd.DataFrame]:
    """Return two tables by name; none until every arm of both sweeps has all its runs.

    `predictions` has a row for each arm: its effects, what was foretold and found, and whether class and direction are
    right. `hits` has a row for each predictor: the directions that it has right, their share with the exact binomial
    interval, and p of the exact test of McNemar (1947) against the rule; the rule has its classes, too.

    Args:
        runs: runs of both sweeps.
        told: the predictions.
    """
    from scipy.stats import binomtest

    specs = [runs.spec(name) for name in told.sweeps]
    own = agree(runs, specs, [primary(spec) for spec in specs])
    beside = agree(runs, specs, ["test/bleu", BLEU])
    if own.lacking or beside.lacking or not own.effects:
        return {}
    rows = []
    for row, other in zip(own.effects, beside.effects, strict=True):
        found, foretold = _found(row, other, told.breaks), told.arms[row["arm"]]
        known = {name: value for name, value in row.items() if name.startswith(("arm", "first", "second"))}
        known |= {f"bleu_{end}": other[f"second_{end}"] for end in ("effect", "low", "high")}
        right = {"class": found == foretold, "direction": SIGNS.get(found) == SIGNS[foretold]}
        rows.append({**known, "foretold": foretold, "found": found, **right, "runs": row["runs"]})
    guesses = {f"the rule, {part}": [row[part] for row in rows] for part in ("direction", "class")}
    guesses |= {name: [SIGNS.get(row["found"]) == sign for row in rows] for name, sign in NAIVE.items()}
    rule, counts = guesses["the rule, direction"], []
    for name, hits in guesses.items():
        share = binomtest(sum(hits), len(hits)).proportion_ci()
        known = {"predictor": name, "hits": sum(hits), "arms": len(hits), "low": share.low, "high": share.high}
        split = [a for a, b in zip(rule, hits, strict=True) if a != b] if name in NAIVE else []
        counts.append({**known, "p": binomtest(sum(split), len(split)).pvalue if split else None})
    return {"predictions": rounded(rows), "hits": rounded(counts)}


def _found(row: dict[str, Any], other: dict[str, Any], limit: float) -> str:
    """Return what an arm does in the second sweep, by its effects in NLL and in BLEU."""
    worse, better = ((one["second_low"] > 0) - (one["second_high"] < 0) for one in (row, other))
    if worse and worse == better:
        return "open"
    if worse > 0 and row["second_effect"] >= limit:
        return "breaks"
    return {-1: "gains", 0: "no difference", 1: "costs"}[worse]
