"""The test: every test split translated and scored once, with the selected weights."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from study.config import Experiment
from study.corpora import Contrast, Corpus, Pair
from study.models import Translator
from study.scores import scoring
from study.scores.score import RecordedScore
from study.training import decode
from study.training.alignment import alignment_scores, attends, attention_map, choose, gold_of, readings
from study.training.batches import Examples, examples
from study.training.vocabulary import Vocabulary

TEMPERATURES = tuple(tenth / 10 for tenth in range(5, 16))
"""Divisors of logits among which the one with the lowest NLL on validation is taken."""


class Evaluation(NamedTuple):
    """Scores of a model, the numbers and texts that they come from, and one attention map to look at."""

    scores: list[RecordedScore]
    hypotheses: dict[str, list[str]]
    """Translations by split."""
    nll: dict[str, list[float]]
    """NLL of each sentence by split, in nats. A split that the model cannot read as a whole is missing."""
    shown: dict[str, Any] | None
    sentences_per_second: float


def evaluate(
    experiment: Experiment, model: Translator, vocabulary: Vocabulary, corpus: Corpus, valid: Examples
) -> Evaluation:
    """Score validation and all test splits alike. What aligns is chosen on validation."""
    scores = []
    nll = {}
    tests = {split: examples(corpus.splits[split], vocabulary) for split in corpus.tests}
    data = {"valid": valid, **tests}
    beam, alpha = experiment.decoding.beam, experiment.decoding.length_penalty
    started = time.perf_counter()
    hypotheses = {split: decode.translate(model, part, vocabulary, beam, alpha) for split, part in data.items()}
    speed = sum(map(len, data.values())) / (time.perf_counter() - started)
    gold = any(gold_of(part) is not None for part in data.values())
    on_valid = readings(model, valid, vocabulary) if gold else {}
    aligning = choose(on_valid, valid)
    losses = {split: decode.tempered_nll(model, part, TEMPERATURES) for split, part in data.items()}
    cooled = int(losses["valid"].nansum(0).argmin())
    for split, part in data.items():
        pairs = corpus.splits[split]
        members = experiment.data.in_subsets(split, pairs)
        scores += scoring.score_split(hypotheses[split], pairs, split, members)
        readable = all(decode.fits(model, example) for example in part)
        sentences = losses[split][:, TEMPERATURES.index(1.0)]
        tokens, mean, perplexity = sum(len(example.target) + 1 for example in part), None, None
        if readable:
            nll[split] = sentences.tolist()
            total = float(sentences.sum())
            mean, perplexity = total / len(part), float(np.exp(min(total / tokens, 700.0)))
        scores.append(RecordedScore(split=split, metric="nll", value=mean, n=len(part)))
        scores.append(RecordedScore(split=split, metric="perplexity", value=perplexity, n=tokens))
        scores += scoring.score_nll(nll.get(split), pairs, split, members)
        calibrated = losses[split][:, cooled].tolist() if readable else None
        scores += scoring.score_calibrated(calibrated, TEMPERATURES[cooled], len(pairs), split, members)
        if readable and aligning is not None:
            found = on_valid if split == "valid" else readings(model, part, vocabulary)
            scores += alignment_scores(found, part, split, aligning)
    scores += attends(model, data, valid, vocabulary)
    scores += _contrasts(model, corpus.contrasts, vocabulary)
    shown = attention_map(model, tests[corpus.tests[0]], vocabulary, aligning.layer[0] if aligning else None)
    return Evaluation(scores, hypotheses, nll, shown, speed)


def _contrasts(model: Translator, contrasts: Sequence[Contrast], vocabulary: Vocabulary) -> list[RecordedScore]:
    """Share of minimal pairs in which both halves give the right translation the higher probability (chance 25%).

    The score has no value if the model cannot read every half.
    """
    if not contrasts:
        return []
    pairs = ([Pair(c.source, c.right) for c in contrasts], [Pair(c.source, c.wrong) for c in contrasts])
    sides = [examples(side, vocabulary) for side in pairs]
    readable = all(decode.fits(model, example) for side in sides for example in side)
    nll = [decode.forced_nll(model, side) for side in sides]
    right: dict[int, bool] = {}
    for contrast, good in zip(contrasts, (nll[0] < nll[1]).tolist(), strict=True):
        right[contrast.pair] = right.get(contrast.pair, True) and good
    value = 100 * sum(right.values()) / len(right)
    return [RecordedScore(split="pronoun", metric="contrast", value=value if readable else None, n=len(right))]
