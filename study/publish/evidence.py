"""Check that a record agrees with its identity, with its own files, and with itself.

`examine` reads everything of a run and scores its translations again with the scorer of the training; `publish` asks it
before a run is let in, `verify --rescore` afterwards. `contradictions` takes seconds for all runs: equations that hold
between numbers which a run writes at different places. Nothing is raised: whatever is wrong is listed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, lru_cache
from itertools import product
from math import fsum, isclose
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError
from sacrebleu.metrics.bleu import BLEU

from study import records
from study.config import Data, Experiment, config_hash, experiment_id
from study.config.overrides import nested
from study.corpora import Corpus
from study.errors import InputError
from study.records import Record, Score, lacking
from study.rows import COUNTS, HYPOTHESES, NLL, STATISTICS, file_of
from study.scoring import counts, score_nll, score_split
from study.store import SENTENCES, Store, sha256

LARGEST_ERROR = 1e-4
"""Relative error of a mean over numbers that were rounded to 6 significant digits."""
RESTORE = "Restore what was published."
SUMMED = (*COUNTS[2:], *(f"total{n}" for n in range(1, 5)))
"""Lengths, and n-grams that are right and all that there are: BLEU follows from their sums."""
Fact = tuple[str, Any, Any]
"""A field, the value that it must have, and the value that it has."""


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
        counted: gets the number of `files` that were scored, of `files without references` at hand, and of scores
            that text does not decide, by metric.
    """
    counted = Counter() if counted is None else counted
    found, problems = [], []
    for identity in ids:
        try:
            found.append((_data_key(store.record(identity)), identity))
        except InputError as problem:  # it names its file; so below
            problems.append(str(problem))
    for done, (data, identity) in enumerate(sorted(found), 1):  # those of one corpus one after another
        where = store.where(identity)
        try:
            facts = list(_facts(store, store.record(identity), identity, _corpus(data), counted))
            wrong = [f"{name}: expected {expected}, got {got}" for name, expected, got in facts if expected != got]
            problems += [f"{where}: {line}. Restore the record, or run it again." for line in wrong]
        except InputError as problem:
            problems.append(str(problem))
        except (KeyError, ValueError) as problem:
            problems.append(f"{where}: expected the files of a run, got others ({problem}). Run it again.")
        told(done)
    return problems + contradictions(store, [identity for _, identity in found])


def _facts(store: Store, record: Record, identity: str, corpus: Corpus | None, counted: Counter[str]) -> Iterator[Fact]:
    """Yield the facts of a record that follow from its configuration, its files and the corpus."""
    try:
        experiment = Experiment.model_validate(record.config | {"seed": record.seed})
    except ValidationError:
        yield "config", "one of this program", "another"
        return
    yield "seed", record.config.get("seed", record.seed), record.seed
    yield "config_hash", config_hash(experiment), record.config_hash
    yield "id", experiment_id(experiment), record.id
    yield "id", identity, record.id
    yield "protocol", experiment.protocol, record.protocol
    if record.selection:
        yield "selection.rule", record.config.get("training", {}).get("select"), record.selection.rule
    if record.provenance and record.status != "failed":
        yield "provenance.precision", experiment.training.precision, record.provenance.precision
    steps = [step for point in record.history if type(step := point.get("step")) is int and step >= 0]
    if len(steps) < len(record.history) or steps != sorted(set(steps)):
        yield "history", "a rising number of updates in every step", "another order"
    elif record.selection and steps and record.selection.step not in steps:
        yield "selection.step", "a step of history", record.selection.step
    text = store.text(identity)
    if store.published:
        yield "sha256", store.digest(identity), sha256(text.encode())
    elif text != records.canonical(json.loads(text)):
        yield "text", "the one that a run writes", "another (order, blanks or a field twice)"
    yield from _translations(store, record, corpus, counted)
    yield from _per_sentence(store, record, corpus)


def _translations(store: Store, record: Record, corpus: Corpus | None, counted: Counter[str]) -> Iterator[Fact]:
    """Yield the checksums of the corpus and of the translations, and the scores that these give."""
    named = hypothesis_files(record)
    if record.status == "finished" and not named:
        yield "scores", "translations, to score them again", "none"
    if named and corpus is None and not store.published:
        yield "scores", "references, to score it again", "none (STUDY_MULTI30K or STUDY_FILES names them)"
    counted.update(score.metric for score in record.scores if score.hypotheses is None)
    for name, digest in corpus.files.items() if corpus and named else ():
        yield f"data.files.{name}", digest, record.data and record.data.files.get(name)
    for name, scores in named.items():
        split = scores[0].split
        where = f"scores.{split}.hypotheses"
        if {f"{score.split}{HYPOTHESES}" for score in scores} != {name}:
            yield where, f"{split}{HYPOTHESES}", name
        elif (content := store.content(record.id, name)) is None:
            yield where, f"a file {name}", "none"
        else:
            yield f"{where}_sha256", {sha256(content)}, {score.hypotheses_sha256 for score in scores}
            counted["files" if corpus else "files without references"] += 1
            yield from _rescored(store, record, split, corpus) if corpus else ()


