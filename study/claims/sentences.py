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
    if metrics.is_diagnostic(metric) or metric.split("/")[1] not in MEASURES:
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
    terms: list[Any] = []
    right: list[Any] = []
    for weight, names in key.sides:
        values = [_values(store, run, split, score, pairs, members) for run in names]
        if any(column is None for column in values):
            return None
        terms.append(weight * np.array(values))
        exact = [facts(store, run, split, "exact", pairs) for run in names] if score == "nll" else []
        if exact and all(table is not None for table in exact):
            right.append(np.array(exact)[:, members or slice(None), 0] > 0)
    table = np.sum(terms, axis=0)
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


def _values(store: Store, run: str, split: str, score: str, pairs: list[Pair], members: list[int]) -> Table | None:
    """Return the linearised score of a run for each sentence of a subset; None if it has none."""
    table = facts(store, run, split, score, pairs)
    if table is None or (members and len(table) != len(pairs)):
        return None
    return MEASURES[score].linearised(table[members] if members else table)


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
