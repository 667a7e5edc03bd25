"""Check that a record agrees with its identity, its translations, and every score that follows from text alone.

`publish` asks before a record is let in, `verify` afterwards. Nothing is raised: whatever is wrong is listed, each with
file and field.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
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
from study.publish.counts import Rescorer, Statistics, references, tokens
from study.records import Record, Score
from study.scoring import score_nll
from study.store import ATTENTION, HYPOTHESES, STATISTICS, Store, sha256
from study.sweep.slots import cpu_cores

CHUNK = 16
"""Runs that a process takes at a time. Fewer than this are checked in this process."""
LARGEST_ERROR = 1e-4
"""Relative error of a mean over numbers with 6 significant digits that were rounded."""


@dataclass
class Evidence:
    """Result of the examination of one run."""

    id: str
    where: str
    """Place of the record, for messages."""
    status: str | None = None
    """Status of the run; None: the record cannot be read."""
    problems: list[str] = field(default_factory=list)
    rescored: int = 0
    """Files of translations that were scored against their references."""
    from_statistics: int = 0
    """Files whose references are not at hand, scored from the stored statistics."""
    hashed: int = 0
    """Files of translations whose SHA-256 is the record's."""
    unchecked: Counter[str] = field(default_factory=Counter)
    """Scores that nothing stored decides, by metric."""
    unhashed: bool = False
    """The configuration is of another program, so its hash cannot be taken again."""
    digests: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the record and of its attention map, by their names in a sweep's manifest."""
    statistics: dict[str, bytes] = field(default_factory=dict)
    """Files of statistics to publish, by name: of a corpus whose references are not shipped."""
    supplement: list[Score] = field(default_factory=list)
    """Scores of subsets that follow from the translations, and that an older record lacks."""

    def say(self, where: str, what: str) -> None:
        """Add a problem."""
        self.problems.append(f"{self.where}: {where}: {what}")


@dataclass(frozen=True)
class Task:
    """Folder to examine and options: whether its runs are published, whether translations are scored again."""

    folder: Path
    published: bool
    rescore: bool


def examine_all(
    task: Task,
    ids: Sequence[str],
    processes: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Evidence]:
    """Examine runs, on all cores if there are many; return the evidence in the order given.

    Args:
        task: how to examine them.
        ids: runs that have a record.
        processes: how many to use (default: one a core).
        progress: called with the number of runs that are done.
    """
    _PREPARED.clear()
    store = Store(task.folder)
    order = sorted(ids, key=lambda identity: (_corpus_of(store, identity), identity)) if task.rescore else sorted(ids)
    chunks = [order[i : i + CHUNK] for i in range(0, len(order), CHUNK)]
    processes = min(processes or cpu_cores(), len(chunks))
    found: dict[str, Evidence] = {}
    tasks = [task] * len(chunks)
    if processes > 1:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            for some in pool.map(_examine_some, tasks, chunks):
                found |= {one.id: one for one in some}
                progress(len(found))
    else:
        for some in map(_examine_some, tasks, chunks):
            found |= {one.id: one for one in some}
            progress(len(found))
    return [found[identity] for identity in ids]


def _corpus_of(store: Store, identity: str) -> str:
    """Runs on one corpus are checked after another, so that its references are prepared once a process."""
    try:
        return _key(store.record(identity))
    except InputError:
        return ""


def _examine_some(task: Task, ids: Sequence[str]) -> list[Evidence]:
    store = Store(task.folder)
    return [examine(store, identity, task) for identity in ids]


def examine(store: Store, identity: str, task: Task) -> Evidence:
    """Examine one run, working or published."""
    evidence = Evidence(identity, store.where(identity))
    try:
        record = store.record(identity)
    except InputError as problem:
        evidence.problems.append(str(problem))
        return evidence
    evidence.status = record.status
    _identity(record, evidence)
    _facts(record, evidence)
    try:
        evidence.digests = store.digests(identity)
        _files(store, record, evidence, task)
        if not task.published:
            _canonical(store.text(identity), evidence)
    except InputError as problem:  # the archive of an arm cannot be read
        evidence.problems.append(str(problem))
    return evidence


