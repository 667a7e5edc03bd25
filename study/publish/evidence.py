"""Is a record what it says it is? Its identity, its translations, and every score that text alone decides.

`publish` asks before a record is let in, `verify` afterwards. Nothing is raised: whatever is wrong is listed, each with
file and field.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from study import records
from study.config import Data, Experiment, config_hash, experiment_id
from study.corpora import Corpus
from study.errors import InputError
from study.publish import store as published
from study.publish.rescoring import Rescorer, Statistics, references, tokens
from study.records import Record, Score

CHUNK = 16
"""Runs that a process takes at a time. Fewer than this are checked in this process."""


@dataclass
class Evidence:
    """What was found about one run."""

    path: Path
    record: Record | None = None
    problems: list[str] = field(default_factory=list)
    rescored: int = 0
    """Files of translations that were scored against their references."""
    from_statistics: int = 0
    """Files whose references are not at hand, scored from the stored statistics."""
    unchecked: Counter[str] = field(default_factory=Counter)
    """Scores that nothing stored decides, by metric."""
    unhashed: bool = False
    """The configuration is of another program, so its hash cannot be taken again."""
    statistics: dict[str, str] = field(default_factory=dict)
    """Name ↦ text of the files of statistics, where the references are at hand."""

    def say(self, where: str, what: str) -> None:
        """One more problem."""
        self.problems.append(f"{self.path}: {where}: {what}")


def examine_all(paths: Sequence[Path], processes: int | None = None) -> list[Evidence]:
    """Evidence for each record, in the order given; on all cores where there are many."""
    _PREPARED.clear()
    ordered = sorted(range(len(paths)), key=lambda i: (_corpus_of(paths[i]), i))
    chunks = [ordered[i : i + CHUNK] for i in range(0, len(ordered), CHUNK)]
    processes = min(processes or len(os.sched_getaffinity(0)), len(chunks))
    work = [[paths[i] for i in chunk] for chunk in chunks]
    if processes > 1:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            done = list(pool.map(_examine_some, work))
    else:
        done = list(map(_examine_some, work))
    found = {i: one for chunk, some in zip(chunks, done, strict=True) for i, one in zip(chunk, some, strict=True)}
    return [found[i] for i in range(len(paths))]


def _corpus_of(path: Path) -> str:
    """Runs on one corpus are checked after another, so that its references are prepared once a process."""
    try:
        return _key(records.read(path))
    except InputError:
        return ""


def _examine_some(paths: list[Path]) -> list[Evidence]:
    return [examine(path) for path in paths]


def examine(path: Path) -> Evidence:
    """Evidence for one record, working or published."""
    evidence = Evidence(path)
    try:
        record = evidence.record = records.read(path)
    except InputError as problem:
        evidence.problems.append(str(problem))
        return evidence
    _identity(record, evidence)
    files = published.hypothesis_files(record)
    if record.status == "finished" and not files:
        evidence.say("scores", "no translations are named, so nothing can be scored again; run it again")
    corpus = _corpus(_key(record)) if files else None
    if corpus is not None:
        _check_data(record, corpus, evidence)
    for name, places in files.items():
        _file(record, name, [record.scores[place] for place in places], corpus, evidence)
    evidence.unchecked.update(score.metric for score in record.scores if score.hypotheses is None)
    return evidence


def _identity(record: Record, evidence: Evidence) -> None:
    """The file is named by the id, and the id and the hash are those of the configuration."""
    path = evidence.path
    name = path.parent.name if path.name == "record.json" else path.stem
    if record.id != name:
        evidence.say("id", f"{record.id}, and the file is of {name}; restore it")
    try:
        experiment = Experiment.model_validate(record.config | {"seed": record.seed})
    except ValidationError:
        evidence.unhashed = True
        wanted, ours = f"{record.config_hash[:8]}-s{record.seed}", "-".join(record.id.split("-")[-2:])
        if ours != wanted:
            evidence.say("id", f"{record.id}, and config_hash and seed make {wanted}; restore the record")
        return
    for where, found, expected in (
        ("seed", record.seed, record.config.get("seed", record.seed)),
        ("config_hash", record.config_hash, config_hash(experiment)),
        ("id", record.id, experiment_id(experiment)),
        ("protocol", record.protocol, experiment.protocol),
    ):
        if found != expected:
            evidence.say(
                where, f"{found}, and the configuration has {expected}; it was changed by hand: restore the record"
            )


def _check_data(record: Record, corpus: Corpus, evidence: Evidence) -> None:
    """The corpus that the run read is the one at hand."""
    files = record.data.files if record.data else {}
    for name, digest in corpus.files.items():
        if files.get(name) != digest:
            evidence.say(
                f"data.files.{name}",
                f"{files.get(name)}, and the corpus at hand has {digest}; use the program that made the run",
            )


def _file(record: Record, name: str, scores: list[Score], corpus: Corpus | None, evidence: Evidence) -> None:
    """One file of translations: its checksum, and the scores that were computed from it."""
    split = scores[0].split
    where = f"scores.{split}"
    if name != f"{split}{published.HYPOTHESES}" or any(score.split != split for score in scores):
        evidence.say(f"{where}.hypotheses", f"{name}, expected {split}{published.HYPOTHESES}; restore the record")
        return
    path = published.beside(evidence.path, name)
    try:
        content = path.read_bytes()
    except OSError as problem:
        evidence.say(f"{where}.hypotheses", f"{path}: {problem.strerror}; restore the file, or run it again")
        return
    digests = {score.hypotheses_sha256 for score in scores}
    if digests != {hashlib.sha256(content).hexdigest()}:
        evidence.say(f"{where}.hypotheses_sha256", f"not that of {path}; restore the file, or run it again")
        return
    try:
        lines = content.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as problem:
        evidence.say(f"{where}.hypotheses", f"{path}: not UTF-8 ({problem.reason}); run it again")
        return
    if corpus is not None:
        _against_references(record, lines, split, scores, evidence)
    else:
        _against_statistics(path.with_name(published.statistics_name(path.name)), lines, split, scores, evidence)


def _against_references(record: Record, lines: list[str], split: str, scores: list[Score], evidence: Evidence) -> None:
    try:
        again, statistics = _rescorer(_key(record), split).score(lines, split)
    except (KeyError, ValueError) as problem:
        evidence.say(f"scores.{split}", f"the translations do not fit the split ({problem}); run it again")
        return
    evidence.rescored += 1
    _compare(scores, again, evidence)
    name = published.statistics_name(scores[0].hypotheses or "")
    evidence.statistics[name] = statistics.dumps()
    if evidence.path.name == "record.json":
        return
    stored = published.beside(evidence.path, name)
    if not stored.is_file():
        evidence.say(f"scores.{split}", f"{stored}: absent; publish the sweep again")
    elif stored.read_bytes() != evidence.statistics[name].encode():
        evidence.say(f"scores.{split}", f"{stored}: not the statistics of the translations; restore it")


def _against_statistics(stored: Path, lines: list[str], split: str, scores: list[Score], evidence: Evidence) -> None:
    """Without references: the statistics must be of these translations, and give the scores that they can give."""
    try:
        statistics = Statistics.loads(stored.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        why = " ".join(str(problem).split())
        evidence.say(f"scores.{split}", f"no references at hand (STUDY_MULTI30K names them), and {stored}: {why}")
        return
    if statistics.rows[:, 2].tolist() != [tokens(line) for line in lines]:
        evidence.say(f"scores.{split}", f"{stored}: sys_len: not the lengths of the translations; restore it")
        return
    evidence.from_statistics += 1
    again = statistics.scores(split)
    known = {score.metric for score in again}
    evidence.unchecked.update(score.metric for score in scores if score.metric not in known)
    _compare([score for score in scores if score.metric in known], again, evidence)


def _compare(recorded: list[Score], again: list[Score], evidence: Evidence) -> None:
    """Value, signature and number of sentences, of the same scores."""
    ours = {(s.metric, s.subset): s for s in recorded}
    theirs = {(s.metric, s.subset): s for s in again}
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        where = ".".join(("scores", again[0].split, *(part for part in key if part)))
        if key not in ours or key not in theirs:
            said = "is not in the record" if key in theirs else "does not follow from the translations"
            evidence.say(where, f"{said}; restore the record, or run it again")
            continue
        for name in ("value", "signature", "n"):
            found, expected = getattr(ours[key], name), getattr(theirs[key], name)
            if found != expected:
                evidence.say(f"{where}.{name}", f"{found}, and the translations give {expected}")


def _key(record: Record) -> str:
    return json.dumps(record.config.get("data"), sort_keys=True)


@cache
def _data(key: str) -> Data | None:
    """The `data` section; None for one that today's fields no longer take."""
    try:
        section: Data = TypeAdapter(Data).validate_python(json.loads(key))
        return section
    except ValidationError:
        return None


_PREPARED: dict[str, tuple[Corpus | None, dict[str, Rescorer]]] = {}
"""The last corpus and its prepared splits: they take some hundred megabytes."""


def _corpus(key: str) -> Corpus | None:
    if key not in _PREPARED:
        _PREPARED.clear()
        data = _data(key)
        _PREPARED[key] = (references(data) if data is not None else None, {})
    return _PREPARED[key][0]


def _rescorer(key: str, split: str) -> Rescorer:
    corpus = _corpus(key)
    assert corpus is not None
    prepared = _PREPARED[key][1]
    if split not in prepared:
        prepared[split] = Rescorer(corpus.splits[split])
    return prepared[split]