def _rescored(store: Store, record: Record, split: str, corpus: Corpus) -> Iterator[Fact]:
    """Yield the scores and the counts that the translations of a split give."""
    section, lines, pairs = section_of(record), store.hypotheses(record.id, split), corpus.splits[split]
    assert section is not None
    made = score_split(lines, pairs, split, section.in_subsets(split, pairs))
    theirs = {(one.metric, one.subset): (records.rounded(one.value), one.n, one.signature) for one in made}
    rows = [row for row in store.score_rows(record.id) if row["split"] == split and row["hypotheses"]]
    ours = {(row["metric"], row["subset"]): (row["value"], row["n"], row["signature"]) for row in rows}
    for key in {**ours, **theirs}:
        yield ".".join(("scores", split, *filter(None, key))), theirs.get(key, "no score"), ours.get(key, "no score")
    stored = store.content(record.id, f"{split}{STATISTICS}")
    if stored is not None and stored != file_of(STATISTICS, list(zip(*counts(lines, pairs), strict=True))):
        yield f"{split}{STATISTICS}", "the counts of the translations", "others"


def _per_sentence(store: Store, record: Record, corpus: Corpus | None) -> Iterator[Fact]:
    """Yield the checksums of the files of NLL by sentence, and the scores that are their means and slopes."""
    for name, digest in record.per_sentence.items():
        split, content = name.removesuffix(NLL), store.content(record.id, name)
        yield f"per_sentence.{name}", digest, content if content is None else sha256(content)
        values = [float(line) for line in (content or b"").decode().splitlines()]
        scores = {(one.metric, one.subset): one for one in record.scores if one.split == split}
        yield f"scores.{split}.nll.n", len(values), scores["nll", None].n
        mean, section = fsum(values) / len(values), section_of(record)
        made = [Score(split=split, metric="nll", value=mean, n=len(values))]
        if section is not None and corpus is not None and split in corpus.splits:
            pairs = corpus.splits[split]
            made += score_nll(values, pairs, split, section.in_subsets(split, pairs))
        for part in made:
            got = scores.get((part.metric, part.subset), part).value
            least = 0.01 * mean * LARGEST_ERROR if part.subset or part.metric != "nll" else 0.0  # a slope may be near 0
            if got is not None and not isclose(part.value or 0.0, got, rel_tol=LARGEST_ERROR, abs_tol=least):
                yield ".".join(filter(None, ("scores", split, part.metric, part.subset))), part.value, got


def contradictions(store: Store, ids: Collection[str] | None = None) -> list[str]:
    """Return, a line each, where numbers of records contradict each other.

    - Perplexity is the exponential of the NLL per token: n · NLL = tokens · ln perplexity.
    - The validation loss at the selected step is the logarithm of the perplexity on validation (not after a pruning).
    - The value that chose the step is the BLEU of that step, and the largest of the history.
    - A finished run is whole (`records.incomplete`).
    - In a published folder exact match, NLL and BLEU follow from the table of sentences, which has no other runs.

    Args:
        store: the folder.
        ids: which runs (default: all).
    """
    runs, scores, curves = store.runs, store.scores, store.curves
    if ids is not None:
        runs, scores, curves = (frame[frame.id.isin(ids)] for frame in (runs, scores, curves))
    whole = scores[scores.subset.isna() & scores.value.notna()]
    found = [*_by_token(whole), *_by_history(runs, whole, curves)]
    if store.published and ids is None:
        found += _by_sentence(store, whole)
    broken = [f"{store.where(identity)}: {lost}. {RESTORE}" for identity, lost in _broken(runs, scores, curves)]
    return broken + [
        f"{store.where(identity)}: {field}: expected {expected:.6g}, by {source}, got {got:.6g}. {RESTORE}"
        for identity, field, expected, source, got in found
    ]


def _broken(runs: pd.DataFrame, scores: pd.DataFrame, curves: pd.DataFrame) -> Iterator[tuple[Any, str]]:
    """Yield finished runs that lack a validation, their last step or a split."""
    points = curves[curves.name == "valid_bleu"]
    points = points.assign(step=pd.to_numeric(points.step, errors="coerce"))  # a stranger's may be anything
    steps = {identity: sorted(own) for identity, own in points.groupby("id", observed=True).step}
    scored = {identity: set(own) for identity, own in scores.groupby("id", observed=True).split}
    fields = [name for name in map(str, runs) if name.startswith(("data.", "training.", "pruning."))]
    for identity, *values in runs[runs.status == "finished"][["id", *fields]].itertuples(index=False):
        own = {name: v for name, v in zip(fields, values, strict=True) if v == v and v is not None}
        data = _data(json.dumps(nested({k: v for k, v in own.items() if k.startswith("data.")})["data"]))
        splits = data.scored if data else ("valid",)
        if lost := lacking(own, steps.get(identity, []), scored.get(identity, ()), splits):
            yield identity, lost


