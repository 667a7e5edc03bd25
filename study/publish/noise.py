"""Tests of published contrasts over the sentences of the test set: `results/noise.csv`.

A row is a difference of two arms. BLEU is tested by sacreBLEU; exact match, word accuracy and NLL are means over
sentences, tested by changing signs. A row stays as long as its contrast does. `study verify --rescore` computes it
again.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from study import files, scoring
from study.analysis.inference import TRIALS, crossed_interval, randomised
from study.analysis.runs import TEST_COLUMNS, TESTS, SentenceKey, sentence_tests
from study.claims.verdicts import Verdict
from study.corpora import Corpus, Pair
from study.errors import InputError
from study.publish.counts import references
from study.publish.evidence import section_of
from study.publish.results import AGAIN, Results
from study.records import rounded
from study.store import Store

TESTED = ("bleu", "exact", "accuracy", "nll")


def write(results: Results, verdicts: Sequence[Verdict]) -> list[Path]:
    """Write a row for every difference of two arms behind the verdicts; nothing if there is none.

    Rows that are there are kept. Without references at hand, and without NLL of each sentence, a contrast has no row.
    """
    path = results.root / TESTS
    wanted = dict.fromkeys(found.key for verdict in verdicts for found in verdict.findings if found.key is not None)
    kept = {key: row for key, row in _rows(path) if key in wanted}
    tester = _Tester(results)
    for key in wanted:
        if key not in kept and (row := tester.row(key)) is not None:
            kept[key] = row
    if not kept:
        return []
    files.write(path, _csv([TEST_COLUMNS, *([*key, *kept[key]] for key in wanted if key in kept)]))
    return [path]


def problems(results: Results, unchecked: Counter[str]) -> Iterator[str]:
    """Yield the rows that do not follow from the published translations and NLL; count those that cannot be checked."""
    path, tester = results.root / TESTS, _Tester(results)
    try:
        sentence_tests(results.root)
        rows = list(_rows(path))
    except (InputError, ValueError) as problem:
        yield str(problem)
        return
    for key, row in rows:
        try:
            again = tester.row(key)
        except (InputError, KeyError, ValueError, IndexError) as problem:
            yield f"{path}: {' '.join(key)}: {problem} {AGAIN}"
            continue
        if again is None:
            unchecked["noise"] += 1
        elif again != row:
            yield f"{path}: {' '.join(key)}: expected {again}, got {row}. {AGAIN}"


class _Tester:
    """Tests by metric and runs. Translations and corpora are read once."""

    def __init__(self, results: Results) -> None:
        self.store = Store(results.runs)
        self.corpora: dict[str, Corpus | None] = {}
        self.values: dict[tuple[str, str], Any] = {}
        """(Run, split) ↦ its translations; (run, metric) ↦ a value for each sentence of the metric's part."""
        self.metric = BLEU(force=True)

    def row(self, key: SentenceKey) -> list[str] | None:
        """Return p, low and high of a difference; None if it cannot be tested here."""
        metric, arm, baseline = key
        pairs = list(zip(arm.split(), baseline.split(), strict=True))
        part = self._part(pairs[0][0], metric)
        if part is None or len({self._text(run, metric.split("/")[0]) for pair in pairs for run in pair}) > 1:
            return None
        values = [[self._of(run, metric, *part) for run in some] for some in zip(*pairs, strict=True)]
        if any(one is None for some in values for one in some):
            return None
        if metric.split("/")[1] == "bleu":
            references = [[pair.target for pair in part[0]]]
            p, ends = [self._bleu(ours, theirs, references) for ours, theirs in zip(*values, strict=True)], None
        else:
            differences = np.array(values[0]) - np.array(values[1])
            p, ends = [randomised(row) for row in differences], crossed_interval(differences * part[2])
        low, high = [f"{rounded(end)}" for end in ends] if ends else ("", "")
        return [" ".join(f"{one:.4f}" for one in p), low, high]

    def _text(self, run: str, split: str) -> str | None:
        """Return the SHA-256 of the sentences that a run was tested on, as far as its record has one for each split."""
        data = self.store.record(run).data
        return data.files.get(split) if data else None

    def _part(self, run: str, metric: str) -> tuple[list[Pair], list[int], float] | None:
        """Return the sentences of a metric, their places in the split, and the factor from a mean to the metric."""
        split, score, *subset = metric.split("/", 2)
        section = section_of(self.store.record(run))
        if section is None or score not in TESTED or (subset and subset[0] not in section.subsets(split)):
            return None
        name = section.model_dump_json()
        if name not in self.corpora:
            self.corpora[name] = references(section)
        corpus = self.corpora[name]
        if corpus is None:
            return None
        pairs = corpus.splits[split]
        members = section.in_subsets(split, pairs)[subset[0]] if subset else [True] * len(pairs)
        rows = [i for i, belongs in enumerate(members) if belongs]
        some = [pairs[i] for i in rows]
        words = sum(len(scoring.forms(pair.target)) for pair in some)
        factor = {"exact": 100.0, "accuracy": 100.0 * len(some) / max(1, words)}.get(score, 1.0)
        return some, rows, factor

    def _of(self, run: str, metric: str, pairs: list[Pair], rows: list[int], factor: float) -> Any:
        """Return what a run has for each sentence: a translation, or a number; None if that was not kept."""
        split, score = metric.split("/")[:2]
        if (run, metric) not in self.values:
            content = self.store.content(run, f"{split}.nll.txt" if score == "nll" else f"{split}.hyp.txt")
            lines = content.decode("utf-8").removesuffix("\n").split("\n") if content is not None else None
            found: Any = None if lines is None else [lines[i] for i in rows]
            if found is not None and score != "bleu":
                texts = [pair.target for pair in pairs]
                number = {"nll": lambda line, _: float(line), "exact": _equal, "accuracy": _right}[score]
                found = [number(line, text) for line, text in zip(found, texts, strict=True)]
            self.values[run, metric] = found
        return self.values[run, metric]

    def _bleu(self, ours: list[str], theirs: list[str], references: list[list[str]]) -> float:
        test = PairedTest([("baseline", theirs), ("arm", ours)], {"BLEU": self.metric}, references, "ar", TRIALS)
        _, scores = test()
        differing = sum(a != b for a, b in zip(ours, theirs, strict=True))
        # sacreBLEU counts trials that pass the data; the draw that is the data and its mirror are two of 2^differing.
        result: Any = scores["BLEU"][1]
        return max(float(result.p_value), 2.0 ** (1 - differing) if differing else 1.0)


def _equal(line: str, text: str) -> float:
    return float(line.strip() == text.strip())


def _right(line: str, text: str) -> float:
    """Return how many words of a reference the translation has at the same place."""
    return float(sum(a == b for a, b in zip(scoring.forms(line), scoring.forms(text), strict=False)))


def _rows(path: Path) -> Iterator[tuple[SentenceKey, list[str]]]:
    if path.is_file():
        for metric, arm, baseline, *row in list(csv.reader(path.read_text(encoding="utf-8").splitlines()))[1:]:
            yield (metric, arm, baseline), row


def _csv(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
