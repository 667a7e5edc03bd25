"""Agreement of two sweeps with the same arms: effects in one against effects in the other, and their rank correlation.

An effect is the mean of an arm minus that of its family's baseline, the first arm listed, in each sweep's own score.
Arms are the same if what their texts set is the same, fields of training aside. Only seeds count for which every arm
of the family has a score, so that an unfinished sweep compares whole blocks of seeds. An arm with a diverged run is
left out; a family whose baseline has one, too.

Noise of seeds makes ρ smaller than that of the true effects. So each ρ has a ceiling: the ρ that effects of equal order
would show with the same noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from study.analysis.inference import FEWEST_ARMS, LEVEL, RESAMPLES, Arm, Test, contrast, rank_correlation, spearman
from study.analysis.labels import arm_words, interval, number
from study.analysis.runs import Runs, primary
from study.analysis.tables import Block, Column, Row, Table
from study.metrics import title
from study.sweep.grid import ARM, Cell, expand, text
from study.sweep.spec import Spec

MARGIN = 0.3
"""Smallest rank correlation of interest."""
PAIRS = {"transfer": ("transfer_grammar", "transfer_multi30k"), "longer": ("shorter", "longer")}
"""Figures and tables of agreement ↦ their two sweeps."""
BESIDE = dict.fromkeys(("transfer_grammar", "shorter", "longer"), "test/exact/without pronouns") | {
    "transfer_multi30k": "test_2016_flickr/bleu"
}
"""Sweep ↦ the score beside its own."""
DATA = {"transfer_grammar": "grammar", "transfer_multi30k": "Multi30k"} | {
    "shorter": "grammar",
    "longer": "grammar, four times the updates",
}
"""Sweep ↦ its data in words."""
CONCLUSIONS = {
    "agree": "the orders agree",
    "opposite": "the orders are opposite",
    "no relation": f"no relation beyond ±{number(MARGIN, 1)}",
    "not decided": "not decided",
    "no interval": "no interval",
}
"""Relation of two orders of effects, as a rank correlation shows it ↦ its text in tables."""
CEILING = (
    "ρ: Spearman's rank correlation of the effects over arms. Ceiling: the ρ that effects of equal order would show "
    "with the same noise of seeds."
)


@dataclass(frozen=True)
class Effect:
    """One arm: its difference to the baseline of its family in both sweeps, with Welch's 95% intervals.

    Attributes:
        arm: label, such as `scale=none key_width=512`.
        runs: ids of the runs that count, of the arm in both sweeps.
    """

    family: str
    arm: str
    first: Test
    second: Test
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Agreement:
    """Effects of the arms of two sweeps, and the rank correlation of each family and of all arms.

    Attributes:
        correlations: family, or an empty text for several together ↦ Spearman's ρ; no entry where arms are too few.
        ceilings: the same ↦ the ρ that effects of equal order would show; NaN with one seed.
        seeds: family ↦ seeds that count in each sweep.
        diverged: arms that are left out.
    """

    effects: tuple[Effect, ...]
    correlations: Mapping[str, Test]
    ceilings: Mapping[str, float]
    seeds: Mapping[str, tuple[int, int]]
    diverged: tuple[str, ...] = ()


def agree(runs: Runs, specs: Sequence[Spec], metrics: Sequence[str]) -> Agreement:
    """Compare the effects of the arms that two sweeps share.

    The interval of ρ is Student's t on Fisher's scale, over n − 1 degrees of freedom for n arms, with the variance
    (1 + ρ²/2) / (n − 3) of Bonett and Wright (2000). Observed pairs of effects vary by arms and by noise of seeds, so
    it covers both. It does not cover the noise of baselines, which shifts all arms of a family. This leaves a family's
    ρ as it is; the variance of 2,000 resamples of the baselines' seeds is added for ρ over several families. If ρ is 1,
    the interval is that of the value halfway to the next possible one.

    The ceiling is √(r₁ r₂), where r = 2 − 1/r′ is the reliability of the effects of a sweep, and r′ the mean ρ of two
    resamples of its seeds. (If effects have variance T and noise σ², two resamples correlate by (T + σ²) / (T + 2σ²),
    and r = T / (T + σ²).) In resamples, deviations of a mean of n seeds are multiplied by √(n / (n − 1)), because
    resampling n values understates their variance by that factor.

    Args:
        runs: the runs of both sweeps.
        specs: the two sweeps.
        metrics: the score of each, as `split/metric` or `split/metric/subset`.
    """
    sides = [_scores(runs, spec, metric) for spec, metric in zip(specs, metrics, strict=True)]
    families: dict[str, list[str]] = {}
    for family, arm in dict.fromkeys(zip(sides[0]["family"], sides[0]["arm"], strict=True)):
        if arm in set(sides[1]["arm"]):
            families.setdefault(family, []).append(arm)
    lost = {arm for side in sides for arm in side["arm"][side["state"] == "diverged"]}
    effects, seeds, blocks = list[Effect](), dict[str, tuple[int, int]](), dict[str, list[Any]]()
    for family, arms in families.items():
        kept = [arm for arm in arms if arm not in lost] if arms[0] not in lost else []
        tables = [side.pivot(index="arm", columns="seed").loc[kept] for side in sides]
        scores = [table["value"].dropna(axis=1) for table in tables]
        if not kept or any(table.empty for table in scores):
            continue
        seeds[family], blocks[family] = (scores[0].shape[1], scores[1].shape[1]), [one.to_numpy() for one in scores]
        for place, arm in enumerate(kept[1:], 1):
            tests = [_difference(block[place], block[0]) for block in blocks[family]]
            ids = (table["id"].loc[arm, own.columns] for table, own in zip(tables, scores, strict=True))
            effects.append(Effect(family, label(arm), tests[0], tests[1], tuple(itertools.chain(*ids))))
    correlations, ceilings = {}, {}
    for name in ([""] if len(blocks) > 1 else []) + list(blocks):
        found, ceiling = _correlation([block for family, block in blocks.items() if name in ("", family)])
        if found is not None:
            correlations[name], ceilings[name] = found, ceiling
    diverged = tuple(label(arm) for arms in families.values() for arm in arms if arm in lost)
    return Agreement(tuple(effects), correlations, ceilings, seeds, diverged)


def _scores(runs: Runs, spec: Spec, metric: str) -> Any:
    """Return one row a run: family, arm (the settings of its text), seed, id, state and value."""
    frame = runs.declared(spec, [metric]).rename(columns={metric: "value"})
    made = [cell.experiment for cell in spec.cells]
    frame = frame.assign(arm=[_key(cell) for cell in spec.cells], family=[e.model.family if e else "" for e in made])
    return frame.loc[frame["id"] != "", ["family", "arm", "seed", "id", "state", "value"]]


def _key(cell: Cell) -> str:
    """Return the settings of an arm's text without fields of training: `model.family=recurrent model.memory=final`."""
    given = expand({ARM: cell.given[ARM]}) if ARM in cell.given else {}
    return " ".join(f"{name}={text(value)}" for name, value in given.items() if not name.startswith("training."))


