"""Tests of contrasts over the sentences of the test set: `tables/sentences.csv` of a results folder.

A row is a difference of two arms. BLEU is tested by sacreBLEU; exact match, word accuracy and NLL are means over
sentences, tested by changing signs. A row stays as long as its contrast does, since the runs name it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import eq
from pathlib import Path
from typing import Any

import numpy as np

from study import files, metrics, scoring
from study.analysis.inference import TRIALS, SentenceTest, crossed_interval, randomised
from study.claims.verdicts import Finding
from study.config import experiment_from
from study.records import rounded
from study.store import Store

TESTS = Path("tables") / "sentences.csv"
KEY, NUMBERS = ["metric", "arm", "baseline"], ["p", "low", "high"]
"""`arm` and `baseline`: ids of runs, the same seeds in the same order; `p`: of each; `low`, `high`: the interval."""
SentenceKey = tuple[str, ...]
"""Metric, runs of the arm and runs of the baseline of a test over sentences."""


def key_of(row: Finding) -> SentenceKey | None:
    """Return the metric and the runs of equal seed of a difference of two arms; None for other contrasts."""
    metric, parts = row.question.metric, sorted(row.weighted.parts, key=lambda part: -part[0])
    if row.contrast.statistic != "difference" or row.question.by_length or metrics.is_diagnostic(metric):
        return None
    arms = [arm for _, arm in parts]
    seeds = [seed for seed in arms[0].values if all(seed in arm.values for arm in arms)]
    return (metric, *(" ".join(f"{arm.label}-s{seed}" for seed in seeds) for arm in arms)) if seeds else None


def add_sentence_tests(rows: Sequence[Finding], store: Store | None) -> None:
    """Add to each contrast its test over sentences, where the results folder has one."""
    known = _read(store)
    for row in rows:
        key = key_of(row)
        if key in known:
            p, low, high = known[key]
            interval = (float(low), float(high)) if low else None
            row.sentences = SentenceTest(tuple(map(float, p.split())), interval)


def _read(store: Store | None) -> dict[SentenceKey | None, list[str]]:
    if store is None or not store.published or not (store.folder / TESTS).is_file():
        return {}
    import pandas as pd

    frame = pd.read_csv(store.folder / TESTS, dtype=str, keep_default_na=False)
    return {tuple(line[:3]): line[3:] for line in frame.to_numpy().tolist()}


def write(store: Store, rows: Sequence[Finding]) -> None:
    """Write a row for every difference of two arms behind the verdicts.

    Rows that are there are kept. Without references at hand, and without NLL of each sentence, a contrast has no row.
    """
    import pandas as pd

    kept = _read(store)
    tested = {key: kept.get(key) or _tested(store, key) for key in map(key_of, rows) if key}
    frame = pd.DataFrame([[*key, *numbers] for key, numbers in tested.items() if numbers], columns=[*KEY, *NUMBERS])
    files.write(store.folder / TESTS, frame.to_csv(index=False, lineterminator="\n"))


def _tested(store: Store, key: SentenceKey) -> list[str] | None:
    """Return p, low and high of a difference; None if it cannot be tested here."""
    split, score, subset = [*key[0].split("/", 2), ""][:3]
    arms = [side.split() for side in key[1:]]
    trees = [store.rest(run) for side in arms for run in side]
    digests = {tuple(tree["data"]["files"].items()) for tree in trees}
    if len(digests) > 1:
        return None
    targets = _targets(experiment_from(trees[0]["config"]).data, split, subset, *digests)
    values = [[_values(store, run, split, score, targets) for run in side] for side in arms]
    if not all(one for side in values for one in side):
        return None
    if score == "bleu":
        p, ends = [_bleu(a, b, [*targets.values()]) for a, b in zip(*values, strict=True)], None
    else:
        words = sum(len(scoring.forms(text)) for text in targets.values())
        factor = {"exact": 100.0, "accuracy": 100.0 * len(targets) / max(1, words)}.get(score, 1.0)
        differences = np.array(values[0]) - np.array(values[1])
        p, ends = [randomised(row) for row in differences], crossed_interval(differences * factor)
    return [" ".join(f"{one:.4f}" for one in p), *([f"{rounded(end)}" for end in ends] if ends else ["", ""])]


@lru_cache
def _targets(section: Any, split: str, subset: str, digests: tuple[tuple[str, str], ...]) -> dict[int, str]:
    """Return the references of a split or of its subset, by their place in the split; none without the text."""
    pairs = section.pairs_of(split, dict(digests)) or []
    members = section.in_subsets(split, pairs)[subset] if pairs and subset else [True] * len(pairs)
    return {i: pair.target for i, (pair, belongs) in enumerate(zip(pairs, members, strict=True)) if belongs}


def _values(store: Store, run: str, split: str, score: str, targets: dict[int, str]) -> list[Any]:
    """Return what a run has for each sentence: a translation, or a number; nothing if that was not kept."""
    content = store.content(run, f"{split}.nll.txt" if score == "nll" else f"{split}.hyp.txt")
    lines = content.decode("utf-8").removesuffix("\n").split("\n") if content else []
    both = [(lines[i], text) for i, text in targets.items() if lines]
    match score:
        case "nll":
            return [float(line) for line, _ in both]
        case "exact":
            return [float(line.strip() == text.strip()) for line, text in both]
        case "accuracy":  # words of the reference that the translation has at the same place
            return [float(sum(map(eq, scoring.forms(line), scoring.forms(text)))) for line, text in both]
        case "bleu":
            return [line for line, _ in both]
    return []


def _bleu(ours: list[str], theirs: list[str], references: list[str]) -> float:
    """Return p of a difference in BLEU, by sacreBLEU's approximate randomisation."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.significance import PairedTest

    systems: list[tuple[str, Sequence[str]]] = [("baseline", theirs), ("arm", ours)]
    _, scores = PairedTest(systems, {"BLEU": BLEU(force=True)}, [references], "ar", TRIALS)()
    differing = sum(a != b for a, b in zip(ours, theirs, strict=True))
    # sacreBLEU counts trials that pass the data; the draw that is the data and its mirror are two of 2^differing.
    result: Any = scores["BLEU"][1]
    return max(float(result.p_value), 2.0 ** (1 - differing) if differing else 1.0)
