"""Check that a record agrees with its identity, with its own files, and with itself.

`examine` reads all files of a run and scores its translations again: `publish` asks for it before a run is let in,
`verify --rescore` afterwards. Nothing is raised: it yields a line for whatever is wrong. It takes seconds a run, so the
cores of this process share the runs.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import suppress
from functools import cache, lru_cache
from itertools import repeat
from math import log
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from study import processes
from study.config import Data, Experiment, config_hash, experiment_id, trained
from study.corpora import Corpus
from study.errors import InputError
from study.processes import PER_RUN, processor
from study.scores import scoring
from study.scores.score import RecordedScore
from study.store import records
from study.store.folder import VALIDATIONS, Store, sha256
from study.store.records import Record
from study.store.rows import CURVE_PREFIX, HYPOTHESES, NLL, curve_rows, score_rows

Fact = tuple[str, Any, Any]
"""A field of a record, the value that is expected, and the one that is there."""
RELATIVE, ABSOLUTE = 1e-4, 1e-5
"""Errors of equations, since numbers in records are rounded to 6 significant digits."""
SHARED = 8
"""Fewest runs that are shared: the start of the processes takes as long as a run or two."""


def examine_all(store: Store, ids: Sequence[str]) -> Iterator[tuple[list[str], bool]]:
    """Yield what is wrong with each of these runs, and whether its corpus is at hand, in their order."""
    cores, _, memory = processor()
    count = min(cores, int(memory // PER_RUN), len(ids))
    if count < 2 or len(ids) < SHARED:
        yield from (_examined(store, identity) for identity in ids)
        return
    with ProcessPoolExecutor(count, get_context("spawn"), _begin) as pool:
        try:
            yield from pool.map(_examined_there, repeat(store.folder), ids)
        except BrokenExecutor:
            why = "was killed, as the kernel does when memory is short"
            raise InputError(f"{store.folder}: a process that examines runs {why}. Repeat the command.") from None


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    processes.with_parent()


_store = cache(Store)


def _examined_there(folder: Path, identity: str) -> tuple[list[str], bool]:
    return _examined(_store(folder), identity)


def _examined(store: Store, identity: str) -> tuple[list[str], bool]:
    problems, at_hand = list(examine(store, identity)), False
    with suppress(InputError):
        at_hand = corpus_of(store.record(identity)) is not None
    return problems, at_hand


def examine(store: Store, identity: str) -> Iterator[str]:
    """Yield what is wrong with a run that has a record, working or published."""
    yield from _contradicted(store, identity, _facts)


def identify(store: Store, identity: str) -> Iterator[str]:
    """Yield what is wrong with the identity of a run: seed, hash, id, protocol, and numbers that a record has twice.

    No file beside the record is read, and nothing is scored, so that it takes milliseconds.
    """
    yield from _contradicted(store, identity, _identity)


def trained_alike(first: Record, second: Record) -> bool:
    """Return True if two runs have one seed, and experiments that differ in the choice of the tested update alone."""
    experiments = [_experiment(record) for record in (first, second)]
    return first.seed == second.seed and len({trained(e) if e else id(e) for e in experiments}) == 1


def _contradicted(store: Store, identity: str, facts: Callable[[Store, str], Iterator[Fact]]) -> Iterator[str]:
    """Yield a line for each fact of a record that is not as expected."""
    where = store.where(identity)
    try:
        for field, expected, got in facts(store, identity):
            if expected != got:
                yield f"{where}: {field}: expected {expected}, got {got}. Restore the record, or run it again."
    except InputError as problem:  # it names its file
        yield str(problem)
    except (ArithmeticError, KeyError, TypeError, ValueError) as problem:
        yield f"{where}: expected the files of a run, got others ({problem}). Run it again."


def _experiment(record: Record) -> Experiment | None:
    """Return the experiment of a record; None if today's fields do not take its configuration."""
    try:
        return Experiment.model_validate(record.config | {"seed": record.seed})
    except ValidationError:
        return None


