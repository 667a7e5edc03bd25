"""Two contrasts of every kind in one question: each has its own numbers, those of a computation of its own."""

import itertools
import math

import numpy as np
import pytest
from claim_cases import RATE, SCORE, SEEDS, Study
from scipy import stats

from study.claims.table import cells
from study.records import Score

SCORES, RATES = ("dot", "bilinear", "additive"), (0.001, 0.004)
SLOPE = 1 / (RATES[1] - RATES[0])
EXACT = dict(
    zip(itertools.product(SCORES, RATES), 60 + np.random.default_rng(4).normal(0, 2, (6, 5)).round(2), strict=True)
)
LOSS = dict(
    zip(
        itertools.product(SCORES, RATES),
        np.array(
            [
                [1.0, 1.1, 0.9, 1.2, 1.0],
                [1.2, 2.0, 1.1, 1.4, 2.2],
                [2.0, 2.2, 1.9, 1.5, 2.1],
                [1.1, 1.2, 1.0, 1.3, 1.4],
                [1.3, 1.9, 1.2, 2.4, 1.1],
                [1.0, 1.0, 1.1, 1.2, 1.3],
            ]
        ),
        strict=True,
    )
)


def side(score, rate=None):
    return {SCORE: score} | ({RATE: rate} if rate else {})


def pair(score, rate=None, **more):
    """A contrast of a score with bilinear."""
    return {"arm": side(score, rate), "baseline": side("bilinear", rate), **more}


def differences(arms, contrasts):
    """(estimate, low, high, Holm p) of each contrast by Welch's test, the intervals at half the level of one."""
    found = []
    for weights in contrasts:
        parts = [(weight**2 * arms[name].var(ddof=1) / len(SEEDS)) for name, weight in weights.items()]
        middle = sum(weight * arms[name].mean() for name, weight in weights.items())
        se, df = math.sqrt(sum(parts)), sum(parts) ** 2 / sum(part**2 / (len(SEEDS) - 1) for part in parts)
        half = stats.t.ppf(1 - 0.05 / 4, df) * se
        found.append((middle, middle - half, middle + half, 2 * stats.t.sf(abs(middle) / se, df)))
    return adjusted(found)


def means(samples):
    """The same of the mean of each sample, by Student's t."""
    found = []
    for sample in samples:
        test = stats.ttest_1samp(sample, 0)
        interval = test.confidence_interval(0.975)
        found.append((np.mean(sample), interval.low, interval.high, test.pvalue))
    return adjusted(found)


def adjusted(found):
    small, large = sorted(p for *_, p in found)
    holm = {small: min(1, 2 * small), large: max(min(1, 2 * small), large)}
    return [(*rest, holm[p]) for *rest, p in found]


def widths(score):
    """The band within .5 of the best of two rates: all of it, two doublings, or one rate."""
    low, high = (LOSS[score, rate] for rate in RATES)
    return np.where(np.abs(low - high) <= 0.5, 2.0, 0.0)


