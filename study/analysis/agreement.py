"""Agreement of two sweeps with the same arms: effects in one against effects in the other, and their rank correlation.

An effect is the mean of an arm minus that of its family's baseline, the first arm listed, in each sweep's own score.
Arms are the same if what their texts set is the same, fields of training aside. Only seeds count for which every arm
of the family has a score, so that an unfinished sweep compares whole blocks of seeds. An arm with a diverged run is
left out; a family whose baseline has one, too.

Noise of seeds makes ρ smaller than that of the true effects. So each ρ has a ceiling: the ρ that effects of equal order
would show with the same noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from study.analysis.inference import (
    FEWEST_ARMS,
    LEVEL,
    RESAMPLES,
    Arm,
    Test,
    contrast,
    rank_correlation,
    spearman,
)
from study.analysis.labels import arm_words, interval, number
from study.analysis.runs import Runs, primary
from study.analysis.tables import Block, Column, Row, Table
from study.metrics import title
from study.sweep.grid import ARM, Cell, expand, text
from study.sweep.spec import Spec

Values = Mapping[str, Sequence[float]]
"""Arm ↦ scores, one a seed."""
MARGIN = 0.3
"""Smallest rank correlation of interest."""


@dataclass(frozen=True)
class Effect:
    """One arm: its difference to the baseline of its family in both sweeps, with Welch's 95% intervals."""

    family: str
    arm: str
    """Label, such as `scale=none key_width=512`."""
    first: Test
    second: Test
    runs: tuple[str, ...] = ()
    """Ids of the runs that count, of the arm in both sweeps."""


@dataclass(frozen=True)
class Agreement:
    """Effects of the arms of two sweeps, and the rank correlation of each family and of all arms."""

    effects: tuple[Effect, ...]
    correlations: Mapping[str, Test]
    """Family, or an empty text for several together ↦ Spearman's ρ; no entry where arms are too few."""
    ceilings: Mapping[str, float]
    """The same ↦ the ρ that effects of equal order would show; NaN with one seed."""
    seeds: Mapping[str, tuple[int, int]]
    """Family ↦ seeds that count in each sweep."""
    diverged: tuple[str, ...] = ()
    """Arms that are left out."""


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
    both = [_scores(runs, spec, metric) for spec, metric in zip(specs, metrics, strict=True)]
    family = both[0].families
    shared = [arm for arm in both[0].scores if arm in both[1].scores]
    bases: dict[str, str] = {}
    for arm in shared:
        bases.setdefault(family[arm], arm)
    lost = [arm for arm in shared if any(arm in side.diverged for side in both)]
    shared = [arm for arm in shared if arm not in lost and bases[family[arm]] not in lost]
    seeds = {
        name: [_common([side.scores[arm] for arm in shared if family[arm] == name]) for side in both]
        for name in dict.fromkeys(family[arm] for arm in shared)
    }
    seeds = {name: some for name, some in seeds.items() if all(some)}
    shared = [arm for arm in shared if family[arm] in seeds]
    values = [{arm: [side.scores[arm][seed][0] for seed in seeds[family[arm]][i]] for arm in shared}
              for i, side in enumerate(both)]  # fmt: skip
    effects = []
    for arm in (one for one in shared if one != bases[family[one]]):
        tests = [_difference(side[arm], side[bases[family[arm]]]) for side in values]
        counted = [side.scores[arm][seed][1] for i, side in enumerate(both) for seed in seeds[family[arm]][i]]
        effects.append(Effect(family[arm], label(arm), tests[0], tests[1], tuple(counted)))
    correlations, ceilings = {}, {}
    for name in ([""] if len(seeds) > 1 else []) + list(seeds):
        chosen = [arm for arm in shared if name in ("", family[arm])]
        found, ceiling = _correlation(chosen, [bases[family[arm]] for arm in chosen], values)
        if found is not None:
            correlations[name], ceilings[name] = found, ceiling
    counts = {name: (len(some[0]), len(some[1])) for name, some in seeds.items()}
    return Agreement(tuple(effects), correlations, ceilings, counts, tuple(label(arm) for arm in lost))


@dataclass
class _Side:
    scores: dict[str, dict[int, tuple[float, str]]]
    """Arm ↦ seed ↦ score and run."""
    families: dict[str, str]
    diverged: set[str]


