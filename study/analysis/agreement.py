"""Agreement of two sweeps with the same arms: effects in one against effects in the other, and their rank correlation.

A sweep of decoder-only models is also compared with the published encoder–decoders that have the fields of its arms.

An effect is the mean of an arm minus that of its family's baseline, the first arm listed. Arms are the same if what
their texts set is the same, fields of training and the start of the decoder aside. An arm that lacks a score in either
sweep is left out.

Noise of seeds makes ρ smaller than that of the true effects. So each ρ has a ceiling: the ρ that effects of equal order
would show with the same noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from study.analysis.inference import FEWEST, FEWEST_ARMS, LEVEL, RESAMPLES, Arm, contrast, rank_correlation, spearman
from study.analysis.labels import arm_words, interval, number, p_value
from study.analysis.runs import SCORED, Runs
from study.analysis.tables import Row, Table
from study.config import encoder_decoder, experiment_id, trained
from study.scores.metrics import decimals, title
from study.store.rows import arm_of
from study.sweep.fields import ARM, expand, text
from study.sweep.spec import Cell, Spec

if TYPE_CHECKING:
    import pandas as pd

PAIRS = {
    "transfer": ("transfer_grammar", "transfer_multi30k"),
    "longer": ("shorter", "longer"),
    "asymptotes": ("asymptotes_1200", "asymptotes_4800"),
    "today": ("today", "today_multi30k"),
    "decoder_only": ("decoder_only", "decoder_only"),
    "decoder_only_multi30k": ("decoder_only_multi30k", "decoder_only_multi30k"),
    "decoder_only_transfer": ("decoder_only", "decoder_only_multi30k"),
}
"""Figures and tables of agreement ↦ their two sweeps. The same sweep twice: the first effect of each arm is that of the
encoder–decoder with its fields, see `_counterparts`."""
TESTED_LAST = {"asymptotes_4800": "asymptotes_last"}
"""Sweep ↦ another one with those of its runs, trained alike, that it tested before their last update. Theirs count."""
EXACT, BLEU = "test/exact/without pronouns", "test_2016_flickr/bleu"
SWEEPS = {
    "transfer_grammar": ("grammar", EXACT),
    "transfer_multi30k": ("Multi30k", BLEU),
    "shorter": ("grammar", EXACT),
    "longer": ("grammar, four times the updates", EXACT),
    "asymptotes_1200": ("Multi30k", BLEU),
    "asymptotes_4800": ("Multi30k, four times the updates", BLEU),
    "today": ("grammar", EXACT),
    "today_multi30k": ("Multi30k", BLEU),
    "decoder_only": ("decoder-only, grammar", EXACT),
    "decoder_only_multi30k": ("decoder-only, Multi30k", BLEU),
}
"""Sweep ↦ its models and data in words, and the score beside its own."""
COUNTERPARTS = "encoder–decoder"
SIDES = ("first", "second")
NO_PART = ("training.", "model.family", "model.init")
"""Beginnings of the fields that are no part of the name of an arm."""
CONCLUSIONS = {"agree": "the orders agree", "opposite": "the orders are opposite", "not decided": "not decided"}
"""Conclusion from a rank correlation ↦ its text in tables."""
CEILING = (
    "ρ: Spearman's rank correlation of the effects over arms. Ceiling: the ρ that effects of equal order would show "
    "with the same noise of seeds."
)


@dataclass(frozen=True)
class Agreement:
    """Effects of the arms of two sweeps, and the rank correlation of each family and of all arms.

    Attributes:
        effects: one row for each arm: family, arm, first_effect, first_low, first_high, the same of second, runs.
        correlations: one row for all families together and for each that has enough arms: family, rho, low, high,
            ceiling, conclusion, arms, runs.
        seeds: numbers of seeds in the two sweeps, in words.
        lacking: arms that are left out.
    """

    effects: list[dict[str, Any]]
    correlations: list[dict[str, Any]]
    seeds: str
    lacking: tuple[str, ...]


def agree(runs: Runs, specs: Sequence[Spec], metrics: Sequence[str]) -> Agreement:
    """Compare the effects of the arms that two sweeps share. The 95% intervals of effects are those of Welch's test.

    Args:
        runs: the runs of both sweeps.
        specs: the two sweeps.
        metrics: the score of each, as `split/metric` or `split/metric/subset`.
    """
    first, second = sides = [_scores(runs, spec, metric) for spec, metric in zip(specs, metrics, strict=True)]
    if specs[0] is specs[1]:
        first = sides[0] = _counterparts(runs, specs[0], metrics[0])
    families: dict[str, list[tuple[str, str]]] = {}
    lacking: list[tuple[str, str]] = []
    for key in first:
        if key in second:
            families.setdefault(key[0], []).append(key)
            if first[key]["value"].isna().any() or second[key]["value"].isna().any():
                lacking.append(key)
    effects: list[dict[str, Any]] = []
    blocks: dict[str, list[Any]] = {}
    seeds: dict[str, None] = {}
    for family, (base, *arms) in families.items():
        if base in lacking:
            continue
        arms = [key for key in arms if key not in lacking]
        blocks[family] = [[side[key]["value"].to_numpy() for key in (base, *arms)] for side in sides]
        seeds[" and ".join(map(_seeds, blocks[family]))] = None
        for place, key in enumerate(arms, 1):
            row: dict[str, Any] = {"family": family, "arm": key[1]}
            for name, scores in zip(SIDES, blocks[family], strict=True):
                test = contrast([(1.0, _arm(scores[place])), (-1.0, _arm(scores[0]))])
                row |= {f"{name}_effect": test.difference, f"{name}_low": test.low, f"{name}_high": test.high}
            row["runs"] = " ".join([*first[key]["id"], *second[key]["id"]])
            effects.append(row)
    correlations = []
    for name in ("all", *blocks):
        counted = [row for row in effects if name in ("all", row["family"])]
        rank = correlation(list(blocks.values()) if name == "all" else [blocks[name]])
        if rank:
            ids = " ".join(row["runs"] for row in counted)
            correlations.append({"family": name, **rank, "arms": len(counted), "runs": ids})
    return Agreement(effects, correlations, ", ".join(seeds), tuple(arm for _, arm in lacking))


def _arm(scores: Any) -> Arm:
    return Arm("", dict(enumerate(scores)))


def _seeds(scores: Sequence[Any]) -> str:
    """Return how many seeds the arms have, in words."""
    numbers = sorted(map(len, scores))
    return f"{numbers[0]} to {numbers[-1]}" if numbers[0] < numbers[-1] else f"{numbers[0]}"


def data_words(specs: Sequence[Spec]) -> list[str]:
    """Return what the two sides of a pair were trained as and on, in words."""
    words = [SWEEPS[spec.name][0] for spec in specs]
    return [COUNTERPARTS, words[1]] if specs[0] is specs[1] else words


def _scores(runs: Runs, spec: Spec, metric: str) -> dict[Any, pd.DataFrame]:
    """Return (family, arm) ↦ its runs by seed, with columns id and value; see `TESTED_LAST`."""
    import pandas as pd

    frame = runs.declared(spec, [metric]).rename(columns={metric: "value"})[["id", "value"]]
    if spec.name in TESTED_LAST:
        later = runs.spec(TESTED_LAST[spec.name])
        scores = runs.declared(later, [metric])
        tested = scores["state"].isin(SCORED)
        trainings = pd.Series([_training(cell) for cell in later.cells])
        replaced = dict(zip(trainings[tested], scores[["id", metric]][tested].to_numpy(), strict=True))
        cells = [_training(cell) for cell in spec.cells]
        values = [replaced.get(cell, own) for cell, own in zip(cells, frame.to_numpy(), strict=True)]
        frame = pd.DataFrame(values, columns=["id", "value"]).astype({"value": float})
    families, arms = [], []
    for cell in spec.cells:
        families.append(cell.experiment.model.family if cell.experiment else None)
        arms.append(_name(cell))
    frame["family"], frame["arm"] = families, arms
    return dict(list(frame.groupby(["family", "arm"], sort=False)))


def _name(cell: Cell) -> str:
    """Return what the arm of a cell sets, without `NO_PART`."""
    settings = []
    for name, value in expand({ARM: cell.given[ARM]}).items():
        if not name.startswith(NO_PART):
            short = name.removeprefix("model.").removeprefix("attention.")
            settings.append(f"{short}={text(value)}")
    return " ".join(settings)


def _counterparts(runs: Runs, spec: Spec, metric: str) -> dict[Any, pd.DataFrame]:
    """Return (family, arm) ↦ scores of the encoder–decoders that have the fields of the arm, of every seed there is.

    An arm whose counterpart has fewer than three runs is left out.
    """
    import pandas as pd

    split, score, *part = metric.split("/", 2)
    scores = runs.scored(split, score)
    found: dict[Any, pd.DataFrame] = {}
    for cell in spec.runnable:
        assert cell.experiment is not None
        key = cell.experiment.model.family, _name(cell)
        counterpart = encoder_decoder(cell.overrides)
        if key in found or counterpart is None:
            continue
        arm = arm_of(experiment_id(counterpart))
        ids = [identity for identity in runs.store.ids() if arm_of(identity) == arm]
        values = [scores.get(identity, {}).get(part[0] if part else None) for identity in ids]
        if len(ids) >= FEWEST:
            found[key] = pd.DataFrame({"id": ids, "value": pd.Series(values, dtype=float)})
    return found


def _training(cell: Cell) -> str:
    """Return what decides the weights of a run at every update."""
    return f"{trained(cell.experiment)} {cell.experiment.seed}" if cell.experiment else ""


def correlation(blocks: Sequence[Sequence[Any]]) -> dict[str, Any] | None:
    """Return Spearman's ρ of the effects in both sweeps, its interval, ceiling and conclusion; None for too few arms.

    The interval of ρ is Student's t on Fisher's scale, over n − 1 degrees of freedom for n arms, with the variance
    (1 + ρ²/2) / (n − 3) of Bonett and Wright (2000). Observed pairs of effects vary by arms and by noise of seeds, so
    it covers both. It does not cover the noise of baselines, which shifts all arms of a family. This leaves a family's
    ρ as it is; the variance of 2,000 resamples of the baselines' seeds is added for ρ over several families. If ρ is 1,
    the interval is that of the value halfway to the next possible one.

    The ceiling is √(r₁ r₂), where r = 2 − 1/r′ is the reliability of the effects of a sweep, and r′ the mean ρ of two
    resamples of its seeds. (If effects have variance T and noise σ², two resamples correlate by (T + σ²) / (T + 2σ²),
    and r = T / (T + σ²).) With one seed the ceiling is NaN, and the interval of several families.

    Args:
        blocks: for each family the scores in both sweeps: for each arm (baseline first) those of its seeds.
    """
    if sum(len(first) - 1 for first, _ in blocks) < FEWEST_ARMS:
        return None
    draw = np.random.default_rng(0)
    whole, noisy, shifted = [], [], []
    for side in zip(*blocks, strict=True):
        means = [np.array([[scores.mean() for scores in arms]]) for arms in side]
        again = [_resampled(arms, draw) for arms in side]
        whole.append(_effects(means, means))
        noisy.append(_effects(again, again))
        shifted.append(_effects(means, again))
    rho, n = float(spearman(*whole)[0]), whole[0].size
    if math.isnan(rho):
        return None
    last = 1 - 6 / (n * (n**2 - 1))
    inner = max(-last, min(last, rho))
    shift = float(np.std(np.arctanh(np.clip(spearman(*shifted), -last, last)), ddof=1)) if len(blocks) > 1 else 0.0
    error = math.sqrt((1 + inner**2 / 2) / (n - 3) + shift**2)
    test = replace(rank_correlation(inner, error * (1 - inner**2), n - 1), difference=rho)
    ceiling = math.sqrt(math.prod(map(_reliability, noisy)))
    clear = test.p is not None and test.p < LEVEL
    conclusion = "not decided"
    if clear:
        conclusion = "agree" if rho > 0 else "opposite"
    return {"rho": rho, "low": test.low, "high": test.high, "ceiling": ceiling, "conclusion": conclusion}


def _effects(arms: Sequence[Any], bases: Sequence[Any]) -> Any:
    """Return the scores of arms minus those of the first one, of all families; a row for each resample."""
    return np.hstack([scores[:, 1:] - base[:, :1] for scores, base in zip(arms, bases, strict=True)])


def _resampled(arms: Sequence[Any], draw: np.random.Generator) -> Any:
    """Return resampled means of arms: a row for each resample, a column for each arm.

    Deviations of a mean of n seeds are multiplied by √(n / (n − 1)), because resampling n values understates their
    variance by that factor.
    """
    columns = []
    for scores in arms:
        n, mean = len(scores), scores.mean()
        picked = draw.integers(0, n, (RESAMPLES, n))
        wide = math.sqrt(n / (n - 1)) if n > 1 else math.nan
        columns.append(mean + wide * (scores[picked].mean(axis=1) - mean))
    return np.stack(columns, axis=1)


def _reliability(noisy: Any) -> float:
    """Return the reliability of effects, 0–1, from resamples of their seeds (a row each); see `correlation`."""
    half = len(noisy) // 2
    between = float(np.mean(spearman(noisy[:half], noisy[half : 2 * half])))
    return 0.0 if between <= 0 else float(np.maximum(0.0, 2 - 1 / between))


def compare(runs: Runs, name: str) -> dict[str, Table]:
    """Return the tables of a pair of sweeps by their names: effects, and rank correlations.

    `agreement-<name>` has the effects in the sweeps' own scores, and `agreement-asymptotes-bleu` those in BLEU.
    `correlation-<name>` has ρ of the effects in their own scores and in those beside them; it is left out with too few
    arms. Empty if there is no effect.

    Args:
        runs: runs of both sweeps.
        name: key of `PAIRS`.
    """
    specs = [runs.spec(sweep) for sweep in PAIRS[name]]
    first_metrics = [spec.metric for spec in specs]
    second_metrics = [SWEEPS[spec.name][1] for spec in specs]
    first, second = agree(runs, specs, first_metrics), agree(runs, specs, second_metrics)
    if not first.effects:
        return {}
    tables = {f"agreement-{name}": _effects_table(specs, first_metrics, first)}
    if name == "asymptotes":  # its rules read both scores
        tables[f"agreement-{name}-bleu"] = _effects_table(specs, second_metrics, second)
    if first.correlations:
        rows = [*_correlations(specs, first_metrics, first), *_correlations(specs, second_metrics, second)]
        columns = {"family": "family", "rho": "ρ", "ci": "95% CI", "ceiling": "ceiling", "conclusion": "conclusion"}
        title_of = f"{' and '.join(PAIRS[name])}: rank correlation of the effects"
        tables[f"correlation-{name}"] = Table(title_of, columns, rows, [CEILING])
    return tables


def gains(runs: Runs) -> Table:
    """Return which arms that gain on the grammar gain on Multi30k, too, and how many others do.

    p is that of Fisher's exact test of one side: at least so many of the arms that gain on the grammar gain on
    Multi30k, if the two are independent.
    """
    from scipy.stats import fisher_exact

    parts: dict[str, list[dict[str, Any]]] = {}
    for name, words in (("transfer", "chosen first"), ("today", "predicted in advance")):
        specs = [runs.spec(sweep) for sweep in PAIRS[name]]
        parts[words] = agree(runs, specs, [spec.metric for spec in specs]).effects
    parts["all"] = [row for effects in parts.values() for row in effects]
    rows = []
    for words, effects in parts.items():
        helps = [row["second_high"] < 0 for row in effects if row["first_high"] < 0]
        others = [row["second_high"] < 0 for row in effects if row["first_high"] >= 0]
        if not helps or not others:
            continue
        table = [[sum(side), len(side) - sum(side)] for side in (helps, others)]
        p = float(fisher_exact(table, "greater").pvalue)
        cells = {
            "arm": words,
            "helps": f"{sum(helps)} of {len(helps)}",
            "others": f"{sum(others)} of {len(others)}",
            "p": p_value(p),
        }
        numbers = {"arms": words, "helps": len(helps), "helps_text": sum(helps)}
        numbers |= {"others": len(others), "others_text": sum(others), "p": p}
        rows.append(Row(cells, numbers=numbers))
    columns = {"arm": "arms", "helps": "gain on the grammar: gain on Multi30k"}
    columns |= {"others": "do not gain on the grammar: gain on Multi30k", "p": "Fisher p"}
    notes = [
        "An arm gains if the 95% interval of its effect in NLL, not adjusted, lies below zero. Fisher's exact test has "
        "one side: more of the arms that gain on the grammar gain on Multi30k."
    ]
    return Table("gains: what helps on the grammar and on Multi30k", columns, rows, notes)


def cells(known: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of an effect, of a rank correlation or of a predictor, as computed or as read from the CSV."""
    if "arm" not in known:
        texts = {"ci": interval(known["low"], known["high"], 2, sign=False)}
        return texts | {name: number(known[name], 2) for name in ("rho", "ceiling") if name in known}
    texts = {"arm": arm_words(known["arm"])}
    for side, digits in (("first", 3), ("second", 3), ("bleu", decimals(BLEU))):
        if f"{side}_effect" in known:
            texts[side] = number(known[f"{side}_effect"], digits, sign=True)
            texts[f"{side} ci"] = interval(known[f"{side}_low"], known[f"{side}_high"], digits)
    return texts


