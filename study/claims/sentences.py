"""Noise of the test sentences in contrasts: `tables/sentences.csv` of a results folder.

A row is one score of one contrast, named by the weights and runs of its arms. A score is a function of sums over
sentences (`study.scores.scoring.Measure`) and is linearised at the sums of its run: sentence i of n has
score + n ∇score · facts_i, whose mean is the score.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from functools import lru_cache
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
from study.scores.scoring import Table
from study.store.folder import Store
from study.store.rows import HYPOTHESES, NLL

TABLE = Path("tables") / "sentences.csv"
COLUMNS = ["metric", "runs", "variance", "n", "both right", "one right", "none right"]
MEASURES = {"nll": scoring.nll} | {name: scoring.MEASURES[name] for name in ("exact", "accuracy", "bleu")}
"""Scores whose noise of the sentences is known."""


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
            shares = tuple(map(float, filter(None, parts)))
            noises[metric, runs] = SentenceNoise(float(variance), int(n), shares) if variance else None
        return noises


def _cells(noise: SentenceNoise | None) -> list[str]:
    """Return the cells of a row after its key."""
    if noise is None:
        return [""] * (len(COLUMNS) - len(Key._fields))
    shares = [f"{part:.8g}" for part in noise.shares] or [""] * 3
    return [f"{noise.variance:.10g}", str(noise.n), *shares]


def _key(contrast: Contrast, metric: str, weighted: Weighted) -> Key | None:
    """Return the key of a contrast of arms that are runs; None for other contrasts, and for a single seed."""
    if contrast.statistic not in ("difference", "interaction"):
        return None
    if metrics.is_diagnostic(metric) or metric.split("/")[1] not in MEASURES:
        return None
    seeds = sorted(set.intersection(*(set(arm.values) for arm in weighted.arms)))
    sides = []
    for weight, arm in weighted.parts:
        sides.append((weight, tuple(f"{arm.label}-s{seed}" for seed in seeds)))
    return Key(metric, tuple(sides)) if len(seeds) > 1 else None


def _measured(store: Store, key: Key) -> SentenceNoise | None:
    """Return the noise of a contrast; None if it cannot be computed here."""
    split, score, subset = [*key.metric.split("/", 2), ""][:3]
    weights: list[float] = []
    runs: list[str] = []
    for weight, ids in key.sides:
        weights.append(weight)
        runs += ids
    file = split + (NLL if score == "nll" else HYPOTHESES)
    if not all(store.content(run, file) for run in runs):
        return None
    corpora = {tuple((tree["data"] or {}).get("files", {}).items()) for tree in map(store.rest, runs)}
    if len(corpora) != 1:
        return None
    data = experiment_from(store.rest(runs[0])["config"]).data
    pairs, members = _pairs(data, split, subset, *corpora)
    tables = _tables(store, runs, split, score, pairs, members)
    if tables is None:
        return None
    values = []
    for table in tables:
        value = MEASURES[score].linearised(table)
        if value is None:
            return None
        values.append(value)
    by_side = np.reshape(values, (len(weights), -1, len(values[0])))  # side, seed, sentence
    differences = (np.reshape(weights, (-1, 1, 1)) * by_side).sum(axis=0)
    sentences = differences.shape[1]
    variance = sentence_variance(differences)
    if variance is None:
        return None
    exact = _tables(store, runs, split, "exact", pairs, members) if score == "nll" else None
    if exact is None:
        return SentenceNoise(variance, sentences)
    right = np.reshape([table[:, 0] > 0 for table in exact], by_side.shape).sum(axis=0)
    both = float(np.where(right == len(weights), differences, 0.0).mean())
    none = float(np.where(right == 0, differences, 0.0).mean())
    return SentenceNoise(variance, sentences, (both, float(differences.mean()) - both - none, none))


@lru_cache
def _pairs(data: Any, split: str, subset: str, digests: tuple[tuple[str, str], ...]) -> tuple[list[Pair], Any]:
    """Return the sentences of a split, and the places of those in a subset; None for the whole split."""
    pairs: list[Pair] = data.pairs_of(split, dict(digests)) or []
    if not subset:
        return pairs, None
    subsets = scoring.length_buckets(pairs) | data.in_subsets(split, pairs)
    return pairs, np.flatnonzero(subsets.get(subset, ()))


def _tables(
    store: Store, runs: Sequence[str], split: str, score: str, pairs: Sequence[Pair], members: Any
) -> list[Table] | None:
    """Return the facts of each run for the sentences of a subset; None if a run has none."""
    tables = []
    for run in runs:
        table = facts(store, run, split, score, pairs)
        if table is None:
            return None
        if members is not None:
            if len(table) != len(pairs) or not len(members):
                return None
            table = table[members]
        tables.append(table)
    return tables


def facts(store: Store, run: str, split: str, score: str, pairs: Sequence[Pair]) -> Table | None:
    """Return the facts of a score for each sentence of a split; None if they are not stored.

    They follow from the stored NLL or counts; else from the translations, if the sentences (`pairs`) are at hand.

    Raises:
        InputError: the files of the run cannot be read.
    """
    if score == "nll":
        lines = (store.content(run, split + NLL) or b"").splitlines()
        return scoring.nll.table([float(line) for line in lines]) if lines else None
    counts = store.counts(run, split)
    if counts and score in scoring.COUNTED:
        return scoring.counted(score, counts)
    translations = store.hypotheses(run, split)
    if len(translations) != len(pairs):
        return None
    return scoring.MEASURES[score].table(translations, [pair.target for pair in pairs])