def _scores(runs: Runs, spec: Spec, metric: str) -> _Side:
    split, name, *subset = metric.split("/", 2)
    side, scored = _Side({}, {}, set()), runs.scored(split, name)
    for run in runs.of(spec):
        if run.cell.experiment is None:
            continue
        arm = _key(run.cell)
        scores = side.scores.setdefault(arm, {})
        side.families[arm] = run.experiment.model.family
        found = {part: value for part, value, _ in scored.get(run.id, ())} if run.made else {}
        if (value := found.get(subset[0] if subset else None)) is not None:
            scores[run.experiment.seed] = value, run.id
        if run.state == "diverged":
            side.diverged.add(arm)
    return side


def _key(cell: Cell) -> str:
    """Return the settings of an arm's text without fields of training: `model.family=recurrent model.memory=final`."""
    given = expand({ARM: cell.given[ARM]}) if ARM in cell.given else {}
    return " ".join(f"{name}={text(value)}" for name, value in given.items() if not name.startswith("training."))


def label(arm: str) -> str:
    """Return an arm as labels of sweeps have it: the last parts of its fields, without the family."""
    words = [word.removeprefix("model.").removeprefix("attention.") for word in arm.split()]
    return " ".join(word for word in words if not word.startswith(("family=", "init=")))


def _common(scores: Iterable[Mapping[int, object]]) -> list[int]:
    """Return the seeds that every arm has."""
    return sorted(set.intersection(*(set(some) for some in scores)))


def _difference(arm: Sequence[float], base: Sequence[float]) -> Test:
    return contrast([(1.0, Arm("arm", dict(enumerate(arm)))), (-1.0, Arm("base", dict(enumerate(base))))])


def _correlation(arms: Sequence[str], bases: Sequence[str], values: Sequence[Values]) -> tuple[Test | None, float]:
    """Return Spearman's ρ of the effects in both sweeps, and its ceiling; None for too few arms, NaN for one seed."""
    others = [i for i, (arm, base) in enumerate(zip(arms, bases, strict=True)) if arm != base]
    if len(others) < FEWEST_ARMS:
        return None, math.nan
    draw, at = np.random.default_rng(0), [arms.index(base) for base in bases]
    whole, noisy, shifted = [], [], []
    for side in values:
        means = np.array([np.mean(side[arm]) for arm in arms])
        again = np.stack([_resampled(np.array(side[arm]), draw) for arm in arms], axis=1)
        whole.append((means - means[at])[None, others])
        noisy.append((again - again[:, at])[:, others])
        shifted.append((means - again[:, at])[:, others])
    rho, n = float(spearman(*whole)[0]), len(others)
    if not math.isfinite(rho):
        return None, math.nan
    ceiling = math.sqrt(math.prod(map(_reliability, noisy)))
    last = 1 - 6 / (n * (n**2 - 1))
    inner = max(-last, min(last, rho))
    shift = float(np.std(np.arctanh(np.clip(spearman(*shifted), -last, last)), ddof=1)) if len(set(bases)) > 1 else 0.0
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


def heading(spec: Spec, metric: str) -> str:
    """Return the data of a sweep and a score, such as `Multi30k: NLL per sentence`."""
    return f"{DATA[spec.name]}: {title(metric)}"


def compare(runs: Runs, name: str) -> dict[str, Table]:
    """Return the tables of a pair of sweeps by their names: effects in the sweeps' own scores, and rank correlations.

    `agreement-<name>` has the effects. `correlation-<name>` has ρ of these effects and of the scores beside them; it is
    left out with too few arms. Empty if no seed has all arms in both sweeps.

    Args:
        runs: runs of both sweeps.
        name: key of `PAIRS`.
    """
    specs = [runs.spec(one) for one in PAIRS[name]]
    named = ([primary(spec) for spec in specs], [BESIDE[spec.name] for spec in specs])
    found = [(metrics, agree(runs, specs, metrics)) for metrics in named]
    if not found[0][1].effects:
        return {}
    tables = {f"agreement-{name}": _effects_table(specs, found[0][1])}
    blocks = [_correlations(specs, metrics, one) for metrics, one in found]
    if blocks[0].rows:
        columns = [Column("family", "family", "left"), Column("rho", "ρ"), Column("ci", "95% CI")]
        columns += [Column("ceiling", "ceiling"), Column("conclusion", "conclusion", "left")]
        title_ = f"{specs[0].name} and {specs[1].name}: rank correlation of the effects"
        tables[f"correlation-{name}"] = Table(title_, columns, blocks, [CEILING])
    return tables