def _identity(store: Store, identity: str) -> Iterator[Fact]:
    """Yield fields of a record, each with the value that follows from the record itself, and its own."""
    record, text = store.record(identity), store.text(identity)
    if (experiment := _experiment(record)) is None:
        yield "config", "one of this program", "another"
        return
    yield "seed", record.config.get("seed", record.seed), record.seed
    yield "config_hash", config_hash(experiment), record.config_hash
    yield "id", (experiment_id(experiment), identity), (record.id, record.id)
    yield "protocol", experiment.protocol, record.protocol
    if record.provenance and record.status != "failed":
        yield "provenance.precision", experiment.training.precision, record.provenance.precision
    if record.selection:
        steps = [point.get("step") for point in record.history]
        yield "selection.rule", experiment.training.select, record.selection.rule
        yield "selection.step is a step of history", True, not steps or record.selection.step in steps
    if store.published:
        yield "sha256", store.facts[identity]["sha256"], sha256(text.encode())
    elif text != records.canonical(json.loads(text)):
        yield "text", "the one that a run writes", "another (order, blanks or a field twice)"
    if record.status == "finished" and (lost := records.incomplete(record, experiment.data.scored)):
        yield "record", "every validation and every split", lost
    yield from _apart(_equations(record, experiment.pruning is not None))


def _facts(store: Store, identity: str) -> Iterator[Fact]:
    """Yield fields of a record, each with the value that follows from configuration, files and corpus, and its own."""
    yield from _identity(store, identity)
    record = store.record(identity)
    if (experiment := _experiment(record)) is None:
        return
    if store.published:
        yield from _tabled(store, identity)
    else:
        store.attention(identity)
        if store.content(identity, VALIDATIONS) is not None:
            store.learning(identity)
    corpus, scores_of = corpus_of(record), hypothesis_files(record)
    if record.status == "finished" and not scores_of:
        yield "scores", "translations, to score them again", "none"
    if scores_of and corpus is None and not store.published:
        yield "scores", "references, to score it again", "none (STUDY_MULTI30K or STUDY_FILES names them)"
    for name, digest in corpus.files.items() if corpus and scores_of else ():
        yield f"data.files.{name}", digest, record.data and record.data.files.get(name)
    for name, scores in scores_of.items():
        split, content = scores[0].split, store.content(identity, name)
        yield f"scores.{split}.hypotheses", {f"{score.split}{HYPOTHESES}" for score in scores}, {name}
        digests = {score.hypotheses_sha256 for score in scores}
        yield f"scores.{split}.hypotheses_sha256", digests, "no file" if content is None else {sha256(content)}
        if corpus and content:
            yield from _rescored(store, identity, split, corpus, experiment.data)
        elif stored := store.counts(identity, split):
            yield from _apart(_summed(record, split, stored))
    for name, digest in record.per_sentence.items():
        content = store.content(identity, name) or b""
        yield f"per_sentence.{name}", digest, sha256(content)
        values = [float(line) for line in content.decode().splitlines()]
        yield from _apart(_means(store, identity, name.removesuffix(NLL), values, corpus, experiment.data))


def _tabled(store: Store, identity: str) -> Iterator[Fact]:
    """Yield the scores and the validations of a record, and what the tables have of them."""
    tree, expected = store.tree(identity), "those of the record"
    stored = [row for row in store.score_rows(identity) if not row["added"]]
    yield "table of scores", expected, expected if stored == score_rows(tree) else "others"
    points = [row for row in store.curve_rows(identity) if not row["name"].startswith(CURVE_PREFIX)]
    yield "table of curves", expected, expected if points == list(curve_rows(tree)) else "others"


def _rescored(store: Store, identity: str, split: str, corpus: Corpus, data: Data) -> Iterator[Fact]:
    """Yield the scores and the counts that the translations of a split give."""
    lines, pairs = store.hypotheses(identity, split), corpus.splits[split]
    expected, stored_scores = {}, {}
    for score in scoring.score_split(lines, pairs, split, data.in_subsets(split, pairs)):
        expected[score.metric, score.subset] = (records.rounded(score.value), score.n, score.signature)
    for row in store.score_rows(identity):
        if row["split"] == split and row["hypotheses"]:
            stored_scores[row["metric"], row["subset"]] = (row["value"], row["n"], row["signature"])
    for key in {**stored_scores, **expected}:
        name = ".".join(("scores", split, *filter(None, key)))
        yield name, expected.get(key, "no score"), stored_scores.get(key, "no score")
    if (stored := store.counts(identity, split)) and stored != scoring.counts(lines, pairs):
        yield f"counts of {split}", "those of the translations", "others"


