"""Scores of subsets that records of older runs lack, from their published translations: `results/supplement.csv`.

A corpus may name a subset of its sentences after runs were published. Their records stay as they are. The scores that
follow from translations stand in this file, and `study.analysis.runs` reads them as if the records had them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from study import files
from study.publish.evidence import Evidence, Task, examine_all, hypothesis_files, section_of
from study.publish.results import AGAIN, Results
from study.records import Record
from study.store import SUPPLEMENT, SUPPLEMENTED, Store

HEADING = ("id", "split", "subset", "n", *SUPPLEMENTED)


def write(results: Results) -> list[Path]:
    """Write the file, with rows for every published run that lacks scores. Rows that are there are kept.

    Nothing is written if no run lacks any.
    """
    store, path = Store(results.runs), results.root / SUPPLEMENT
    lacking = [identity for identity in store.ids() if _lacks(store.record(identity))]
    kept = {identity: text for identity, text in _lines(path).items() if identity in lacking}
    task = Task(results.runs, published=True, rescore=True)
    for one in examine_all(task, [identity for identity in lacking if identity not in kept]):
        kept[one.id] = _rows(one)
    if not any(kept.values()):
        return []
    files.write(path, _csv([HEADING]) + "".join(kept[identity] for identity in sorted(kept)))
    return [path]


def problems(results: Results, evidence: Sequence[Evidence]) -> Iterator[str]:
    """Yield the runs whose rows are not those of their translations. `evidence` is that of runs scored again."""
    path = results.root / SUPPLEMENT
    found, expected = _lines(path), {one.id: rows for one in evidence if (rows := _rows(one))}
    for identity in sorted(found.keys() | expected.keys()):
        if found.get(identity) != expected.get(identity):
            yield f"{path}: {identity}: expected the scores of its translations, got others. {AGAIN}"


def _lacks(record: Record) -> bool:
    """Return True if a record has translations of a split, and not the scores of a subset that its corpus names."""
    section, splits = section_of(record), {record.scores[some[0]].split for some in hypothesis_files(record).values()}
    known = {(score.split, score.subset) for score in record.scores}
    return any((split, name) not in known for split in splits for name in (section.subsets(split) if section else ()))


def _rows(one: Evidence) -> str:
    places = dict.fromkeys((score.split, score.subset, score.n) for score in one.supplement)
    values = {(score.split, score.subset, score.metric): score.value for score in one.supplement}
    return _csv(
        [one.id, split, subset, n, *(values[split, subset, metric] for metric in SUPPLEMENTED)]
        for split, subset, n in places
    )


def _csv(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _lines(path: Path) -> dict[str, str]:
    """Return the text of each run's rows in a file; empty without one."""
    found: dict[str, str] = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True)[1:]:
            identity = line.partition(",")[0]
            found[identity] = found.get(identity, "") + line
    return found
