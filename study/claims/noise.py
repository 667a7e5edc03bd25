"""Tests of contrasts over the sentences of the test set: `tables/sentences.csv` of a results folder.

A row is a difference of two arms. BLEU is tested by sacreBLEU; exact match, word accuracy and NLL are means over
sentences, tested by changing signs. A row stays as long as its contrast does, since the runs name it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import eq
from pathlib import Path
from typing import Any

import numpy as np

from study import files, metrics
from study.analysis.inference import TRIALS, SentenceTest, crossed_interval, randomised
from study.claims.verdicts import Finding, Verdict
from study.config import experiment_from
from study.corpora import Corpus
from study.errors import InputError
from study.records import rounded
from study.store import Store

TESTS = Path("tables") / "sentences.csv"
COLUMNS = ("metric", "arm", "baseline", "p", "low", "high")
"""`arm` and `baseline`: ids of runs, the same seeds in the same order; `p`: of each; `low`, `high`: the interval."""
LARGEST = 2**24
TESTED = ("bleu", "exact", "accuracy", "nll")
SentenceKey = tuple[str, str, str]
"""Metric, runs of the arm and runs of the baseline of a test over sentences."""


def key_of(verdict: Verdict, found: Finding) -> SentenceKey | None:
    """Return the metric and the runs of equal seed of a difference of two arms; None for other contrasts."""
    question, parts = verdict.question, found.weighted.parts
    plain = found.contrast.statistic == "difference" and len(parts) == 2
    if not plain or question.by_length or metrics.is_diagnostic(question.metric):
        return None
    (_, arm), (_, base) = sorted(parts, key=lambda part: -part[0])
    seeds = [seed for seed in arm.values if seed in base.values]
    ours, theirs = (" ".join(f"{one.label}-s{seed}" for seed in seeds) for one in (arm, base))
    return (question.metric, ours, theirs) if seeds else None


def sentence_tests(store: Store | None) -> dict[SentenceKey, SentenceTest]:
    """Return the tests over sentences of published runs; none where there is no file.

    Raises:
        InputError: the file is damaged.
    """
    found = {}
    for key, (p, low, high) in _rows(store).items():
        try:
            found[key] = SentenceTest(tuple(map(float, p.split())), (float(low), float(high)) if low else None)
        except ValueError as problem:
            assert store is not None
            raise InputError(f"{store.folder / TESTS}: {problem}. Remove the file and run `study reproduce`.") from None
    return found


def with_tests(verdicts: Iterable[Verdict], tests: Mapping[SentenceKey, SentenceTest]) -> list[Verdict]:
    """Add to each contrast its test over sentences."""

    def tested(verdict: Verdict, found: Finding) -> Finding:
        key = key_of(verdict, found)
        return replace(found, sentences=tests.get(key) if key else None)

    return [replace(one, findings=tuple(tested(one, found) for found in one.findings)) for one in verdicts]


def _rows(store: Store | None) -> dict[SentenceKey, Sequence[str]]:
    path = store.folder / TESTS if store and store.published else None
    if path is None or not path.is_file():
        return {}
    lines = list(csv.reader(files.read(path, LARGEST).decode("utf-8", "replace").splitlines()))[1:]
    if any(len(line) != len(COLUMNS) for line in lines):
        raise InputError(f"{path}: expected six columns, got others. Remove the file and run `study reproduce`.")
    return {(metric, arm, baseline): row for metric, arm, baseline, *row in lines}


def write(store: Store, verdicts: Iterable[Verdict]) -> list[Path]:
    """Write a row for every difference of two arms behind the verdicts; nothing if there is none.

    Rows that are there are kept. Without references at hand, and without NLL of each sentence, a contrast has no row.
    """
    keys = (key_of(verdict, found) for verdict in verdicts for found in verdict.findings)
    wanted = dict.fromkeys(key for key in keys if key is not None)
    kept, tester = _rows(store), _Tester(store)
    rows = {key: kept.get(key) or tester.row(key) for key in wanted}
    made = {key: row for key, row in rows.items() if row is not None}
    if not made:
        return []
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *([*key, *row] for key, row in made.items())])
    files.write(store.folder / TESTS, text.getvalue())
    return [store.folder / TESTS]


class _Tester:
    """Tests by metric and runs. Translations and corpora are read once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.corpora: dict[str, Corpus | None] = {}

    def row(self, key: SentenceKey) -> list[str] | None:
        """Return p, low and high of a difference; None if it cannot be tested here."""
        metric, *sides = key
        pairs = list(zip(*(side.split() for side in sides), strict=True))
        split, score, *subset = metric.split("/", 2)
        trees = [self.store.rest(run) for pair in pairs for run in pair]
        if score not in TESTED or len({((tree["data"] or {}).get("files") or {}).get(split) for tree in trees}) > 1:
            return None
        targets = self._targets(trees[0], split, *subset)
        values = [
            [targets and self._of(run, split, score, targets) for run in some] for some in zip(*pairs, strict=True)
        ]
        if not all(one for some in values for one in some):
            return None
        if score == "bleu":
            p, ends = [_bleu(ours, theirs, [*targets.values()]) for ours, theirs in zip(*values, strict=True)], None
        else:
            differences = np.array(values[0]) - np.array(values[1])
            from study import scoring

            words = sum(len(scoring.forms(text)) for text in targets.values())
            factor = {"exact": 100.0, "accuracy": 100.0 * len(targets) / max(1, words)}.get(score, 1.0)
            p, ends = [randomised(row) for row in differences], crossed_interval(differences * factor)
        low, high = [f"{rounded(end)}" for end in ends] if ends else ("", "")
        return [" ".join(f"{one:.4f}" for one in p), low, high]

    def _targets(self, tree: Mapping[str, Any], split: str, subset: str = "") -> dict[int, str]:
        """Return the references of a split or of its subset, by their place in the split; none without the text."""
        section = experiment_from(tree["config"]).data
        name = section.model_dump_json()
        if name not in self.corpora:
            self.corpora[name] = section.read() if section.at_hand() else None
        corpus = self.corpora[name]
        if corpus is None or (subset and subset not in section.subsets(split)):
            return {}
        pairs = corpus.splits[split]
        members = section.in_subsets(split, pairs)[subset] if subset else [True] * len(pairs)
        return {i: pair.target for i, (pair, belongs) in enumerate(zip(pairs, members, strict=True)) if belongs}

    def _of(self, run: str, split: str, score: str, targets: Mapping[int, str]) -> list[Any] | None:
        """Return what a run has for each sentence: a translation, or a number; None if that was not kept."""
        content = self.store.content(run, f"{split}.nll.txt" if score == "nll" else f"{split}.hyp.txt")
        if content is None:
            return None
        lines = content.decode("utf-8").removesuffix("\n").split("\n")
        both = [(lines[i], text) for i, text in targets.items()]
        match score:
            case "nll":
                return [float(line) for line, _ in both]
            case "exact":
                return [float(line.strip() == text.strip()) for line, text in both]
            case "accuracy":  # words of the reference that the translation has at the same place
                from study import scoring

                return [float(sum(map(eq, scoring.forms(line), scoring.forms(text)))) for line, text in both]
        return [line for line, _ in both]


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
