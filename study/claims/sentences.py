"""Noise of the test sentences in contrasts: `tables/sentences.csv` of a results folder.

A row is one score of one contrast, named by the weights and runs of its arms. NLL, exact match and word accuracy are
means over sentences. BLEU is linearised: sentence i has BLEU + I ∇BLEU · counts_i, whose mean is BLEU, where the counts
are the lengths and the n-grams that BLEU sums up.
"""

from __future__ import annotations

import csv
import io
from functools import lru_cache
from operator import eq
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from study import files
from study.analysis.inference import SentenceNoise, sentence_variance
from study.claims.contrasts import Weighted
from study.claims.schema import Contrast
from study.config import experiment_from
from study.corpora import Pair
from study.scores import metrics, scoring
from study.store.folder import Store
from study.store.rows import HYPOTHESES, NLL

TABLE = Path("tables") / "sentences.csv"
COLUMNS = ["metric", "runs", "variance", "n", "both right", "one right", "none right"]
SCORES = ("nll", "exact", "accuracy", "bleu")


class Key(NamedTuple):
    """The score of a contrast, and its sides: the weight of an arm, and the ids of its runs."""

    metric: str
    sides: tuple[tuple[float, tuple[str, ...]], ...]

    @property
    def cells(self) -> tuple[str, str]:
        """The score and the sides as cells of the table: `1 arm-s1 arm-s2; -1 base-s1 base-s2`."""
        return self.metric, "; ".join(" ".join([f"{weight:.6g}", *runs]) for weight, runs in self.sides)


class SentenceNoises:
    """Noise of the sentences for the contrasts of a folder.

    Published contrasts are read from their table; others are computed from the scores of each sentence.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._published = self._read()
        self._used: dict[Key, SentenceNoise | None] = {}

    def of(self, contrast: Contrast, metric: str, weighted: Weighted) -> SentenceNoise | None:
        """Return the noise of a contrast; None if its score is not known by sentence, or seeds or sentences are one."""
        key = _key(contrast, metric, weighted)
        if key is None:
            return None
        if key not in self._used:
            published = key.cells in self._published
            self._used[key] = self._published[key.cells] if published else _measured(self.store, key)
        return self._used[key]

    def write(self) -> Path:
        """Write the table of the contrasts that were asked for."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for key, noise in self._used.items():
            writer.writerow([*key.cells, *_cells(noise)])
        files.write(self.store.folder / TABLE, text.getvalue())
        return self.store.folder / TABLE

    def _read(self) -> dict[tuple[str, str], SentenceNoise | None]:
        """Return the published noises by the cells of their keys."""
        path = self.store.folder / TABLE
        if not (self.store.published and path.is_file()):
            return {}
        noises: dict[tuple[str, str], SentenceNoise | None] = {}
        for metric, runs, variance, n, *parts in list(csv.reader(files.read_text(path).splitlines()))[1:]:
            shares = (float(parts[0]), float(parts[1]), float(parts[2])) if parts[0] else None
            noises[metric, runs] = SentenceNoise(float(variance), int(n), shares) if variance else None
        return noises


def _cells(noise: SentenceNoise | None) -> list[str]:
    """Return the cells of a row after its key."""
    if noise is None:
        return [""] * (len(COLUMNS) - len(Key._fields))
    shares = [f"{part:.8g}" for part in noise.shares] if noise.shares else [""] * 3
    return [f"{noise.variance:.10g}", str(noise.n), *shares]


def _key(contrast: Contrast, metric: str, weighted: Weighted) -> Key | None:
    """Return the key of a contrast of arms that are runs; None for other contrasts, and for a single seed."""
    if contrast.statistic not in ("difference", "interaction"):
        return None
    if metrics.is_diagnostic(metric) or metric.split("/")[1] not in SCORES:
        return None
    seeds = sorted(set.intersection(*({*arm.values} for _, arm in weighted.parts)))
    sides = [(weight, tuple(f"{arm.label}-s{seed}" for seed in seeds)) for weight, arm in weighted.parts]
    return Key(metric, tuple(sides)) if len(seeds) > 1 else None


