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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
        specs, metrics: the sweeps and their scores.
        effects: one row for each arm: family, arm, first_effect, first_low, first_high, the same of second, runs.
        correlations: one row for all families together and for each that has enough arms: family, rho, low, high,
            ceiling, conclusion, arms, runs.
        seeds: numbers of seeds in the two sweeps, in words.
        lacking: arms that are left out.
    """

    specs: Sequence[Spec]
    metrics: Sequence[str]
    effects: list[dict[str, Any]]
    correlations: list[dict[str, Any]]
    seeds: str
    lacking: tuple[str, ...]


def agree(runs: Runs, specs: Sequence[Spec], metrics: Sequence[str] = ()) -> Agreement:
    """Compare the effects of the arms that two sweeps share. The 95% intervals of effects are those of Welch's test.

    Args:
        runs: the runs of both sweeps.
        specs: the two sweeps.
        metrics: the score of each, as `split/metric` or `split/metric/subset` (default: their own).
    """
    metrics = metrics or [spec.metric for spec in specs]
    first = (_counterparts if specs[0] is specs[1] else _scores)(runs, specs[0], metrics[0])
    second = _scores(runs, specs[1], metrics[1])
    families: dict[str, list[tuple[str, str]]] = {}
    lacking: list[tuple[str, str]] = []
    for key in first:
        if key in second:
            families.setdefault(key[0], []).append(key)
            if first[key]["value"].isna().any() or second[key]["value"].isna().any():
                lacking.append(key)
    blocks: list[Any] = []
    effects: list[dict[str, Any]] = []
    groups = {"all": (blocks, effects)}
    seeds: dict[str, None] = {}
    for family, keys in families.items():
        if keys[0] in lacking:
            continue
        block: tuple[list[Any], list[Any]] = [], []
        rows = []
        for key in keys:
            if key in lacking:
                continue
            row: dict[str, Any] = {"family": family, "arm": key[1]}
            for name, side, scores in zip(SIDES, (first, second), block, strict=True):
                scores.append(side[key]["value"].to_numpy())
                test = contrast([(1.0, _arm(scores[-1])), (-1.0, _arm(scores[0]))])
                row |= {f"{name}_effect": test.difference, f"{name}_low": test.low, f"{name}_high": test.high}
            row["runs"] = " ".join([*first[key]["id"], *second[key]["id"]])
            rows.append(row)
        del rows[0]  # of the baseline
        groups[family] = [block], rows
        blocks.append(block)
        effects += rows
        seeds[" and ".join(map(_seeds, block))] = None
    correlations = []
    for name, (ranked, counted) in groups.items():
        rank = correlation(ranked)
        if rank:
            ids = " ".join(row["runs"] for row in counted)
            correlations.append({"family": name, **rank, "arms": len(counted), "runs": ids})
    left_out = tuple(arm for _, arm in lacking)
    return Agreement(specs, metrics, effects, correlations, ", ".join(seeds), left_out)


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

    tested_last: dict[str, tuple[str, float]] = {}
    if spec.name in TESTED_LAST:
        for cell, state, identity, value in _cells(runs, runs.spec(TESTED_LAST[spec.name]), metric):
            if state in SCORED:
                tested_last[_training(cell)] = identity, value
    rows = []
    for cell, _, identity, value in _cells(runs, spec, metric):
        if cell.experiment:
            if tested_last:
                identity, value = tested_last.get(_training(cell), (identity, value))
            rows.append([cell.experiment.model.family, _name(cell), identity, value])
    frame = pd.DataFrame(rows, columns=["family", "arm", "id", "value"])
    return dict(list(frame.groupby(["family", "arm"], sort=False)))


def _cells(runs: Runs, spec: Spec, metric: str) -> Iterator[tuple[Cell, str, str, float]]:
    """Return the cells of a sweep, each with the state, id and score of its run."""
    frame = runs.declared(spec, [metric])
    return zip(spec.cells, frame["state"], frame["id"], frame[metric], strict=True)


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

    by_arm: dict[str, list[str]] = {}
    for identity in runs.store.ids():
        by_arm.setdefault(arm_of(identity), []).append(identity)
    scores: dict[Any, pd.DataFrame] = {}
    for cell in spec.runnable:
        counterpart = encoder_decoder(cell.overrides)
        ids = by_arm.get(arm_of(experiment_id(counterpart)), []) if counterpart else []
        if len(ids) >= FEWEST:
            values = pd.Series([runs.score(identity, metric) for identity in ids], dtype=float)
            scores[cell.experiment.model.family, _name(cell)] = pd.DataFrame({"id": ids, "value": values})
    return scores


def _training(cell: Cell) -> str:
    """Return what decides the weights of a run at every update."""
    assert cell.experiment is not None
    return f"{trained(cell.experiment)} {cell.experiment.seed}"


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
    sides = []
    for side in zip(*blocks, strict=True):
        families = [_effects(arms, draw) for arms in side]
        sides.append(map(np.hstack, zip(*families, strict=True)))
    whole, noisy, shifted = zip(*sides, strict=True)
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


def _effects(arms: Sequence[Any], draw: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return the effects of a family: as they are, with all seeds resampled, and with those of the baseline alone.

    Each has a row for each resample and a column for each arm but the baseline. Deviations of a mean of n seeds are
    multiplied by √(n / (n − 1)), because resampling n values understates their variance by that factor.
    """
    means, columns = [], []
    for scores in arms:
        n, mean = len(scores), scores.mean()
        picked = draw.integers(0, n, (RESAMPLES, n))
        wide = math.sqrt(n / (n - 1)) if n > 1 else math.nan
        means.append(mean)
        columns.append(mean + wide * (scores[picked].mean(axis=1) - mean))
    whole, resampled = np.array([means]), np.stack(columns, axis=1)
    base = resampled[:, :1]
    return whole[:, 1:] - whole[:, :1], resampled[:, 1:] - base, whole[:, 1:] - base


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
    own, beside = agree(runs, specs), agree(runs, specs, [SWEEPS[sweep][1] for sweep in PAIRS[name]])
    if not own.effects:
        return {}
    tables = {f"agreement-{name}": _effects_table(own)}
    if name == "asymptotes":  # its rules read both scores
        tables[f"agreement-{name}-bleu"] = _effects_table(beside)
    if own.correlations:
        columns = {"family": "family", "rho": "ρ", "ci": "95% CI", "ceiling": "ceiling", "conclusion": "conclusion"}
        title_of = f"{' and '.join(PAIRS[name])}: rank correlation of the effects"
        rows = [*_correlations(own), *_correlations(beside)]
        tables[f"correlation-{name}"] = Table(title_of, columns, rows, [CEILING])
    return tables