CEILING = (
    "ρ: Spearman's rank correlation of the effects over arms. Ceiling: the ρ that effects of equal order would show "
    "with the same noise of seeds."
)


def _effects_table(specs: Sequence[Spec], found: Agreement) -> Table:
    columns = [Column("arm", "arm", "left")]
    for side, spec in zip(("first", "second"), specs, strict=True):
        columns += [Column(side, heading(spec, primary(spec))), Column(f"{side} ci", f"95% CI, {DATA[spec.name]}")]
    blocks = []
    for family in dict.fromkeys(effect.family for effect in found.effects):
        rows = [_row(effect) for effect in found.effects if effect.family == family]
        blocks.append(Block(family, rows))
    notes = [
        "An effect is the mean of an arm minus that of the first arm listed of its family; 95% intervals by Welch's "
        f"test, unadjusted. Seeds that every arm has: {seeds_in_words(found.seeds)}.",
    ]
    if found.diverged:
        notes.append(f"Left out, because a run diverged: {', '.join(map(arm_words, found.diverged))}.")
    return Table(f"{specs[0].name} and {specs[1].name}: effects of the same arms", columns, blocks, notes)


def _row(effect: Effect) -> Row:
    cells = {"arm": arm_words(effect.arm)}
    numbers: dict[str, str | float | None] = {"family": effect.family, "arm": effect.arm}
    for side, test in (("first", effect.first), ("second", effect.second)):
        cells |= {side: number(test.difference, 3, sign=True), f"{side} ci": interval(test.low, test.high, 3)}
        numbers |= {f"{side}_effect": test.difference, f"{side}_low": test.low, f"{side}_high": test.high}
    return Row(cells, numbers=numbers, runs=effect.runs)


def seeds_in_words(seeds: Mapping[str, tuple[int, int]]) -> str:
    """Return the seeds of both sweeps: `5 and 3`, or by family where they differ."""
    words = {family: f"{first} and {second}" for family, (first, second) in seeds.items()}
    if len(set(words.values())) == 1:
        return next(iter(words.values()))
    return ", ".join(f"{count} ({family})" for family, count in words.items())


Conclusion = Literal["agree", "opposite", "no relation", "not decided", "no interval"]
"""Relation of two orders of effects, as a rank correlation shows it."""
CONCLUSIONS: dict[Conclusion, str] = {
    "agree": "the orders agree",
    "opposite": "the orders are opposite",
    "no relation": f"no relation beyond ±{number(MARGIN, 1)}",
    "not decided": "not decided",
    "no interval": "no interval",
}
"""Conclusion ↦ its text in tables."""


def conclusion(rho: Test) -> Conclusion:
    """Return what a rank correlation shows about two orders of effects, by the rules of findings."""
    if rho.p is None:
        return "no interval"
    if rho.p < LEVEL:
        return "agree" if (rho.difference or 0.0) > 0 else "opposite"
    none = rho.low90 is not None and rho.high90 is not None and rho.low90 > -MARGIN and rho.high90 < MARGIN
    return "no relation" if none else "not decided"


def _correlations(specs: Sequence[Spec], metrics: Sequence[str], found: Agreement) -> Block:
    """Return a row for each rank correlation: of all arms, if there are several families, then of each family."""
    rows = []
    for family, rho in found.correlations.items():
        ceiling, said = found.ceilings[family], conclusion(rho)
        cells = {
            "family": family or "all",
            "rho": number(rho.difference, 2),
            "ci": interval(rho.low, rho.high, 2, sign=False),
            "ceiling": number(ceiling, 2),
            "conclusion": CONCLUSIONS[said],
        }
        numbers: dict[str, Any] = {"family": cells["family"], "first_metric": metrics[0], "second_metric": metrics[1]}
        numbers |= {"rho": rho.difference, "low": rho.low, "high": rho.high, "ceiling": ceiling, "conclusion": said}
        counted = [effect for effect in found.effects if family in ("", effect.family)]
        numbers["arms"] = len(counted)
        rows.append(Row(cells, numbers=numbers, runs=tuple(run for effect in counted for run in effect.runs)))
    return Block("; ".join(map(heading, specs, metrics)), rows)
