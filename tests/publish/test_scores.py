"""Every published score whose sentences are stored follows from them, by the measures of `study.scores.scoring`.

One run in 250 is drawn by the commit. `STUDY_MATRIX=all python -m pytest -s tests/publish/test_scores.py` takes
all of them, with a line for how many scores follow, how many are of sentences that are not stored, and how many are not
of sentences.
"""

import hashlib
import math
import os
import subprocess
from collections import Counter
from dataclasses import replace
from functools import lru_cache

import pytest

from study.claims.sentences import facts
from study.config import experiment_from
from study.folders import CHECKOUT
from study.publish.evidence import corpus_of
from study.scores import scoring
from study.store.folder import Store
from study.store.records import rounded

NOT_OF_SENTENCES = {"area", "beyond", "cliff", "free", "harmful", "needed", "onset"}
"""Scores of a pruning's curve, of its heads, or of places in a sentence."""
ALL = os.environ.get("STUDY_MATRIX") == "all"
PARTS = 250
TEXT = {**scoring.MEASURES, "bleu": replace(scoring.bleu, facts=lru_cache(None)(scoring.bleu.facts))}


SUBSETS = {}


def subsets(data, corpus, split):
    """Return the rows of the sentences of each subset of a split."""
    key = (*corpus.files.items(), split)
    if key not in SUBSETS:
        pairs = corpus.splits[split]
        found = scoring.length_buckets(pairs) | data.in_subsets(split, pairs)
        SUBSETS[key] = {name: [i for i, belongs in enumerate(members) if belongs] for name, members in found.items()}
    return SUBSETS[key]


def values(store, identity):
    """Yield each score of a run and the value that its stored sentences give; nothing for those that are not stored."""
    record = store.record(identity)
    experiment = experiment_from(record.config)
    corpus, data, pruned = corpus_of(record), experiment.data, experiment.pruning is not None
    tables = {}
    for row in store.score_rows(identity):
        split, metric, subset = row["split"], row["metric"], row["subset"]
        pairs = corpus.splits[split] if corpus and split in corpus.splits else []
        of_heads = pruned and subset and subset not in (subsets(data, corpus, split) if corpus else ())
        if row["value"] is None or of_heads:
            continue
        if metric == "chrf" and pairs:
            yield row, scoring.chrf(store.hypotheses(identity, split), [pair.target for pair in pairs]).value
            continue
        source = "nll" if metric in ("nll", "perplexity", "nll_by_length", "nll_per_token_by_length") else metric
        if source not in ("nll", *TEXT):
            continue
        if (split, source) not in tables:
            tables[split, source] = facts(store, identity, split, source, pairs)
        table = tables[split, source]
        if table is None or (subset and not pairs):
            continue
        rows = subsets(data, corpus, split)[subset] if subset else slice(None)
        if metric == "perplexity":
            yield row, math.exp(math.fsum(table[:, 0]) / row["n"])  # of n tokens
        elif metric in ("nll_by_length", "nll_per_token_by_length"):
            if pairs:
                lengths = [scoring.source_length(pair.source) for pair in pairs]
                whole = metric == "nll_by_length"
                tokens = [1 if whole else TEXT["bleu"].facts("", pair.target)[1] + 1 for pair in pairs]
                yield row, scoring.nll_by_length.of(scoring.nll_by_length.table(table[:, 0], lengths, tokens)[rows])
        else:
            yield row, {**TEXT, "nll": scoring.nll}[metric].of(table[rows])


def drawn(store):
    """Return the runs that are examined."""
    if ALL:
        return list(store.ids())
    commit = subprocess.run(["git", "-C", CHECKOUT, "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    order = sorted(store.ids(), key=lambda identity: hashlib.sha256(f"{commit} {identity}".encode()).digest())
    return order[: len(order) // PARTS]


@pytest.mark.slow
def test_published_scores_follow_from_their_sentences():
    store = Store(CHECKOUT / "results")
    counts, wrong = Counter(), []
    for identity in drawn(store):
        rows = store.score_rows(identity)
        counts["not of sentences"] += sum(row["metric"] in NOT_OF_SENTENCES for row in rows)
        counts["all"] += len(rows)
        for row, value in values(store, identity):
            counts["follow"] += 1
            near = row["value"] == rounded(value) or value == pytest.approx(row["value"], rel=2e-5, abs=2e-5)
            if not near:
                wrong.append((identity, row["split"], row["metric"], row["subset"], row["value"], value))
            counts["to the last digit"] += row["value"] == rounded(value)
    assert not wrong, wrong[:5]
    assert counts["follow"] > counts["all"] / 3
    print(dict(counts), "sentences not stored:", counts["all"] - counts["follow"] - counts["not of sentences"])
