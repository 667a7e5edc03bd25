"""Check that a record agrees with its identity, with its own files, and with itself.

`examine` reads all files of a run and scores its translations again: `publish` calls it before a run is let in, `verify
--rescore` afterwards. `contradictions` takes seconds for all runs: equations between numbers that a run writes at
different places. Nothing is raised: both yield a line for whatever is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import lru_cache
from math import fsum
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError
from sacrebleu.metrics.bleu import BLEU

from study import records
from study.config import Data, Experiment, config_hash, experiment_id
from study.corpora import Corpus
from study.errors import InputError
from study.records import Record, Score
from study.rows import COUNTS, HYPOTHESES, NLL, STATISTICS, file_of
from study.scoring import counts, score_nll, score_split
from study.store import SENTENCES, Store, sha256

RELATIVE, ABSOLUTE = 1e-4, 1e-5
"""Errors of equations, since numbers in records are rounded to 6 significant digits."""
RESTORE = "Restore what was published."
SUMMED = COUNTS[2:]
"""Lengths and right n-grams of each sentence: BLEU follows from their sums."""
PER_TOKEN = "nll_per_token_by_length"
SENTENCED = ("exact", "nll", "nll_by_length", PER_TOKEN, "bleu")
"""Scores that follow from the table of sentences."""


def examine(store: Store, identity: str) -> Iterator[str]:
    """Yield what is wrong with a run that has a record, working or published."""
    where = store.where(identity)
    try:
        for field, expected, got in _facts(store, identity):
            if expected != got:
                yield f"{where}: {field}: expected {expected}, got {got}. Restore the record, or run it again."
    except InputError as problem:  # it names its file
        yield str(problem)
    except (KeyError, ValueError) as problem:
        yield f"{where}: expected the files of a run, got others ({problem}). Run it again."


def _facts(store: Store, identity: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield fields of a record, each with the value that follows from configuration, files and corpus, and its own."""
    record, text = store.record(identity), store.text(identity)
    try:
        experiment = Experiment.model_validate(record.config | {"seed": record.seed})
    except ValidationError:
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
    corpus, named = corpus_of(record), hypothesis_files(record)
    if record.status == "finished" and not named:
        yield "scores", "translations, to score them again", "none"
    if named and corpus is None and not store.published:
        yield "scores", "references, to score it again", "none (STUDY_MULTI30K or STUDY_FILES names them)"
    for name, digest in corpus.files.items() if corpus and named else ():
        yield f"data.files.{name}", digest, record.data and record.data.files.get(name)
    for name, scores in named.items():
        split, content = scores[0].split, store.content(identity, name)
        yield f"scores.{split}.hypotheses", {f"{score.split}{HYPOTHESES}" for score in scores}, {name}
        digests = {score.hypotheses_sha256 for score in scores}
        yield f"scores.{split}.hypotheses_sha256", digests, "no file" if content is None else {sha256(content)}
        if corpus and content:
            yield from _rescored(store, identity, split, corpus, experiment.data)
    for name, digest in record.per_sentence.items():
        content = store.content(identity, name) or b""
        yield f"per_sentence.{name}", digest, sha256(content)
        values = [float(line) for line in content.decode().splitlines()]
        split = name.removesuffix(NLL)
        theirs = {
            (row["metric"], row["subset"]): row["value"] for row in store.score_rows(identity) if row["split"] == split
        }
        yield from _means(theirs, split, values, corpus, experiment.data)


def _rescored(store: Store, identity: str, split: str, corpus: Corpus, data: Data) -> Iterator[tuple[str, Any, Any]]:
    """Yield the scores and the counts that the translations of a split give."""
    lines, pairs = store.hypotheses(identity, split), corpus.splits[split]
    made = score_split(lines, pairs, split, data.in_subsets(split, pairs))
    theirs = {(one.metric, one.subset): (records.rounded(one.value), one.n, one.signature) for one in made}
    rows = [row for row in store.score_rows(identity) if row["split"] == split and row["hypotheses"]]
    ours = {(row["metric"], row["subset"]): (row["value"], row["n"], row["signature"]) for row in rows}
    for key in {**ours, **theirs}:
        yield ".".join(("scores", split, *filter(None, key))), theirs.get(key, "no score"), ours.get(key, "no score")
    stored = store.content(identity, f"{split}{STATISTICS}")
    if stored is not None and stored != file_of(STATISTICS, list(zip(*counts(lines, pairs), strict=True))):
        yield f"{split}{STATISTICS}", "the counts of the translations", "others"