Contradiction = tuple[Any, str, Any, str, Any]
"""Id, field, the expected value, what gives it, and the value."""


def _by_token(scores: pd.DataFrame) -> Iterator[Contradiction]:
    nll, perplexity = (scores[scores.metric == name].set_index(["id", "split"]) for name in ("nll", "perplexity"))
    both = nll[["value", "n"]].join(perplexity[["value", "n"]], rsuffix="_token", how="inner").astype(float)
    nats = both.value * both.n / both.n_token
    wrong = (nats - np.log(both.value_token)).abs() > 1e-5 * (1 + nats)
    for (identity, split), row in both.assign(expected=np.exp(nats))[wrong].iterrows():
        yield identity, f"scores.{split}.perplexity", row.expected, "its NLL", row.value_token


def _by_history(runs: pd.DataFrame, scores: pd.DataFrame, curves: pd.DataFrame) -> Iterator[Contradiction]:
    columns = ["id", "selected_rule", "selected_step", "selected_value", "pruning.question"]
    chosen = runs.reindex(columns=columns)
    chosen = chosen[chosen["pruning.question"].isna()]
    points = curves[curves.name.isin(["valid_loss", "valid_bleu"]) & curves.id.isin(chosen.id)]
    points = points.pivot_table(index=["id", "step"], columns="name", values="value", observed=True)
    points = points.reindex(columns=["valid_loss", "valid_bleu"])
    valid = scores[(scores.metric == "perplexity") & (scores.split == "valid")].set_index("id").value
    at = chosen.join(points, on=["id", "selected_step"]).join(valid.rename("perplexity"), on="id")
    at = at.join(points.valid_bleu.groupby("id", observed=True).max().rename("best"), on="id")
    for row in at[(np.exp(at.valid_loss) - at.perplexity).abs() > 5e-5 * at.perplexity].itertuples():
        yield row.id, "history.valid_loss", np.log(row.perplexity), "perplexity on valid", row.valid_loss
    at = at[at.selected_rule == "best_valid_bleu"]
    for row in at[(at.valid_bleu != at.selected_value) | (at.best != at.selected_value)].itertuples():
        yield row.id, "selection.value", row.best, "the largest of history", row.selected_value


def _by_sentence(store: Store, scores: pd.DataFrame) -> Iterator[Contradiction]:
    paths, ids = sorted((store.folder / SENTENCES).glob("*.parquet")), {*store.ids()}
    for path, split in product(paths, sorted(scores.split.unique())):
        table = store.table(f"{SENTENCES}/{path.name}", ["id", "exact", "nll", *COUNTS[2:]], split)
        table = table.set_column(1, "exact", table["exact"].cast("int8"))
        for n in range(4):
            table = table.append_column(f"total{n + 1}", pc.max_element_wise(pc.subtract(table["sys_len"], n), 0))
        wanted = [("nll", "mean"), ("exact", "mean"), *((name, "sum") for name in SUMMED)]
        found = table.group_by("id").aggregate(wanted).to_pandas().set_index("id")
        for identity in sorted({*found.index} - ids):
            yield identity, path.name, 0.0, "the table of runs, the number of runs", 1.0
        means = {"nll": found.nll_mean, "exact": 100 * found.exact_mean, "bleu": _bleu(found)}
        for metric, mean in means.items():
            both = scores[(scores.metric == metric) & (scores.split == split)].join(mean.rename("mean"), on="id")
            for row in both[(both["mean"] - both.value).abs() > LARGEST_ERROR * both.value].itertuples():
                yield row.id, f"scores.{split}.{metric}", row.mean, "its sentences", row.value


def _bleu(sums: pd.DataFrame) -> pd.Series:
    """Return BLEU of each run and split from the sums of the counts of its sentences, where they are stored."""
    sums = sums[[f"{name}_sum" for name in SUMMED]].dropna().astype(int)
    values = [BLEU.compute_bleu(row[2:6], row[6:], row[0], row[1], "exp").score for row in sums.values.tolist()]
    return pd.Series(values, sums.index, dtype=float)


def hypothesis_files(record: Record) -> dict[str, list[Score]]:
    """Return the name of each file of translations that the record names ↦ the scores that it gives."""
    found: dict[str, list[Score]] = {}
    for score in record.scores:
        if score.hypotheses is not None:
            found.setdefault(score.hypotheses, []).append(score)
    return found


def section_of(record: Record) -> Data | None:
    """Return the `data` section of a run; None for one that today's fields no longer take."""
    return _data(_data_key(record))


def _data_key(record: Record) -> str:
    return json.dumps(record.config.get("data"), sort_keys=True)


@cache
def _data(key: str) -> Data | None:
    try:
        section: Data = TypeAdapter(Data).validate_json(key)
    except ValidationError:
        return None
    return section


@lru_cache(maxsize=1)
def _corpus(key: str) -> Corpus | None:
    """Return the corpus of a `data` section: generated, or read where it is at hand. Nothing is downloaded."""
    data = _data(key)
    return data.read() if data is not None and data.at_hand() else None