def _effects_table(specs: Sequence[Spec], metrics: Sequence[str], agreement: Agreement) -> Table:
    notes = [
        "An effect is the mean of an arm minus that of the first arm listed of its family; 95% intervals by Welch's "
        f"test, unadjusted. Seeds that every arm has: {agreement.seeds}.",
    ]
    if agreement.lacking:
        notes.append(f"Left out, because a run has no score: {', '.join(map(arm_words, agreement.lacking))}.")
    columns = {"arm": "arm"}
    for side, data, metric in zip(SIDES, data_words(specs), metrics, strict=True):
        columns |= {side: f"{data}: {title(metric)}", f"{side} ci": f"95% CI, {data}"}
    rows = [Row(cells(row), row["family"], numbers=row) for row in agreement.effects]
    return Table(f"{specs[0].name} and {specs[1].name}: effects of the same arms", columns, rows, notes)


def _correlations(specs: Sequence[Spec], metrics: Sequence[str], agreement: Agreement) -> list[Row]:
    """Return a row for each rank correlation."""
    head = "; ".join(f"{data}: {title(metric)}" for data, metric in zip(data_words(specs), metrics, strict=True))
    rows = []
    for row in agreement.correlations:
        texts = {"family": row["family"], "conclusion": CONCLUSIONS[row["conclusion"]]} | cells(row)
        numbers = {"family": row["family"], "first_metric": metrics[0], "second_metric": metrics[1]} | row
        rows.append(Row(texts, head, numbers=numbers))
    return rows
