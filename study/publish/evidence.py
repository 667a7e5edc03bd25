"""Check that a record agrees with its identity, with itself, and with every score that follows from text alone.

`examine` reads everything of a run and scores its translations again with the scorer of the training; `publish` asks it
before a run is let in, `verify --rescore` afterwards. `identities` takes seconds for all runs: equations that hold
between numbers which a run writes at different places. Nothing is raised: whatever is wrong is listed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from math import fsum
from typing import Any

import numpy as np
import pandas as pd
from pydantic import TypeAdapter, ValidationError

from study import records
from study.config import Data, Experiment, config_hash, experiment_id
from study.config.overrides import nested
from study.corpora import Corpus, Pair
from study.errors import InputError
from study.records import Record, Score, lacking
from study.rows import HYPOTHESES, NLL, STATISTICS
from study.scoring import counts, score_counts, score_nll, score_split
from study.store import Store, sha256

LARGEST_ERROR = 1e-4
"""Relative error of a mean over numbers that were rounded to 6 significant digits."""
RESTORE = "Restore what was published."
CHOSEN = ("selected_rule", "selected_step", "selected_value")


def examine(
    store: Store,
    ids: Sequence[str],
    told: Callable[[int], None] = lambda done: None,
    counted: Counter[str] | None = None,
) -> list[str]:
    """Examine runs, working or published, and return what is wrong with them, a line each.

    Args:
        store: their folder.
        ids: runs that have a record.
        told: called with the number of runs that are done.
        counted: gets the number of files that were scored: `references`, `counts` (stored ones, where references are
            not at hand), and of scores that text does not decide, by metric.
    """
    counted = Counter() if counted is None else counted
    found, problems = {}, []
    for identity in ids:
        try:
            found[identity] = store.record(identity)
        except InputError as problem:  # it names its file; so below
            problems.append(str(problem))
    order = sorted(found, key=lambda one: (_key(found[one]), one))  # those of one corpus one after another
    runs, scores, curves = (frame[frame.id.isin(order)] for frame in (store.runs, store.scores, store.curves))
    added = {identity: rows.to_dict("records") for identity, rows in scores[scores.added].groupby("id", observed=True)}
    for done, identity in enumerate(order, 1):
        record, where = found[identity], store.where(identity)
        try:
            for lines in (
                _facts(record, identity),
                _text(store, identity),
                _translations(store, record, added.get(identity, ()), counted),
                _per_sentence(store, record),
            ):
                problems += [f"{where}: {line}" for line in lines]
        except InputError as problem:
            problems.append(str(problem))
        told(done)
    return problems + [f"{store.folder}: {line}" for line in identities(runs, scores, curves)]


def _facts(record: Record, identity: str) -> Iterator[str]:
    """Yield facts that a run writes from its configuration, and that differ from it; and steps out of order."""
    try:
        experiment = Experiment.model_validate(record.config | {"seed": record.seed})
    except ValidationError:
        yield "config: expected one of this program, got another. Use the program that made it."
        return
    training, whole = record.config.get("training", {}), "in the configuration"
    facts = [
        ("id", record.id, identity, whole),
        ("seed", record.seed, record.config.get("seed", record.seed), whole),
        ("config_hash", record.config_hash, config_hash(experiment), whole),
        ("id", record.id, experiment_id(experiment), whole),
        ("protocol", record.protocol, experiment.protocol, whole),
    ]
    if record.selection:
        rule = record.selection.rule
        facts.append(("selection.rule", rule, training.get("select", rule), "config.training.select"))
    if record.provenance and record.status != "failed":
        used = record.provenance.precision
        facts.append(("provenance.precision", used, training.get("precision", used), "config.training.precision"))
    for name, given, expected, source in facts:
        if given != expected:
            yield f"{name}: expected {expected}, as {source}, got {given}. Changed by hand: restore it."
    steps = [step for point in record.history if type(step := point.get("step")) is int and step >= 0]
    if len(steps) < len(record.history) or steps != sorted(set(steps)):
        yield "history: expected a rising number of updates in every step, got another order. Restore the record."
    elif record.selection and steps and record.selection.step not in steps:
        yield f"selection.step: expected a step of history, got {record.selection.step}. Restore the record."


def _text(store: Store, identity: str) -> Iterator[str]:
    """Yield a text that is not the one a run writes: publishing makes it again from the data."""
    text = store.text(identity)
    if store.published:
        if sha256(text.encode()) != store.runs.sha256[store.runs.id == identity].item():
            yield f"sha256: expected that of the record, got that of another text. {RESTORE}"
    elif text != records.canonical(json.loads(text)):
        yield (
            "expected the text that a run writes, got another (order, blanks or a field twice). It was changed by "
            "hand: restore the record."
        )


def _translations(
    store: Store, record: Record, added: Sequence[Mapping[Any, Any]], counted: Counter[str]
) -> Iterator[str]:
    """Yield files of translations with another checksum than the record's, and scores that they do not give."""
    named = hypothesis_files(record)
    if record.status == "finished" and not named:
        yield "scores: expected translations, to score them again, got none. Run it again."
    counted.update(score.metric for score in record.scores if score.hypotheses is None)
    corpus = _corpus(_key(record)) if named else None
    for name, digest in corpus.files.items() if corpus else ():
        if record.data is None or record.data.files.get(name) != digest:
            yield f"data.files.{name}: expected {digest}, that of the corpus here, got another. Use the other program."
    for name, scores in named.items():
        split = scores[0].split
        where, content = f"scores.{split}.hypotheses", store.content(record.id, name)
        if name != f"{split}{HYPOTHESES}" or {score.split for score in scores} != {split}:
            yield f"{where}: expected {split}{HYPOTHESES}, got {name}. Restore the record."
        elif content is None:
            yield f"{where}: {name}: no such file. Restore it, or run it again."
        elif {score.hypotheses_sha256 for score in scores} != {sha256(content)}:
            yield f"{where}_sha256: expected that of {name}, got another. Restore the file."
        else:
            ours = {(row["metric"], row["subset"]): (row["value"], row["n"]) for row in added if row["split"] == split}
            yield from _rescored(store, record, scores, ours, corpus, counted)