def label(arm: str) -> str:
    """Return an arm as labels of sweeps have it: the last parts of its fields, without the family."""
    words = [word.removeprefix("model.").removeprefix("attention.") for word in arm.split()]
    return " ".join(word for word in words if not word.startswith(("family=", "init=")))


def _difference(arm: Sequence[float], base: Sequence[float]) -> Test:
    return contrast([(1.0, Arm("arm", dict(enumerate(arm)))), (-1.0, Arm("base", dict(enumerate(base))))])


def _correlation(blocks: Sequence[Sequence[Any]]) -> tuple[Test | None, float]:
    """Return Spearman's ρ of the effects in both sweeps, and its ceiling; None for too few arms, NaN for one seed.

    Args:
        blocks: for each family the scores in both sweeps: a row for each arm (baseline first), a column for each seed.
    """
    if sum(len(first) - 1 for first, _ in blocks) < FEWEST_ARMS:
        return None, math.nan
    draw, whole, noisy, shifted = np.random.default_rng(0), [], [], []
    for side in zip(*blocks, strict=True):
        means = [scores.mean(axis=1)[None] for scores in side]
        again = [np.stack([_resampled(arm, draw) for arm in scores], axis=1) for scores in side]
        pairs = list(zip(means, again, strict=True))
        whole.append(np.hstack([mean[:, 1:] - mean[:, :1] for mean in means]))
        noisy.append(np.hstack([resample[:, 1:] - resample[:, :1] for resample in again]))
        shifted.append(np.hstack([mean[:, 1:] - resample[:, :1] for mean, resample in pairs]))
    rho, n = float(spearman(*whole)[0]), whole[0].size
    if not math.isfinite(rho):
        return None, math.nan
    ceiling = math.sqrt(math.prod(map(_reliability, noisy)))
    last = 1 - 6 / (n * (n**2 - 1))
    inner = max(-last, min(last, rho))
    shift = float(np.std(np.arctanh(np.clip(spearman(*shifted), -last, last)), ddof=1)) if len(blocks) > 1 else 0.0
    if not math.isfinite(shift):
        return Test("resampled", rho), ceiling
    error = math.sqrt((1 + inner**2 / 2) / (n - 3) + shift**2)
    return replace(rank_correlation(inner, error * (1 - inner**2), n - 1), difference=rho), ceiling


def _resampled(scores: Any, draw: np.random.Generator) -> Any:
    """Return resampled means of an arm's scores with the variance of a mean of n; NaN with one seed."""
    n = len(scores)
    if n == 1:
        return np.full(RESAMPLES, math.nan)
    means = scores[draw.integers(0, n, (RESAMPLES, n))].mean(axis=1)
    return scores.mean() + math.sqrt(n / (n - 1)) * (means - scores.mean())