def _identity(record: Record, evidence: Evidence) -> None:
    """Check that file name, id and hash agree with the configuration."""
    if record.id != evidence.id:
        evidence.say("id", f"expected {evidence.id}, as the file is named, got {record.id}. Restore it.")
    try:
        experiment = Experiment.model_validate(record.config | {"seed": record.seed})
    except ValidationError:
        evidence.unhashed = True
        wanted, ours = f"{record.config_hash[:8]}-s{record.seed}", "-".join(record.id.split("-")[-2:])
        if ours != wanted:
            evidence.say("id", f"expected {wanted}, from config_hash and seed, got {record.id}. Restore the record.")
        return
    for where, found, expected in (
        ("seed", record.seed, record.config.get("seed", record.seed)),
        ("config_hash", record.config_hash, config_hash(experiment)),
        ("id", record.id, experiment_id(experiment)),
        ("protocol", record.protocol, experiment.protocol),
    ):
        if found != expected:
            evidence.say(
                where,
                f"expected {expected}, as in the configuration, got {found}. Changed by hand: restore the record.",
            )


def _facts(record: Record, evidence: Evidence) -> None:
    """Check that fields agree that a run writes from one source."""
    training = record.config.get("training", {})
    pairs: list[tuple[str, object, str, object]] = []
    if record.selection:
        pairs.append(("selection.rule", record.selection.rule, "config.training.select", training.get("select")))
    if record.provenance and record.status != "failed":
        made = record.provenance.precision
        pairs.append(("provenance.precision", made, "config.training.precision", training.get("precision")))
    for where, found, other, expected in pairs:
        if expected is not None and found != expected:
            evidence.say(where, f"expected {expected}, as {other}, got {found}. Restore the record.")
    steps = [step for point in record.history if type(step := point.get("step")) is int and step >= 0]
    if len(steps) < len(record.history) or steps != sorted(set(steps)):
        evidence.say(
            "history", "expected a rising number of updates in every step, got another order. Restore the record."
        )
    elif record.selection and steps and record.selection.step not in steps:
        evidence.say("selection.step", f"expected a step of history, got {record.selection.step}. Restore the record.")


def _files(store: Store, record: Record, evidence: Evidence, task: Task) -> None:
    """Check the files that the record names, and that published runs have no others."""
    files = hypothesis_files(record)
    if record.status == "finished" and not files:
        evidence.say("scores", "expected translations, to score them again, got none. Run it again.")
    corpus = _corpus(_key(record)) if files and task.rescore else None
    if corpus is not None:
        _check_data(record, corpus, evidence)
    for name, places in files.items():
        _file(store, record, name, [record.scores[place] for place in places], corpus, evidence, task)
    for name, digest in record.per_sentence.items():
        _per_sentence(store, record, name, digest, corpus, evidence)
    evidence.unchecked.update(score.metric for score in record.scores if score.hypotheses is None)
    if not task.rescore:
        evidence.unchecked.clear()
    if task.published:
        there = set(store.names(evidence.id))
        wanted = set() if _shipped(record) else {name.removesuffix(HYPOTHESES) + STATISTICS for name in files}
        for name in sorted(wanted - there):
            evidence.say(
                name, "expected a file, because the references are not shipped, got none. Restore the archive."
            )
        for name in sorted(there - wanted - {*files, *record.per_sentence, ATTENTION}):
            evidence.say(name, "expected a file that the record names, got a stray one. Restore the archive.")