def _rescored(
    store: Store,
    record: Record,
    scores: list[Score],
    added: Mapping[tuple[str, str | None], tuple[Any, ...]],
    corpus: Corpus | None,
    counted: Counter[str],
) -> Iterator[str]:
    """Yield the scores of a split that its translations do not give."""
    split = scores[0].split
    section, lines = section_of(record), store.hypotheses(record.id, split)
    stored = store.content(record.id, f"{split}{STATISTICS}")
    rows = [tuple(map(int, line.split("\t"))) for line in stored.decode().splitlines()[1:]] if stored else []
    try:
        if corpus is not None and section is not None:
            pairs = corpus.splits[split]
            again = score_split(lines, pairs, split, section.in_subsets(split, pairs))
            same, kind = rows == counts(lines, pairs) or not rows, "references"
        elif rows:
            again = score_counts(rows, split)
            lengths = [row[2] for row in counts(lines, [Pair(line, line) for line in lines])]
            same, kind = [row[2] for row in rows] == lengths, "counts"
            known = {score.metric for score in again}
            counted.update(score.metric for score in scores if score.metric not in known)
            scores = [score for score in scores if score.metric in known]
        else:
            yield f"scores.{split}: no references at hand (STUDY_MULTI30K names them), and no stored counts. {RESTORE}"
            return
    except (KeyError, ValueError) as problem:
        yield f"scores.{split}: expected translations of the split, got others ({problem}). Run it again."
        return
    counted[kind] += 1
    if not same:
        yield f"scores.{split}: expected the counts of the translations, got others. {RESTORE}"
    ours = {**added, **{(s.metric, s.subset): (s.value, s.n, s.signature) for s in scores}}
    theirs = {(s.metric, s.subset): (records.rounded(s.value), s.n, s.signature) for s in again}
    for key in {**ours, **theirs}:
        found, expected = ours.get(key), theirs.get(key)
        if found is None or expected is None or found != expected[: len(found)]:
            where = ".".join(("scores", split, *(part for part in key if part)))
            yield f"{where}: expected {_shown(expected)}, from the translations, got {_shown(found)}. Restore it."


def _shown(found: Sequence[Any] | None) -> str:
    return "no score" if found is None else f"{found[0]} of {found[1]}" + "".join(f" ({one})" for one in found[2:])


def _per_sentence(store: Store, record: Record) -> Iterator[str]:
    """Yield files of NLL per sentence with another checksum, or whose mean or parts are not the record's scores."""
    for name, digest in record.per_sentence.items():
        split = name.removesuffix(NLL)
        found = {(score.metric, score.subset): score for score in record.scores if score.split == split}
        whole, content = found.get(("nll", None)), store.content(record.id, name)
        try:
            values = [float(line) for line in (content or b"").decode("utf-8").splitlines()]
        except ValueError:
            values = []
        if whole is None or content is None or sha256(content) != digest or len(values) != whole.n:
            yield f"per_sentence.{name}: expected a file of that SHA-256 and its score, got others. {RESTORE}"
            continue
        mean, section, corpus = fsum(values) / len(values), section_of(record), _corpus(_key(record))
        again = [whole.model_copy(update={"value": mean})]
        if section is not None and corpus is not None and split in corpus.splits:
            pairs = corpus.splits[split]
            again += score_nll(values, pairs, split, section.in_subsets(split, pairs))
        for part in again:
            score = found.get((part.metric, part.subset))
            if score is None or score.value is None:
                continue
            smallest = 0.01 * mean if part.subset or part.metric != "nll" else 0.0  # a slope may be near zero
            if part.value is None or abs(part.value - score.value) > LARGEST_ERROR * max(abs(score.value), smallest):
                where = ".".join(filter(None, ("scores", split, part.metric, part.subset)))
                yield f"{where}: expected {part.value}, from {name}, got {score.value}. {RESTORE}"


