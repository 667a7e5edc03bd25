"""Agreement of two sweeps with the same arms: effects in one against effects in the other, and their rank correlation.

An effect is the mean of an arm minus that of its family's baseline, the first arm listed, in each sweep's own score.
Arms are the same if what their texts set is the same, fields of training aside. Only seeds count for which every arm
has a score, so that an unfinished sweep compares whole blocks of seeds. An arm with a diverged run is left out; a
family whose baseline has one, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from study.analysis.inference import FEWEST, FEWEST_ARMS, RESAMPLES, Arm, Test, rank_correlation, spearman, welch
from study.analysis.labels import arm_words, interval, number
from study.analysis.runs import DeclaredRun, Runs, primary
from study.analysis.tables import Block, Column, Row, Table
from study.metrics import title
from study.sweep.grid import ARM, expand, text

Scores = Mapping[str, Mapping[int, float]]
"""Arm ↦ seed ↦ score."""


@dataclass(frozen=True)
class Effect:
    """One arm: its difference to the baseline of its family in both sweeps, with Welch's 95% intervals."""

    family: str
    arm: str
    """Label, such as `scale=none key_width=512`."""
    first: Test
    second: Test
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Agreement:
    """Effects of the arms of two sweeps, and the rank correlation of each family and of all arms."""

    effects: tuple[Effect, ...]
    correlations: Mapping[str, Test]
    """Family, or an empty text for several together ↦ Spearman's ρ; no entry where arms or seeds are too few."""
    seeds: tuple[int, int]
    """Seeds that count in each sweep."""
    diverged: tuple[str, ...] = ()
    """Arms that are left out."""


def agree(first: Sequence[DeclaredRun], second: Sequence[DeclaredRun], metrics: tuple[str, str]) -> Agreement:
    """Compare the effects of the arms that two sweeps share.

    The interval of ρ is Student's t on Fisher's scale, over arms − 1 degrees of freedom. Its standard error is that of
    2,000 resamples of arms and, within every arm and baseline, of seeds; deviations of the resampled mean of n seeds
    are multiplied by √(n / (n − 1)), because resampling n values understates their variance by that factor.

    Args:
        first: runs of a sweep.
        second: runs of another.
        metrics: the score of each, as `split/metric` or `split/metric/subset`.
    """
    both = [_scores(runs, metric) for runs, metric in zip((first, second), metrics, strict=True)]
    shared = [arm for arm in both[0].arms if arm in both[1].arms]
    bases: dict[str, str] = {}
    for arm in shared:
        bases.setdefault(both[0].families[arm], arm)
    lost = [arm for arm in shared if any(arm in side.diverged for side in both)]
    shared = [arm for arm in shared if arm not in lost and bases[both[0].families[arm]] not in lost]
    values = [_whole({arm: side.arms[arm] for arm in shared}) for side in both]
    seeds = tuple(len(next(iter(side.values()), ())) for side in values)
    if min(seeds) == 0:
        return Agreement((), {}, (seeds[0], seeds[1]), tuple(label(arm) for arm in lost))
    effects, families = [], [both[0].families[arm] for arm in shared]
    for arm, family in zip(shared, families, strict=True):
        if arm != bases[family]:
            tests = [_difference(side[arm], side[bases[family]]) for side in values]
            runs = (*both[0].runs[arm], *both[1].runs[arm])
            effects.append(Effect(family, label(arm), tests[0], tests[1], runs))
    correlations = {}
    several = dict.fromkeys(families)
    for family in ([""] if len(several) > 1 else []) + list(several):
        chosen = [arm for arm, its in zip(shared, families, strict=True) if family in ("", its)]
        found = _correlation(chosen, [bases[both[0].families[arm]] for arm in chosen], values)
        if found is not None:
            correlations[family] = found
    return Agreement(tuple(effects), correlations, (seeds[0], seeds[1]), tuple(label(arm) for arm in lost))


@dataclass
class _Side:
    arms: dict[str, dict[int, float]]
    families: dict[str, str]
    diverged: set[str]
    runs: dict[str, tuple[str, ...]]


def _scores(runs: Iterable[DeclaredRun], metric: str) -> _Side:
    split, name, *subset = metric.split("/", 2)
    side = _Side({}, {}, set(), {})
    for run in runs:
        if run.cell.experiment is None:
            continue
        arm = _key(run)
        scores = side.arms.setdefault(arm, {})
        side.families[arm] = run.experiment.model.family
        value = run.score(f"{split}/{name}", *subset)
        if value is not None:
            scores[run.experiment.seed] = value
            side.runs[arm] = (*side.runs.get(arm, ()), run.id)
        if run.state == "diverged":
            side.diverged.add(arm)
    return side


def _key(run: DeclaredRun) -> str:
    """Return the settings of an arm's text without fields of training: `model.family=recurrent model.memory=final`."""
    given = expand({ARM: run.cell.given[ARM]}) if ARM in run.cell.given else {}
    return " ".join(f"{name}={text(value)}" for name, value in given.items() if not name.startswith("training."))


def label(arm: str) -> str:
    """Return an arm as labels of sweeps have it: the last parts of its fields, without the family."""
    words = [word.removeprefix("model.").removeprefix("attention.") for word in arm.split()]
    return " ".join(word for word in words if not word.startswith(("family=", "init=")))