def _canonical(text: str, evidence: Evidence) -> None:
    """Check that the text of a record is the one that a run writes, because publishing generates it from the data."""
    if text != records.canonical(json.loads(text)):
        evidence.problems.append(
            f"{evidence.where}: expected the text that a run writes, got another (order, blanks or a field twice). "
            "It was changed by hand: restore the record."
        )


def _check_data(record: Record, corpus: Corpus, evidence: Evidence) -> None:
    """Check that the run read this corpus."""
    files = record.data.files if record.data else {}
    for name, digest in corpus.files.items():
        if files.get(name) != digest:
            evidence.say(
                f"data.files.{name}",
                f"expected {digest}, the SHA-256 of the corpus here, got {files.get(name)}. "
                "Use the program that made the run.",
            )


def _file(
    store: Store,
    record: Record,
    name: str,
    scores: list[Score],
    corpus: Corpus | None,
    evidence: Evidence,
    task: Task,
) -> None:
    """Check a file of translations: its checksum and its scores."""
    split = scores[0].split
    where = f"scores.{split}"
    if name != f"{split}{HYPOTHESES}" or any(score.split != split for score in scores):
        evidence.say(f"{where}.hypotheses", f"expected {split}{HYPOTHESES}, got {name}. Restore the record.")
        return
    content = store.content(evidence.id, name)
    if content is None:
        evidence.say(f"{where}.hypotheses", f"{name}: no such file. Restore it, or run it again.")
        return
    if {score.hypotheses_sha256 for score in scores} != {sha256(content)}:
        evidence.say(
            f"{where}.hypotheses_sha256", f"expected that of {name}, got another. Restore the file, or run it again."
        )
        return
    evidence.hashed += 1
    if not task.rescore:
        return
    try:
        lines = store.hypotheses(evidence.id, split)
    except InputError as problem:
        evidence.problems.append(f"{problem} Run it again.")
        return
    if corpus is not None:
        _against_references(store, record, lines, split, scores, evidence, task)
    else:
        _against_statistics(store, lines, split, scores, evidence)


def _against_references(
    store: Store, record: Record, lines: list[str], split: str, scores: list[Score], evidence: Evidence, task: Task
) -> None:
    try:
        again, statistics = _rescorer(_key(record), split).score(lines, split)
    except (KeyError, ValueError) as problem:
        evidence.say(f"scores.{split}", f"expected translations of the split, got others ({problem}). Run it again.")
        return
    evidence.rescored += 1
    known = {score.subset for score in scores}
    section = section_of(record)
    named = section.subsets(split) if section else {}
    evidence.supplement += [score for score in again if score.subset in named and score.subset not in known]
    _compare(scores, [score for score in again if score not in evidence.supplement], evidence)
    if _shipped(record):
        return
    name, content = f"{split}{STATISTICS}", statistics.dumps().encode()
    evidence.statistics[name] = content
    if task.published and store.content(evidence.id, name) not in (None, content):
        evidence.say(f"scores.{split}", f"{name}: expected the statistics of the translations, got others. Restore it.")


def _against_statistics(store: Store, lines: list[str], split: str, scores: list[Score], evidence: Evidence) -> None:
    """Check stored statistics against the translations and scores of a corpus whose references are missing."""
    name = f"{split}{STATISTICS}"
    content = store.content(evidence.id, name)
    try:
        if content is None:
            raise ValueError("no such file")
        statistics = Statistics.loads(content.decode("utf-8"))
    except ValueError as problem:
        why = " ".join(str(problem).split())
        evidence.say(f"scores.{split}", f"no references at hand (STUDY_MULTI30K names them), and {name}: {why}")
        return
    if statistics.rows[:, 2].tolist() != [tokens(line) for line in lines]:
        evidence.say(
            f"scores.{split}", f"{name}: sys_len: expected the lengths of the translations, got others. Restore it."
        )
        return
    evidence.from_statistics += 1
    again = statistics.scores(split)
    known = {score.metric for score in again}
    evidence.unchecked.update(score.metric for score in scores if score.metric not in known)
    _compare([score for score in scores if score.metric in known], again, evidence)