def _means(
    theirs: dict[tuple[str, str | None], float | None],
    split: str,
    values: list[float],
    corpus: Corpus | None,
    data: Data,
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the scores that are means and slopes of the NLL of the sentences of a split."""
    made = [Score(split=split, metric="nll", value=fsum(values) / len(values), n=len(values))]
    if corpus is not None and split in corpus.splits:
        made += score_nll(values, corpus.splits[split], split, data.in_subsets(split, corpus.splits[split]))
    for one in made:
        got = theirs.get((one.metric, one.subset))
        if one.value is not None and got is not None and not np.isclose(one.value, got, RELATIVE, ABSOLUTE):
            yield ".".join(filter(None, ("scores", split, one.metric, one.subset))), one.value, got


def contradictions(store: Store, ids: Collection[str] | None = None) -> Iterator[str]:
    """Yield where numbers of records contradict each other.

    - Perplexity is the exponential of the NLL per token: n · NLL = tokens · ln perplexity.
    - The validation loss at the selected step is the logarithm of the perplexity on validation (not after a pruning).
    - The value that chose the step is the largest BLEU of the history.
    - In a published folder exact match, BLEU, NLL and its slopes over length follow from the table of sentences.

    Args:
        store: the folder.
        ids: which runs (default: all).
    """
    runs, scores, curves = store.runs, store.scores, store.curves
    if ids is not None:
        runs, scores, curves = (frame[frame.id.isin(ids)] for frame in (runs, scores, curves))
    keys = ["id", "split"]
    whole = scores[scores.subset.isna()].astype({"metric": str, "split": str})
    value, n = (whole.pivot_table(column, keys, "metric", observed=True) for column in ("value", "n"))
    value, n = (frame.reindex(columns=["perplexity", *SENTENCED]) for frame in (value, n))
    per_token = np.log(value.perplexity)
    points = curves[curves.name.isin(["valid_loss", "valid_bleu"])].pivot_table("value", ["id", "step"], "name")
    points = points.reindex(columns=["valid_loss", "valid_bleu"])
    runs = runs.reindex(columns=["id", "selected_rule", "selected_step", "selected_value", "pruning.question"])
    runs = runs[runs["pruning.question"].isna()].join(points, on=["id", "selected_step"]).set_index("id")
    best = runs[runs.selected_rule == "best_valid_bleu"]
    checks = [
        ("scores.{}: ln perplexity", value.nll * n.nll / n.perplexity, "its NLL", per_token),
        ("history.valid_loss", per_token.xs("valid", level="split"), "perplexity on valid", runs.valid_loss),
        ("selection.value", best.valid_bleu, "its step of history", best.selected_value),
        ("selection.value", points.valid_bleu.groupby("id").max(), "the largest of history", best.selected_value),
    ]
    if store.published and ids is None:
        found = pd.concat([_of_sentences(store, path.name) for path in (store.folder / SENTENCES).glob("*.parquet")])
        checks += [(f"scores.{{}}.{name}", found[name], "its sentences", value[name]) for name in found]
    for field, expected, source, got in checks:
        both = pd.DataFrame({"expected": expected, "got": got}).dropna().astype(float)
        for place, row in both[~np.isclose(both.expected, both.got, RELATIVE, ABSOLUTE)].iterrows():
            identity, *split = place if isinstance(place, tuple) else (place,)
            where = f"{store.where(str(identity))}: {field.format(*split)}"
            yield f"{where}: expected {row.expected:.6g}, by {source}, got {row.got:.6g}. {RESTORE}"


def _of_sentences(store: Store, name: str) -> pd.DataFrame:
    """Return scores by run and split, from a table of sentences; BLEU and slopes over length where it has counts."""
    keys = ["id", "split"]
    table = store.table(f"{SENTENCES}/{name}", [*keys, "nll", *COUNTS])
    table = table.set_column(table.column_names.index("exact"), "exact", table["exact"].cast("int8"))
    means = table.group_by(keys).aggregate([("exact", "mean"), ("nll", "mean")]).to_pandas().set_index(keys)
    found = pd.DataFrame({"exact": 100 * means.exact_mean, "nll": means.nll_mean})
    counted = table.filter(pc.is_valid(table["sys_len"])).to_pandas()
    for n in range(4):
        counted[f"total{n + 1}"] = (counted.sys_len - n).clip(lower=0)
    sums = counted.groupby(keys, observed=True)[[*SUMMED, *(f"total{n}" for n in range(1, 5))]].sum()
    bleu = [BLEU.compute_bleu(row[2:6], row[6:], row[0], row[1], "exp").score for row in sums.values.tolist()]
    for slope, y in {"nll_by_length": counted.nll, PER_TOKEN: counted.nll / (counted.ref_len + 1)}.items():
        x = counted.source_words.astype(float)
        parts = pd.DataFrame({"x": x, "y": y, "xx": x * x, "xy": x * y, "n": 1.0}).groupby([counted[k] for k in keys])
        of = parts.sum()
        found[slope] = (of.n * of.xy - of.x * of.y) / (of.n * of.xx - of.x**2)
    return found.join(pd.Series(bleu, sums.index, dtype=float, name="bleu"))


def hypothesis_files(record: Record) -> dict[str, list[Score]]:
    """Return the name of each file of translations that the record names ↦ the scores that it gives."""
    found: dict[str, list[Score]] = {}
    for score in record.scores:
        if score.hypotheses is not None:
            found.setdefault(score.hypotheses, []).append(score)
    return found


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