def _reliability(noisy: Any) -> float:
    """Return the reliability of effects, 0–1, from resamples of their seeds (a row each); see `agree`."""
    half = len(noisy) // 2
    between = float(np.mean(spearman(noisy[:half], noisy[half : 2 * half])))
    return 0.0 if between <= 0 else float(np.maximum(0.0, 2 - 1 / between))


def conclusion(rho: Test) -> str:
    """Return what a rank correlation shows about two orders of effects, by the rules of findings."""
    if rho.p is None:
        return "no interval"
    if rho.p < LEVEL:
        return "agree" if (rho.difference or 0.0) > 0 else "opposite"
    none = rho.low90 is not None and rho.high90 is not None and rho.low90 > -MARGIN and rho.high90 < MARGIN
    return "no relation" if none else "not decided"


def seeds_in_words(seeds: Mapping[str, tuple[int, int]]) -> str:
    """Return the seeds of both sweeps, `5 and 3`, of each family that has another number."""
    return ", ".join(dict.fromkeys(f"{first} and {second}" for first, second in seeds.values()))


def compare(runs: Runs, name: str) -> dict[str, Table]:
    """Return the tables of a pair of sweeps by their names: effects in the sweeps' own scores, and rank correlations.

    `agreement-<name>` has the effects. `correlation-<name>` has ρ of these effects and of the scores beside them; it is
    left out with too few arms. Empty if no seed has all arms in both sweeps.

    Args:
        runs: runs of both sweeps.
        name: key of `PAIRS`.
    """
    specs = [runs.spec(one) for one in PAIRS[name]]
    own, both = [primary(spec) for spec in specs], f"{specs[0].name} and {specs[1].name}"
    found = agree(runs, specs, own)
    if not found.effects:
        return {}
    tables = {f"agreement-{name}": Table(f"{both}: effects of the same arms", *_effects(specs, own, found))}
    beside = [BESIDE[spec.name] for spec in specs]
    blocks = [_correlations(specs, own, found), _correlations(specs, beside, agree(runs, specs, beside))]
    if blocks[0].rows:
        heads = {"family": "family", "rho": "ρ", "ci": "95% CI", "ceiling": "ceiling", "conclusion": "conclusion"}
        columns = [Column(k, head, "left" if k in ("family", "conclusion") else "right") for k, head in heads.items()]
        tables[f"correlation-{name}"] = Table(f"{both}: rank correlation of the effects", columns, blocks, [CEILING])
    return tables


def _effects(specs: Sequence[Spec], metrics: Sequence[str], found: Agreement) -> tuple[Any, Any, Any]:
    """Return columns, blocks and notes: a row for each effect, a block for each family."""
    columns, rows = [Column("arm", "arm", "left")], dict[str, list[Row]]()
    for side, spec, metric in zip(("first", "second"), specs, metrics, strict=True):
        data = DATA[spec.name]
        columns += [Column(side, f"{data}: {title(metric)}"), Column(f"{side} ci", f"95% CI, {data}")]
    for effect in found.effects:
        cells = {"arm": arm_words(effect.arm)}
        numbers: dict[str, Any] = {"family": effect.family, "arm": effect.arm}
        for side, test in (("first", effect.first), ("second", effect.second)):
            cells |= {side: number(test.difference, 3, sign=True), f"{side} ci": interval(test.low, test.high, 3)}
            numbers |= {f"{side}_effect": test.difference, f"{side}_low": test.low, f"{side}_high": test.high}
        rows.setdefault(effect.family, []).append(Row(cells, numbers=numbers, runs=effect.runs))
    notes = [
        "An effect is the mean of an arm minus that of the first arm listed of its family; 95% intervals by Welch's "
        f"test, unadjusted. Seeds that every arm has: {seeds_in_words(found.seeds)}.",
    ]
    if found.diverged:
        notes.append(f"Left out, because a run diverged: {', '.join(map(arm_words, found.diverged))}.")
    return columns, [Block(family, some) for family, some in rows.items()], notes


def _correlations(specs: Sequence[Spec], metrics: Sequence[str], found: Agreement) -> Block:
    """Return a row for each rank correlation: of all arms, if there are several families, then of each family."""
    rows = []
    for family, rho in found.correlations.items():
        numbers: dict[str, Any] = {"family": family or "all", "first_metric": metrics[0], "second_metric": metrics[1]}
        numbers |= {"rho": rho.difference, "low": rho.low, "high": rho.high, "ceiling": found.ceilings[family]}
        counted = [effect for effect in found.effects if family in ("", effect.family)]
        numbers |= {"conclusion": conclusion(rho), "arms": len(counted)}
        cells = {"family": numbers["family"], "conclusion": CONCLUSIONS[numbers["conclusion"]]}
        cells |= {name: number(numbers[name], 2) for name in ("rho", "ceiling")}
        cells |= {"ci": interval(rho.low, rho.high, 2, sign=False)}
        rows.append(Row(cells, numbers=numbers, runs=tuple(run for effect in counted for run in effect.runs)))
    heads = (f"{DATA[spec.name]}: {title(metric)}" for spec, metric in zip(specs, metrics, strict=True))
    return Block("; ".join(heads), rows)