def _whole(scores: Scores) -> dict[str, dict[int, float]]:
    """The scores of the seeds that every arm has."""
    kept = set.intersection(*(set(some) for some in scores.values())) if scores else set()
    return {arm: {seed: some[seed] for seed in sorted(kept)} for arm, some in scores.items()}


def _difference(arm: Mapping[int, float], base: Mapping[int, float]) -> Test:
    if len(arm) < FEWEST:
        return Test("few", float(np.mean(list(arm.values())) - np.mean(list(base.values()))))
    return welch([Arm("arm", arm), Arm("base", base)], {"arm": 1.0, "base": -1.0})


def _correlation(arms: Sequence[str], bases: Sequence[str], values: Sequence[Scores]) -> Test | None:
    """Spearman's ρ of the effects in both sweeps; None for too few arms or seeds."""
    others = [i for i, (arm, base) in enumerate(zip(arms, bases, strict=True)) if arm != base]
    if len(others) < FEWEST_ARMS or any(len(side[arms[0]]) < 2 for side in values):
        return None
    draw, whole, noisy = np.random.default_rng(0), [], []
    for side in values:
        grid = np.array([list(side[arm].values()) for arm in arms])
        n = grid.shape[1]
        picked = draw.integers(0, n, (RESAMPLES, *grid.shape))
        means = grid.mean(axis=1) + math.sqrt(n / (n - 1)) * (
            np.take_along_axis(grid[None], picked, axis=2).mean(axis=2) - grid.mean(axis=1)
        )
        at = [arms.index(base) for base in bases]
        whole.append((grid.mean(axis=1) - grid.mean(axis=1)[at])[None, others])
        noisy.append((means - means[:, at])[:, others])
    rho = float(spearman(*whole)[0])
    again = draw.integers(0, len(others), (RESAMPLES, len(others)))
    error = float(np.nanstd(spearman(*(np.take_along_axis(side, again, axis=1) for side in noisy)), ddof=1))
    if not math.isfinite(rho) or abs(rho) > 1 - 1e-9 or error < 1e-9:
        return Test("resampled", rho) if math.isfinite(rho) else None
    return rank_correlation(rho, error, len(others) - 1)


PAIRS = {"transfer": ("transfer_grammar", "transfer_multi30k"), "longer": ("transfer_grammar", "longer")}
"""Figures and tables of agreement ↦ their two sweeps."""
BESIDE = {"transfer_grammar": "test/exact/without pronouns", "longer": "test/exact/without pronouns"} | {
    "transfer_multi30k": "test_2016_flickr/bleu"
}
"""Sweep ↦ the score beside its own."""


def compare(runs: Runs, name: str) -> Table | None:
    """Return the table of a pair of sweeps: effects in their own scores, and ρ also of the scores beside them.

    None if no seed has all arms in both.

    Args:
        runs: runs of both sweeps.
        name: key of `PAIRS`.
    """
    specs = [runs.spec(one) for one in PAIRS[name]]
    both = [runs.of(spec) for spec in specs]
    metrics = [primary(spec) for spec in specs]
    found = agree(both[0], both[1], (metrics[0], metrics[1]))
    if not found.effects:
        return None
    beside = agree(both[0], both[1], (BESIDE[specs[0].name], BESIDE[specs[1].name]))
    heads = [f"{spec.name}: {title(metric)}" for spec, metric in zip(specs, metrics, strict=True)]
    columns = [Column("arm", "arm", "left"), Column("first", heads[0]), Column("first ci", "95% CI")]
    columns += [Column("second", heads[1]), Column("second ci", "95% CI")]
    blocks = []
    for family in dict.fromkeys(effect.family for effect in found.effects):
        rows = [_row(effect) for effect in found.effects if effect.family == family]
        blocks.append(Block(family, rows))
    counts = f"{found.seeds[0]} and {found.seeds[1]}"
    notes = [
        "An effect is the mean of an arm minus that of the first arm listed of its family; 95% intervals by Welch's "
        f"test, unadjusted. Seeds: {counts}, those that every arm has.",
        *_said("Rank correlation of the effects", found),
        *_said(f"The same of {title(BESIDE[specs[0].name])} and {title(BESIDE[specs[1].name])}", beside),
        *(
            [f"Left out, because a run diverged: {', '.join(map(arm_words, found.diverged))}."]
            if found.diverged
            else []
        ),
    ]
    return Table(f"{specs[0].name} and {specs[1].name}: effects of the same arms", columns, blocks, notes)


def _row(effect: Effect) -> Row:
    cells = {"arm": arm_words(effect.arm)}
    numbers: dict[str, str | float | None] = {"family": effect.family, "arm": effect.arm}
    for side, test in (("first", effect.first), ("second", effect.second)):
        cells |= {side: number(test.difference, 3, sign=True), f"{side} ci": interval(test.low, test.high, 3)}
        numbers |= {f"{side}_effect": test.difference, f"{side}_low": test.low, f"{side}_high": test.high}
    return Row(cells, numbers=numbers, runs=effect.runs)


def _said(what: str, found: Agreement) -> list[str]:
    """One note on the correlations; none where there is none."""
    parts = [
        f"{family or 'all'} ρ = {number(test.difference, 2)} {interval(test.low, test.high, 2, sign=False)}"
        for family, test in found.correlations.items()
    ]
    return [f"{what}: {'; '.join(parts)}."] if parts else []