def _measured(store: Store, key: Key) -> SentenceNoise | None:
    """Return the noise of a contrast; None if it cannot be computed here."""
    split, score, subset = [*key.metric.split("/", 2), ""][:3]
    runs = [run for _, names in key.sides for run in names]
    file = split + (NLL if score == "nll" else HYPOTHESES)
    if not all(store.content(run, file) for run in runs):
        return None
    trees = [store.rest(run) for run in runs]
    corpora = {tuple((tree["data"] or {}).get("files", {}).items()) for tree in trees}
    if len(corpora) != 1:
        return None
    data = experiment_from(trees[0]["config"]).data
    pairs, members = _pairs(data, split, subset, *corpora)
    if subset and not members:
        return None
    parts: list[Any] = []
    right: list[Any] = []
    for weight, names in key.sides:
        values = [_values(store, run, split, score, pairs) for run in names]
        if not all(len(column) for column in values):
            return None
        chosen = [i for i in members if i < len(values[0])] if members else slice(None)
        parts.append(weight * np.array(values)[:, chosen])
        exact = [_values(store, run, split, "exact", pairs) for run in names] if score == "nll" else []
        if exact and all(len(column) for column in exact):
            right.append(np.array(exact)[:, chosen] > 0)
    table = np.sum(parts, axis=0)
    if score == "accuracy":
        words = sum(len(scoring.forms(pairs[i].target)) for i in members or range(len(pairs)))
        table = table * (len(members or pairs) / words)
    variance = sentence_variance(table)
    if variance is None:
        return None
    if len(right) < len(key.sides):
        return SentenceNoise(variance, table.shape[1])
    counts = np.sum(right, axis=0)
    both = float(np.where(counts == len(key.sides), table, 0.0).mean())
    none = float(np.where(counts == 0, table, 0.0).mean())
    return SentenceNoise(variance, table.shape[1], (both, float(table.mean()) - both - none, none))


@lru_cache
def _pairs(data: Any, split: str, subset: str, digests: tuple[tuple[str, str], ...]) -> tuple[list[Pair], list[int]]:
    """Return the sentences of a split, and the places of those in a subset; none without the text or the subset."""
    pairs: list[Pair] = data.pairs_of(split, dict(digests)) or []
    inside = (scoring.length_buckets(pairs) | data.in_subsets(split, pairs)).get(subset, []) if subset else []
    return pairs, [i for i, belongs in enumerate(inside) if belongs]


def _values(store: Store, run: str, split: str, score: str, pairs: list[Pair]) -> Any:
    """Return what a run has for each sentence; nothing if that was not kept."""
    if score == "nll":
        return [float(line) for line in (store.content(run, split + NLL) or b"").splitlines()]
    if score == "accuracy":  # words of the reference that the translation has at the same place
        both = zip(store.hypotheses(run, split), pairs, strict=True) if pairs else ()
        return [100.0 * sum(map(eq, scoring.forms(text), scoring.forms(pair.target))) for text, pair in both]
    counts = np.array(store.counts(run, split), dtype=float)
    if score == "exact" and not len(counts) and pairs:
        both = zip(store.hypotheses(run, split), pairs, strict=True)
        return [100.0 if text.strip() == pair.target.strip() else 0.0 for text, pair in both]
    if not len(counts) and pairs:
        counts = np.array(scoring.counts(store.hypotheses(run, split), pairs), dtype=float)
    if not len(counts):
        return []
    return 100.0 * counts[:, 1] if score == "exact" else linearised(counts[:, 2:])


def linearised(counts: Any) -> Any:
    """Return BLEU by sentence, whose mean is BLEU; nothing if no n-gram of a length is right.

    Args:
        counts: lengths of translation and reference, and right n-grams of 1 to 4 words, of each sentence.
    """
    ours, theirs, *right = np.asarray(counts, dtype=float).T
    totals = [np.maximum(0.0, ours - n) for n in range(4)]
    if not all(matches.sum() for matches in right):
        return []
    logs = [np.log(a.sum() / b.sum()) for a, b in zip(right, totals, strict=True)]
    short = ours.sum() < theirs.sum()
    bleu = 100.0 * np.exp(np.mean(logs) + (1.0 - theirs.sum() / ours.sum()) * short)
    slopes = sum(a / a.sum() - b / b.sum() for a, b in zip(right, totals, strict=True)) / 4
    slopes = slopes + short * (theirs.sum() / ours.sum()) * (ours / ours.sum() - theirs / theirs.sum())
    return bleu * (1.0 + len(ours) * slopes)