def identities(runs: pd.DataFrame, scores: pd.DataFrame, curves: pd.DataFrame) -> list[str]:
    """Return, a line for each, where numbers of a record contradict each other.

    - Perplexity is the exponential of the NLL per token: n · NLL = tokens · ln perplexity.
    - The validation loss at the selected step is the logarithm of the perplexity on validation (not after a pruning).
    - The value that chose the step is the BLEU of that step, and the largest of the history.

    And where a finished run is not whole (`records.incomplete`).

    Args:
        runs: id, status, the fields of the configuration, and `selected_rule`, `selected_step`, `selected_value`.
        scores: id, split, metric, subset, value, n.
        curves: id, step, name, value, with the history's `valid_loss` and `valid_bleu`.
    """
    broken = list(_broken(runs, scores, curves))
    scores = scores[scores.subset.isna() & scores.metric.isin(["nll", "perplexity"])]
    nll, perplexity = (scores[scores.metric == name].set_index(["id", "split"]) for name in ("nll", "perplexity"))
    both = nll[["value", "n"]].join(perplexity[["value", "n"]], rsuffix="_perplexity", how="inner").astype(float)
    nats = both.value * both.n
    wrong = both[(nats - both.n_perplexity * np.log(both.value_perplexity)).abs() > 1e-5 * (both.n_perplexity + nats)]
    lines = [
        f"{identity}: scores.{split}.perplexity: expected {np.exp(row.value * row.n / row.n_perplexity):.6g}, "
        f"by its NLL, got {row.value_perplexity}"
        for (identity, split), row in wrong.iterrows()
    ]
    chosen = runs[runs["pruning.question"].isna()] if "pruning.question" in runs else runs
    points = curves[curves.name.isin(["valid_loss", "valid_bleu"]) & curves.id.isin(chosen.id)]
    points = points.pivot_table(index=["id", "step"], columns="name", values="value", observed=True)
    points = points.reindex(columns=["valid_loss", "valid_bleu"])
    at = chosen.set_index("id").reindex(columns=CHOSEN).join(points, on=["id", "selected_step"])
    valid = both.value_perplexity[both.index.get_level_values("split") == "valid"].droplevel("split")
    at = at.join(valid.rename("perplexity")).join(points.valid_bleu.groupby("id", observed=True).max().rename("best"))
    for identity, row in at[(np.exp(at.valid_loss) - at.perplexity).abs() > 5e-5 * at.perplexity].iterrows():
        expected, got = row.perplexity, f"{np.exp(row.valid_loss):.6g}"
        lines.append(
            f"{identity}: history.valid_loss: expected the logarithm of {expected}, on valid, got that of {got}"
        )
    at = at[at.selected_rule == "best_valid_bleu"]
    for identity, row in at[(at.valid_bleu != at.selected_value) | (at.best != at.selected_value)].iterrows():
        expected, got = row.best, row.selected_value
        lines.append(f"{identity}: selection.value: expected {expected}, the largest of history, got {got}")
    return [f"{line}. {RESTORE}" for line in [*broken, *lines]]


def _broken(runs: pd.DataFrame, scores: pd.DataFrame, curves: pd.DataFrame) -> Iterator[str]:
    """Yield finished runs that lack a validation, their last step or a split."""
    points = curves[curves.name == "valid_bleu"]
    points = points.assign(step=pd.to_numeric(points.step, errors="coerce"))  # a stranger's may be anything
    steps = {str(identity): sorted(own) for identity, own in points.groupby("id", observed=True).step}
    scored = {str(identity): set(own) for identity, own in scores.groupby("id", observed=True).split}
    fields = [name for name in map(str, runs) if name.startswith(("data.", "training.", "pruning."))]
    for identity, *values in runs[runs.status == "finished"][["id", *fields]].itertuples(index=False):
        own = {name: v for name, v in zip(fields, values, strict=True) if v == v and v is not None}
        key = nested({name: value for name, value in own.items() if name.startswith("data.")})["data"]
        data = _data(json.dumps(key, sort_keys=True))
        expected = data.scored if data else ("valid",)
        if lost := lacking(own, steps.get(identity, []), scored.get(identity, ()), expected):
            yield f"{identity}: {lost}"


def hypothesis_files(record: Record) -> dict[str, list[Score]]:
    """Return the name of each file of translations that the record names ↦ the scores that it gives."""
    found: dict[str, list[Score]] = {}
    for score in record.scores:
        if score.hypotheses is not None:
            found.setdefault(score.hypotheses, []).append(score)
    return found


def section_of(record: Record) -> Data | None:
    """Return the `data` section of a run; None for one that today's fields no longer take."""
    return _data(_key(record))


def _key(record: Record) -> str:
    return json.dumps(record.config.get("data"), sort_keys=True)


@cache
def _data(key: str) -> Data | None:
    try:
        section: Data = TypeAdapter(Data).validate_python(json.loads(key))
        return section
    except ValidationError:
        return None


@lru_cache(maxsize=1)
def _corpus(key: str) -> Corpus | None:
    """Return the corpus of a `data` section: generated, or read where it is at hand. Nothing is downloaded."""
    data = _data(key)
    return data.read() if data is not None and data.at_hand() else None
