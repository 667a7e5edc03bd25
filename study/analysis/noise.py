"""Differences between two arms over the sentences of a test set, which are a sample, too.

Two numbers stand beside a contrast, which is tested over seeds. The first asks of every seed alone if the difference of
its two models is more than chance over sentences: approximate randomisation, as k of n seeds. The second is an interval
that covers seeds and sentences together. Both are computed once and kept in `results/noise.csv`.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from study.analysis.inference import LEVEL
from study.errors import InputError

FILE = "noise.csv"
COLUMNS = ("metric", "arm", "baseline", "p", "low", "high")
"""`arm` and `baseline`: ids of runs, the same seeds in the same order; `p`: of each; `low`, `high`: the interval."""
TRIALS = 2000
SEED = 12345
"""Seed of the random draws, that of sacreBLEU."""

Key = tuple[str, str, str]
"""Metric, runs of the arm and runs of the baseline, as in the file."""


@dataclass(frozen=True)
class SentenceTest:
    """Test of a difference over sentences: p of each seed, and the 95% interval over seeds and sentences."""

    p: tuple[float, ...]
    interval: tuple[float, float] | None
    """None for BLEU, which is no mean over sentences, and for one seed."""

    @property
    def count(self) -> str:
        """`4 of 5`: seeds with p < .05."""
        return f"{sum(p < LEVEL for p in self.p)} of {len(self.p)}"


def randomised(differences: Any, trials: int = TRIALS) -> float:
    """Return p of a mean difference d̄ of two models over sentences, by approximate randomisation (Noreen 1989).

    In every trial each sentence's difference keeps or changes its sign by chance. p = (c + 1) / (trials + 1), where c
    counts trials whose |sum| is at least that of the data.

    Args:
        differences: one for each sentence.
        trials: their number.
    """
    some = np.asarray(differences, dtype=float)
    some = some[some != 0]
    whole = abs(some.sum())
    signs = 1.0 - 2.0 * np.random.default_rng(SEED).integers(2, size=(trials, len(some)))
    count = int((np.abs(signs @ some) >= whole - 1e-9 * max(1.0, whole)).sum())
    return (count + 1) / (trials + 1)


def crossed_interval(differences: Any) -> tuple[float, float] | None:
    """Return the 95% interval of a mean difference over seeds and sentences; None if one of them does not repeat.

    Model: d_si = μ + a_s + b_i + e_si, with random seeds s = 1 … S and sentences i = 1 … I, fitted by the mean squares
    of a two-way table. The variance of d̄ is (MS_seed + max(0, MS_sentence − MS_error)) / (S I). Student's t has the
    degrees of freedom of Satterthwaite (1946). Without a share of sentences this is the paired t-test over seeds.

    Args:
        differences: a row for each seed, a column for each sentence.
    """
    from scipy.stats import t

    table = np.asarray(differences, dtype=float)
    s, i = table.shape
    if s < 2 or i < 2:
        return None
    middle, seeds, sentences = table.mean(), table.mean(1), table.mean(0)
    error = ((table - seeds[:, None] - sentences + middle) ** 2).sum() / ((s - 1) * (i - 1))
    by_seed = i * ((seeds - middle) ** 2).sum() / (s - 1)
    by_sentence = s * ((sentences - middle) ** 2).sum() / (i - 1)
    parts = [(by_seed, s - 1)]
    if by_sentence > error:
        parts += [(by_sentence, i - 1), (-error, (s - 1) * (i - 1))]
    variance = sum(part for part, _ in parts)
    if variance <= 0:
        return None
    df = variance**2 / sum(part**2 / freedom for part, freedom in parts)
    half = float(t.ppf(1 - LEVEL / 2, df)) * math.sqrt(variance / (s * i))
    return float(middle) - half, float(middle) + half


def read(results: Path) -> dict[Key, SentenceTest]:
    """Return the tests of a results folder; none where there is no file.

    Raises:
        InputError: the file is damaged.
    """
    path, found = results / FILE, {}
    if path.is_file():
        try:
            for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
                ends = (float(row["low"]), float(row["high"])) if row["low"] else None
                found[row["metric"], row["arm"], row["baseline"]] = SentenceTest(
                    tuple(map(float, row["p"].split())), ends
                )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(f"{path}: expected numbers. Remove the file and run `study reproduce`.") from None
    return found