def _means(
    store: Store, identity: str, split: str, values: list[float], corpus: Corpus | None, data: Data
) -> Iterator[Fact]:
    """Yield the scores that are means and slopes of the NLL of the sentences of a split."""
    theirs = {
        (row["metric"], row["subset"]): row["value"] for row in store.score_rows(identity) if row["split"] == split
    }
    mean = scoring.nll.of(scoring.nll.table(values))
    scores = [RecordedScore(split=split, metric="nll", value=mean, n=len(values))]
    if corpus is not None and split in corpus.splits:
        scores += scoring.score_nll(values, corpus.splits[split], split, data.in_subsets(split, corpus.splits[split]))
    for score in scores:
        name = ".".join(filter(None, ("scores", split, score.metric, score.subset)))
        yield name, score.value, theirs.get((score.metric, score.subset))


def _summed(record: Record, split: str, stored: Sequence[tuple[int, ...]]) -> Iterator[Fact]:
    """Yield the scores that the stored counts of a split give, whose references are not at hand."""
    for metric in scoring.COUNTED:
        value = scoring.MEASURES[metric].of(scoring.counted(metric, stored))
        scores = [one.value for one in record.scores if (one.split, one.metric, one.subset) == (split, metric, None)]
        yield f"scores.{split}.{metric}", value, scores[0] if scores else None


def _equations(record: Record, pruned: bool) -> Iterator[Fact]:
    """Yield numbers that a run writes at two places.

    - Perplexity is the exponential of the NLL per token: n · NLL = tokens · ln perplexity.
    - The validation loss at the selected step is the logarithm of the perplexity on validation (not after a pruning).
    - The value that chose the step is the largest BLEU of the history.
    """
    scores = {(score.split, score.metric): score for score in record.scores if score.subset is None}
    logs = {split: log(score.value) for (split, name), score in scores.items() if name == "perplexity" and score.value}
    for split, value in logs.items():
        nll, tokens = scores.get((split, "nll")), scores[split, "perplexity"].n
        if nll and nll.value is not None:
            yield f"scores.{split}: ln perplexity", nll.value * nll.n / tokens, value
    chosen = record.selection
    if chosen is None or pruned:
        return
    at = next((point for point in record.history if point.get("step") == chosen.step), {})
    yield "history.valid_loss", logs.get("valid"), at.get("valid_loss")
    if chosen.rule == "best_valid_bleu":
        bleus = [point["valid_bleu"] for point in record.history if point.get("valid_bleu") is not None]
        yield "selection.value", at.get("valid_bleu"), chosen.value
        yield "selection.value", max(bleus, default=None), chosen.value


def _apart(found: Iterator[Fact]) -> Iterator[Fact]:
    """Yield those whose two numbers are known and not the same within the rounding of records."""
    for field, expected, got in found:
        if expected is not None and got is not None and not np.isclose(expected, got, RELATIVE, ABSOLUTE):
            yield field, float(f"{expected:.6g}"), got


def hypothesis_files(record: Record) -> dict[str, list[RecordedScore]]:
    """Return the name of each file of translations that the record names ↦ the scores that it gives."""
    scores_of: dict[str, list[RecordedScore]] = {}
    for score in record.scores:
        if score.hypotheses is not None:
            scores_of.setdefault(score.hypotheses, []).append(score)
    return scores_of


def corpus_of(record: Record) -> Corpus | None:
    """Return the corpus of a run: generated, or read where it is at hand. Nothing is downloaded."""
    return _corpus(json.dumps(record.config.get("data"), sort_keys=True))


@lru_cache(maxsize=8)
def _corpus(data: str) -> Corpus | None:
    try:
        section: Data = TypeAdapter(Data).validate_json(data)
    except ValidationError:  # today's fields do not take it
        return None
    return section.read() if section.at_hand() else None