def _per_sentence(
    store: Store, record: Record, name: str, digest: str, corpus: Corpus | None, evidence: Evidence
) -> None:
    """Check a file of numbers per sentence: its checksum, that the score is their mean, and scores of its parts."""
    where = f"per_sentence.{name}"
    split, _, metric = name.removesuffix(".txt").rpartition(".")
    score = next((s for s in record.scores if (s.split, s.metric, s.subset) == (split, metric, None)), None)
    if score is None or name != f"{split}.{metric}.txt":
        evidence.say(where, f"expected SPLIT.METRIC.txt of a score of the record, got {name}. Restore the record.")
        return
    content = store.content(evidence.id, name)
    if content is None or sha256(content) != digest:
        evidence.say(
            where, "expected the file of that SHA-256, got none or another. Restore the file, or run it again."
        )
        return
    try:
        values = [float(line) for line in content.decode("utf-8").split("\n")[:-1]]
    except ValueError:
        values = []
    mean = sum(values) / len(values) if values else None
    if mean is None or len(values) != score.n or score.value is None or not _near(mean, score.value):
        evidence.say(
            where,
            f"expected {score.n} numbers of mean {score.value}, got {len(values)} of mean {mean}. Restore the file.",
        )
    elif corpus is not None and (section := section_of(record)) and split in corpus.splits:
        pairs = corpus.splits[split]
        for part in score_nll(values, pairs, split, section.in_subsets(split, pairs)):
            found = record.score(split, part.metric, part.subset)
            if found is not None and (part.value is None or not _near(part.value, found, 0.01 * mean)):
                inside = ".".join(filter(None, (split, part.metric, part.subset)))
                evidence.say(
                    f"scores.{inside}.value", f"expected {part.value}, from {name}, got {found}. Restore the record."
                )


def _near(found: float, value: float, scale: float = 0.0) -> bool:
    return abs(found - value) <= LARGEST_ERROR * max(abs(value), scale)


def _compare(recorded: list[Score], again: list[Score], evidence: Evidence) -> None:
    """Compare value, signature and number of sentences of the same scores."""
    ours = {(s.metric, s.subset): s for s in recorded}
    theirs = {(s.metric, s.subset): s for s in again}
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        where = ".".join(("scores", again[0].split, *(part for part in key if part)))
        if key not in ours or key not in theirs:
            said = "a score, got none" if key in theirs else "no score, because the translations give none, got one"
            evidence.say(where, f"expected {said}. Restore the record, or run it again.")
            continue
        for name in ("value", "signature", "n"):
            found, expected = getattr(ours[key], name), getattr(theirs[key], name)
            if found != expected:
                evidence.say(
                    f"{where}.{name}", f"expected {expected}, from the translations, got {found}. Restore the record."
                )


def hypothesis_files(record: Record) -> dict[str, list[int]]:
    """Return the name of each file of translations that the record names ↦ the places of its scores in `scores`."""
    files: dict[str, list[int]] = {}
    for place, score in enumerate(record.scores):
        if score.hypotheses is not None:
            files.setdefault(score.hypotheses, []).append(place)
    return files


def section_of(record: Record) -> Data | None:
    """Return the `data` section of a run; None for one that today's fields no longer take."""
    return _data(_key(record))


def _key(record: Record) -> str:
    return json.dumps(record.config.get("data"), sort_keys=True)


def _shipped(record: Record) -> bool:
    """Return True if the repository can make the references of a run again, or does not know its corpus."""
    data = section_of(record)
    return data is None or data.shipped


@cache
def _data(key: str) -> Data | None:
    """Return the `data` section; None for one that today's fields no longer take."""
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
        data = _data(key)
        assert data is not None
        prepared[split] = Rescorer(pairs := corpus.splits[split], data.in_subsets(split, pairs))
    return prepared[split]