at = {(score, rate): EXACT[score, rate] for score, rate in EXACT}
bands = {score: widths(score) for score in SCORES}
KINDS = {
    "difference": (
        {"where": {RATE: 0.001}, "contrasts": [pair("dot"), pair("additive")]},
        differences(
            {s: EXACT[s, 0.001] for s in SCORES}, [{"dot": 1, "bilinear": -1}, {"additive": 1, "bilinear": -1}]
        ),
    ),
    "best": (
        {"contrasts": [pair("dot", best_over=[RATE]), pair("additive", best_over=[RATE])]},
        differences(
            {s: EXACT[s, min(RATES, key=lambda rate, s=s: LOSS[s, rate].mean())] for s in SCORES},
            [{"dot": 1, "bilinear": -1}, {"additive": 1, "bilinear": -1}],
        ),
    ),
    "interaction": (
        {
            "contrasts": [
                {"statistic": "interaction", **pair(score, 0.004), "minus": pair(score, 0.001)}
                for score in ("dot", "additive")
            ]
        },
        differences(
            at,
            [
                {(s, 0.004): 1, ("bilinear", 0.004): -1, (s, 0.001): -1, ("bilinear", 0.001): 1}
                for s in ("dot", "additive")
            ],
        ),
    ),
    "trend": (
        {"contrasts": [{"statistic": "trend", **pair(score), "over": RATE} for score in ("dot", "additive")]},
        differences(
            at,
            [
                {(s, 0.004): SLOPE, ("bilinear", 0.004): -SLOPE, (s, 0.001): -SLOPE, ("bilinear", 0.001): SLOPE}
                for s in ("dot", "additive")
            ],
        ),
    ),
    "band": (
        {
            "metric": "valid/nll",
            "contrasts": [{"statistic": "band", **pair(s), "within": 0.5} for s in ("dot", "additive")],
        },
        differences(bands, [{"dot": 1, "bilinear": -1}, {"additive": 1, "bilinear": -1}]),
    ),
    "within": (
        {
            "where": {RATE: 0.001},
            "contrasts": [
                {"statistic": "within", "arm": side("dot"), "of": "test/exact", "minus": "valid/nll"},
                {"statistic": "within", "arm": side("dot"), "of": "valid/nll", "minus": 1.5},
            ],
        },
        means([EXACT["dot", 0.001] - LOSS["dot", 0.001], LOSS["dot", 0.001] - 1.5]),
    ),
    "draws": (
        {
            "contrasts": [
                {"statistic": "draws", "arm": {RATE: a}, "baseline": {RATE: b}, "over": SCORE}
                for a, b in itertools.permutations(RATES)
            ]
        },
        means([[at[s, a].mean() - at[s, b].mean() for s in SCORES] for a, b in itertools.permutations(RATES)]),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_two_contrasts_of_a_kind_have_their_own_numbers(kind, tmp_path):
    study = Study(tmp_path)
    for (score, rate), values in EXACT.items():
        for place, seed in enumerate(SEEDS):
            loss = Score(split="valid", metric="nll", value=LOSS[score, rate][place], n=50)
            study.write(score, rate, {seed: values[place]}, more=lambda value, loss=loss: [loss])
    question, expected = KINDS[kind]
    tests = [row.test for row in study.ask({"type": "shape"}, **{"where": {}, "margin": None} | question)]
    assert {test.method for test in tests} == {"within" if kind in ("within", "draws") else "welch"}
    for test, numbers in zip(tests, expected, strict=True):
        assert (test.difference, test.low, test.high, test.holm) == pytest.approx(numbers, rel=1e-6)


def test_two_correlations_have_their_own_numbers(tmp_path):
    """Between and within arms: the means of the seeds, and the mean over arms of the correlation over seeds."""
    study = Study(tmp_path)
    for (score, rate), values in EXACT.items():
        for place, seed in enumerate(SEEDS):
            error = Score(split="test", metric="aer", value=LOSS[score, rate][place] / 10, n=50)
            study.write(score, rate, {seed: values[place]}, more=lambda value, error=error: [error])
    contrasts = [
        {"statistic": "correlation", "between": ["test/aer", "test/bleu"], "level": level}
        for level in ("arms", "seeds")
    ]
    rows = study.ask({"type": "equivalence"}, metric="test/bleu", margin=0.3, where={}, contrasts=contrasts)
    between = stats.spearmanr([v.mean() for v in LOSS.values()], [v.mean() for v in EXACT.values()]).statistic
    within = np.mean([stats.spearmanr(LOSS[arm], EXACT[arm]).statistic for arm in EXACT])
    assert [row.test.difference for row in rows] == pytest.approx([between, within])
    assert [row.weighted.n for row in rows] == [6, 6]


@pytest.mark.parametrize("rate", [0, 1])
def test_a_diverged_run_leaves_draws_undecided(rate, tmp_path):
    """A draw's difference has a hole in one of its arms: which way it would have gone is not known."""
    study, words = Study(tmp_path), []
    for lost in (None, rate):
        for score in SCORES:
            for at, value in ((RATES[0], 80.0), (RATES[1], 40.0)):
                study.write(
                    score,
                    at,
                    {seed: value * (1 + SCORES.index(score) / 50) + place for place, seed in enumerate(SEEDS)},
                )
        if lost is not None:
            study.write(SCORES[0], RATES[lost], {SEEDS[0]: None}, status="diverged")
        for a, b in (RATES[:2], RATES[1::-1]):
            contrast = {"statistic": "draws", "arm": {RATE: a}, "baseline": {RATE: b}, "over": SCORE}
            (row,) = study.ask({"type": "shape"}, where={}, margin=None, contrasts=[contrast])
            words.append(row.word)
    assert words == ["supported", "contradicted", "undecided", "undecided"]
    told = cells(row)
    assert told["n"] == f"{len(SCORES)} draws"
    assert told["notes"].endswith("n counts draws of the corpus, of 4 seeds each")