def gains(runs: Runs) -> Table:
    """Return which arms that gain on the grammar gain on Multi30k, too, and how many others do.

    p is that of Fisher's exact test of one side: at least so many of the arms that gain on the grammar gain on
    Multi30k, if the two are independent.
    """
    from scipy.stats import fisher_exact

    parts: dict[str, list[dict[str, Any]]] = {}
    both: list[dict[str, Any]] = []
    for name, words in (("transfer", "chosen first"), ("today", "predicted in advance")):
        parts[words] = agree(runs, [runs.spec(sweep) for sweep in PAIRS[name]]).effects
        both += parts[words]
    rows = []
    for words, effects in (parts | {"all": both}).items():
        counts = Counter((row["first_high"] < 0, row["second_high"] < 0) for row in effects)
        helps_text, others_text = counts[True, True], counts[False, True]
        helps, others = helps_text + counts[True, False], others_text + counts[False, False]
        if not helps or not others:
            continue
        table = [[helps_text, helps - helps_text], [others_text, others - others_text]]
        p = float(fisher_exact(table, "greater").pvalue)
        cells = {"arm": words, "helps": f"{helps_text} of {helps}", "others": f"{others_text} of {others}"}
        counted = {"helps": helps, "helps_text": helps_text, "others": others, "others_text": others_text}
        rows.append(Row(cells | {"p": p_value(p)}, numbers={"arms": words, **counted, "p": p}))
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
        for name in ("rho", "ceiling"):
            if name in known:
                texts[name] = number(known[name], 2)
        return texts
    texts = {"arm": arm_words(known["arm"])}
    for side, digits in (("first", 3), ("second", 3), ("bleu", decimals(BLEU))):
        if f"{side}_effect" in known:
            texts[side] = number(known[f"{side}_effect"], digits, sign=True)
            texts[f"{side} ci"] = interval(known[f"{side}_low"], known[f"{side}_high"], digits)
    return texts


def _effects_table(agreement: Agreement) -> Table:
    notes = [
        "An effect is the mean of an arm minus that of the first arm listed of its family; 95% intervals by Welch's "
        f"test, unadjusted. Seeds that every arm has: {agreement.seeds}.",
    ]
    if agreement.lacking:
        notes.append(f"Left out, because a run has no score: {', '.join(map(arm_words, agreement.lacking))}.")
    columns = {"arm": "arm"}
    for side, data, metric in zip(SIDES, data_words(agreement.specs), agreement.metrics, strict=True):
        columns |= {side: f"{data}: {title(metric)}", f"{side} ci": f"95% CI, {data}"}
    rows = [Row(cells(row), row["family"], numbers=row) for row in agreement.effects]
    sweeps = " and ".join(spec.name for spec in agreement.specs)
    return Table(f"{sweeps}: effects of the same arms", columns, rows, notes)


def _correlations(agreement: Agreement) -> list[Row]:
    """Return a row for each rank correlation."""
    first, second = agreement.metrics
    first_data, second_data = data_words(agreement.specs)
    head = f"{first_data}: {title(first)}; {second_data}: {title(second)}"
    rows = []
    for row in agreement.correlations:
        texts = {"family": row["family"], "conclusion": CONCLUSIONS[row["conclusion"]]} | cells(row)
        numbers = {"family": row["family"], "first_metric": first, "second_metric": second} | row
        rows.append(Row(texts, head, numbers=numbers))
    return rows
