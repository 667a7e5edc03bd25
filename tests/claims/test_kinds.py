"""Two contrasts of every kind in one question: each has its own numbers, those of a computation of its own."""

import itertools
import math

import numpy as np
import pytest
from claim_cases import RATE, SCORE, SEEDS, Study
from scipy import stats

from study.claims import contrasts
from study.claims.table import cells
from study.records import Score

SCORES, LOW, HIGH = ("dot", "bilinear", "additive"), 0.001, 0.004
BOTH, BASE = ("dot", "additive"), "bilinear"
ARMS = list(itertools.product(SCORES, (LOW, HIGH)))
EXACT = dict(zip(ARMS, 60 + np.random.default_rng(4).normal(0, 2, (6, 5)).round(2), strict=True))
LOSSES = (
    (1.0, 1.1, 0.9, 1.2, 1.0),
    (1.2, 2.0, 1.1, 1.4, 2.2),
    (2.0, 2.2, 1.9, 1.5, 2.1),
    (1.1, 1.2, 1.0, 1.3, 1.4),
    (1.3, 1.9, 1.2, 2.4, 1.1),
    (1.0, 1.0, 1.1, 1.2, 1.3),
)
LOSS = dict(zip(ARMS, np.array(LOSSES), strict=True))
BEST = {score: min((LOW, HIGH), key=lambda rate, score=score: LOSS[score, rate].mean()) for score in SCORES}
WIDTHS = {s: np.where(np.abs(LOSS[s, LOW] - LOSS[s, HIGH]) <= 0.5, 2.0, 0.0) for s in SCORES}
"""The band within .5 of the best of two rates: all of it, two doublings, or one rate."""


def adjusted(found):
    small, large = sorted(p for *_, p in found)
    holm = {small: min(1, 2 * small), large: max(min(1, 2 * small), large)}
    return [(*rest, holm[p]) for *rest, p in found]


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
    tests = [stats.ttest_1samp(sample, 0) for sample in samples]
    ends = [test.confidence_interval(0.975) for test in tests]
    return adjusted([(np.mean(x), e.low, e.high, t.pvalue) for x, e, t in zip(samples, ends, tests, strict=True)])


def pairs(rate=None, statistic="difference", **more):
    """Contrasts of both scores with the base."""
    at = {} if rate is None else {RATE: rate}
    sides = [{"arm": {SCORE: score} | at, "baseline": {SCORE: BASE} | at} for score in BOTH]
    return [one | {"statistic": statistic} | more for one in sides]


WITHIN = {"statistic": "within", "arm": {SCORE: "dot", RATE: LOW}}
ORDERS = list(itertools.permutations((LOW, HIGH)))
KINDS = {
    "difference": (pairs(LOW), differences(EXACT, [{(s, LOW): 1, (BASE, LOW): -1} for s in BOTH])),
    "best": (
        pairs(best_over=[RATE]),
        differences(EXACT, [{(s, BEST[s]): 1, (BASE, BEST[BASE]): -1} for s in BOTH]),
    ),
    "interaction": (
        [
            one | {"statistic": "interaction", "minus": {side: less[side] for side in ("arm", "baseline")}}
            for one, less in zip(pairs(HIGH), pairs(LOW), strict=True)
        ],
        differences(EXACT, [{(s, HIGH): 1, (BASE, HIGH): -1, (s, LOW): -1, (BASE, LOW): 1} for s in BOTH]),
    ),
    "band": (pairs(statistic="band", within=0.5), differences(WIDTHS, [{s: 1, BASE: -1} for s in BOTH])),
    "within": (
        [WITHIN | {"of": "test/exact", "minus": "valid/nll"}, WITHIN | {"of": "valid/nll", "minus": 1.5}],
        means([EXACT["dot", LOW] - LOSS["dot", LOW], LOSS["dot", LOW] - 1.5]),
    ),
    "draws": (
        [{"statistic": "draws", "arm": {RATE: a}, "baseline": {RATE: b}} for a, b in ORDERS],
        means([[EXACT[s, a].mean() - EXACT[s, b].mean() for s in SCORES] for a, b in ORDERS]),
    ),
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    made = Study(tmp_path_factory.mktemp("kinds"))
    for arm in ARMS:
        for seed, exact, loss in zip(SEEDS, EXACT[arm], LOSS[arm], strict=True):
            more = [Score(split="valid", metric="nll", value=loss, n=50)]
            more += [Score(split="test", metric="aer", value=loss / 10, n=50)]
            made.write(*arm, {seed: exact}, more=lambda value, more=more: more)
    return made


@pytest.fixture
def draws(monkeypatch):
    """The scores stand for draws of the corpus, so that the sweep needs no further field."""
    monkeypatch.setattr(contrasts, "DRAW", SCORE)


@pytest.mark.parametrize("kind", KINDS)
def test_two_contrasts_of_a_kind_have_their_own_numbers(kind, study, draws):
    asked, expected = KINDS[kind]
    metric = "valid/nll" if kind == "band" else "test/exact"
    rows = study.ask({"type": "shape"}, where={}, margin=None, metric=metric, contrasts=asked)
    assert {row.test.method for row in rows} == {"within" if kind in ("within", "draws") else "welch"}
    for test, numbers in zip((row.test for row in rows), expected, strict=True):
        assert (test.difference, test.low, test.high, test.holm) == pytest.approx(numbers, rel=1e-6)


def test_two_correlations_have_their_own_numbers(study):
    """Between and within arms: the means of the seeds, and the mean over arms of the correlation over seeds."""
    entry = {"statistic": "correlation", "between": ["test/aer", "test/bleu"]}
    contrasts = [entry | {"level": level} for level in ("arms", "seeds")]
    rows = study.ask({"type": "equivalence"}, metric="test/bleu", margin=0.3, where={}, contrasts=contrasts)
    between = stats.spearmanr([v.mean() for v in LOSS.values()], [v.mean() for v in EXACT.values()]).statistic
    within = np.mean([stats.spearmanr(LOSS[arm], EXACT[arm]).statistic for arm in EXACT])
    assert [row.test.difference for row in rows] == pytest.approx([between, within])
    assert [row.weighted.n for row in rows] == [6, 6]


@pytest.mark.parametrize("lost", [LOW, HIGH])
def test_a_diverged_run_leaves_draws_undecided(lost, tmp_path, draws):
    """A draw's difference has a hole in one of its arms: which way it would have gone is not known."""
    study, words = Study(tmp_path), []
    for i, score in enumerate(SCORES):
        for rate, value in ((LOW, 80.0), (HIGH, 40.0)):
            study.write(score, rate, {seed: value * (1 + i / 50) + seed for seed in SEEDS})
    for _ in range(2):
        for contrast in KINDS["draws"][0]:
            (row,) = study.ask({"type": "shape"}, where={}, margin=None, contrasts=[contrast])
            words.append(row.word)
        study.write(SCORES[0], lost, {SEEDS[0]: None}, status="diverged")
    assert words == ["supported", "contradicted", "undecided", "undecided"]
    told = cells(row)
    assert told["n"] == f"{len(SCORES)} draws"
    assert told["notes"].endswith("n counts draws of the corpus, of 4 seeds each")
