"""Prediction of each arm of `decoder_only*.yaml` from the published encoder–decoder, and the power to confirm it.

`python sweeps/decoder_only_power.py` prints the table of a sweep file, and the power. It takes two minutes.

An arm is foretold if a published transformer on the same corpus has the arm's fields at all of its sites. Its effect is
the mean NLL minus that of the base arm (sentences without pronouns on the grammar), with the 95% interval of Welch's
test: below zero it gains, above zero it costs, or breaks from .25 nats on (1 nat on Multi30k); else there is no
difference. These are the limits of study/claims/predictions.yaml.

Power: the new runs are drawn from normal distributions with the published spread of each arm. Effects are the published
ones, half of them, or have nothing to do with them (the published ones in another order). Each draw is scored as the
real runs will be: the directions that the rule has right, against "every arm is worse", by the exact test of McNemar;
and whether the arms that gain are those that were foretold to, by Fisher's exact test.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binomtest, fisher_exact, ttest_ind

from study.config import config_hash, experiment_from
from study.sweep.spec import load

HERE = Path(__file__).parent
BASE = "heads=4"
DRAWS = 2000
APART = ("model.family", "model.source_mask", "model.layers", "training.select", "trainer.threads", "seed", "protocol")
"""Fields of the new sweeps that a published transformer does not share."""
PUBLISHED = {"model.family": "transformer", "model.layers": 1, "protocol": 2, "seed": 1}


class Outcome(NamedTuple):
    """The score that decides a sweep, and the nats of loss from which on an arm breaks the model."""

    split: str
    subset: str | None
    breaks: float


OUTCOMES = {
    "decoder_only": Outcome("test", "without pronouns", 0.25),
    "decoder_only_multi30k": Outcome("test_2016_flickr", None, 1.0),
}


class Foretold(NamedTuple):
    """Prediction of an arm: its counterpart (config hash), the effect there in nats, and the class of the effect."""

    counterpart: str
    effect: float
    kind: str


def losses(outcome: Outcome) -> dict[str, np.ndarray]:
    """Return the losses of all published arms by config hash, 8 letters."""
    columns = ["id", "split", "metric", "subset", "value"]
    scores = pd.read_parquet(HERE.parent / "results" / "scores", columns=columns)
    scores = scores[(scores["split"] == outcome.split) & (scores["metric"] == "nll")]
    whole = scores["subset"].isna()
    scores = scores[whole if outcome.subset is None else scores["subset"] == outcome.subset]
    hashes = scores["id"].str.split("-").str[-2]
    return {name: group.to_numpy(dtype=float) for name, group in scores.groupby(hashes)["value"]}


def counterparts(sweep: str) -> dict[str, str | None]:
    """Return arm ↦ the config hash of the transformer that has its fields; None for arms of the new family alone."""
    hashes: dict[str, str | None] = {}
    for cell in load(HERE / f"{sweep}.yaml").runnable:
        arm = str(cell.given["arm"])
        if arm in hashes:
            continue
        hashes[arm] = None
        if "joint." not in arm and "source_mask=" not in arm:
            shared = {name: value for name, value in cell.overrides.items() if name not in APART}
            hashes[arm] = config_hash(experiment_from(shared | PUBLISHED))[:8]
    return hashes


def effect(arm: np.ndarray, base: np.ndarray, breaks: float) -> tuple[float, str]:
    """Return the effect of an arm and its class."""
    difference = float(arm.mean() - base.mean())
    interval = ttest_ind(arm, base, equal_var=False).confidence_interval()
    if interval.high < 0:
        return difference, "gains"
    if interval.low <= 0:
        return difference, "no difference"
    return difference, "breaks" if difference >= breaks else "costs"


def foretold(sweep: str) -> dict[str, Foretold]:
    """Return what is foretold of each arm whose counterpart has three published runs or more."""
    known, hashes, table = losses(OUTCOMES[sweep]), counterparts(sweep), {}
    base = known[str(hashes[BASE])]
    for arm, name in hashes.items():
        if arm != BASE and name is not None and len(known.get(name, ())) >= 3:
            table[arm] = Foretold(name, *effect(known[name], base, OUTCOMES[sweep].breaks))
    return table


def direction(kind: str) -> int:
    """Return the direction of the loss in a class of effects."""
    return {"gains": -1, "no difference": 0}.get(kind, 1)


def power(sweep: str, seeds: int, share: float | None) -> dict[str, float]:
    """Return the mean number of directions that each rule has right, and the shares of draws that show it.

    Args:
        sweep: name of the sweep.
        seeds: runs of an arm.
        share: of the published effects, that holds in the new family; None: they hold for other arms.
    """
    known, table, rng = losses(OUTCOMES[sweep]), foretold(sweep), np.random.default_rng(1)
    base = known[str(counterparts(sweep)[BASE])]
    rule = np.array([direction(arm.kind) for arm in table.values()])
    effects = np.array([arm.effect for arm in table.values()])
    spreads = [known[arm.counterpart].std(ddof=1) for arm in table.values()]
    sums = dict.fromkeys(("rule", "every arm is worse", "rule shown", "gains shown"), 0.0)
    for _ in range(DRAWS):
        true = rng.permutation(effects) if share is None else share * effects
        first, found = rng.normal(0, base.std(ddof=1), seeds), []
        for mean, spread in zip(true, spreads, strict=True):
            _, kind = effect(rng.normal(mean, spread, seeds), first, OUTCOMES[sweep].breaks)
            found.append(direction(kind))
        signs = np.array(found)
        right, naive = signs == rule, signs == 1
        either = right[right != naive]
        table_of_gains = pd.crosstab(rule == -1, signs == -1).reindex([True, False]).reindex([True, False], axis=1)
        sums["rule"] += right.sum()
        sums["every arm is worse"] += naive.sum()
        if len(either) and either.mean() > 0.5:
            sums["rule shown"] += binomtest(int(either.sum()), len(either)).pvalue < 0.05
        sums["gains shown"] += fisher_exact(table_of_gains.fillna(0), alternative="greater").pvalue < 0.05
    return {name: total / DRAWS for name, total in sums.items()}


def main() -> None:
    """Print both."""
    for sweep in OUTCOMES:
        if not (HERE / f"{sweep}.yaml").is_file():
            continue
        table = foretold(sweep)
        print(f"{sweep}: {len(table)} of {len(counterparts(sweep)) - 1} arms are foretold")
        for arm, (name, difference, kind) in table.items():
            print(f"#   {arm}: {name} {difference:+.3f} {kind}")
        seeds = len(load(HERE / f"{sweep}.yaml").seeds)
        for title, share in (("as published", 1.0), ("half", 0.5), ("of other arms", None)):
            numbers = ", ".join(f"{name} {number:.2f}" for name, number in power(sweep, seeds, share).items())
            print(f"#   effects {title}: {numbers}")


if __name__ == "__main__":
    main()
