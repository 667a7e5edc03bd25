"""Questions to a model whose heads can be masked: curves, each head alone, the best head of a layer."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from scipy.stats import false_discovery_control, ttest_rel
from torch import Tensor

from study.models import Translator
from study.pruning.order import SEARCHED, gone, loss
from study.pruning.surgery import Head, masked
from study.scores import scoring
from study.scores.score import RecordedScore
from study.training import decode
from study.training.batches import Examples
from study.training.run import Run

TENTHS = tuple(range(11))
"""Steps of a curve: tenths of the heads that are gone."""
MARGIN = 0.5
"""BLEU that a free head may cost."""
LEVEL = 0.05
"""False discovery rate, over the heads of one model."""

Values = dict[tuple[str, str], float]
"""(split, metric) ↦ value."""


class EvaluationSetup(NamedTuple):
    """A run and the test split on which its model is evaluated. The test set decides nothing."""

    run: Run
    split: str
    """The name of the test split."""
    test: Examples


class Answer(NamedTuple):
    """Scores of parts of the model (`subset` says which) and of the whole question, and details for the record."""

    scores: list[RecordedScore]
    details: dict[str, Any]


def scores_without(setup: EvaluationSetup, without: Iterable[Head]) -> Values:
    """NLL on validation and test, BLEU and exact match on test, with these heads masked."""
    model, data, decoding = setup.run.model, setup.run.data, setup.run.experiment.decoding
    references = [example.pair.target for example in setup.test]
    with masked(model, without):
        texts = decode.translate(model, setup.test, data.vocabulary, decoding.beam, decoding.length_penalty)
        return {
            ("valid", "nll"): _nll(model, data.valid).mean().item(),
            (setup.split, "nll"): _nll(model, setup.test).mean().item(),
            (setup.split, "bleu"): scoring.bleu(texts, references).value,
            (setup.split, "exact"): scoring.exact_match(texts, references).value,
        }


def _nll(model: Translator, data: Examples) -> Tensor:
    """Scores of each sentence that the model can read."""
    nll = decode.forced_nll(model, data).double()
    return nll[~nll.isnan()]


def curve(setup: EvaluationSetup, orders: Sequence[Sequence[Head]]) -> Answer:
    """Scores without the first tenth, two tenths … of an order, the mean over orders where there are several.

    free: the largest share of heads, in steps of a tenth, up to which every step keeps BLEU above the whole model's
    − `MARGIN`. area: the mean BLEU over the eleven steps. cliff: the largest loss of BLEU from one step to the next.
    """
    steps = [[frozenset(gone(order, tenth / 10)) for tenth in TENTHS] for order in orders]
    known = dict.fromkeys((without for line in steps for without in line), Values())
    for without in known:
        known[without] = scores_without(setup, without)
    lines = [[known[without] for without in line] for line in steps]
    bleu = [[values[setup.split, "bleu"] for values in line] for line in lines]
    for line in bleu:
        setup.run.watch("BLEU without 0 … 10 tenths  " + "  ".join(f"{value:.1f}" for value in line))
    scores = []
    for tenth in TENTHS:
        for split, metric in lines[0][tenth]:
            value = _mean([line[tenth][split, metric] for line in lines])
            scores.append(_score(setup, split, metric, value, f"kept {(10 - tenth) / 10:.1f}"))
    shapes = [shape(line) for line in bleu]
    for name in shapes[0]:
        value = _mean([one[name] for one in shapes])
        scores.append(_score(setup, setup.split, name, value, None, f"bleu|margin:{MARGIN}"))
    return Answer(scores, {"draws": {"bleu": bleu}} if len(lines) > 1 else {})


def shape(bleu: Sequence[float]) -> dict[str, float]:
    """Return the scores that are read off one curve."""
    free = 0
    while free + 1 < len(bleu) and bleu[free + 1] > bleu[0] - MARGIN:
        free += 1
    drops = [before - after for before, after in pairwise(bleu)]
    return {"free": 10.0 * free, "area": _mean(bleu), "cliff": max(drops)}


def each_head(setup: EvaluationSetup, among: Sequence[Head]) -> Answer:
    """Scores on test with each head masked alone, and a test of the change of NLL.

    needed, harmful: 100 · the share of heads without which NLL is higher, or lower, by a paired t-test over sentences
    at a false discovery rate of `LEVEL` over the heads of this model (Benjamini and Hochberg 1995).
    """
    model = setup.run.model
    whole = _nll(model, setup.test)
    scores, changes, doubts = [], [], []
    for head in among:
        values = scores_without(setup, [head])
        with masked(model, [head]):
            change = _nll(model, setup.test) - whole
        changes.append(change.mean().item())
        tested = change.any() and len(change) > 1
        doubts.append(float(ttest_rel(change.numpy(), torch.zeros_like(change).numpy()).pvalue) if tested else 1.0)
        scores += [_score(setup, split, name, value, f"without {head}") for (split, name), value in values.items()]
        setup.run.watch(f"without {head}  BLEU {values[setup.split, 'bleu']:.2f}  NLL {changes[-1]:+.4f}")
    sure = false_discovery_control(doubts) < LEVEL
    for name, sign in (("needed", 1), ("harmful", -1)):
        share = _mean([100.0 if yes and sign * change > 0 else 0.0 for yes, change in zip(sure, changes, strict=True)])
        scores.append(_score(setup, setup.split, name, share, None, f"nll|t paired|fdr:{LEVEL}", len(among)))
    return Answer(scores, {"p": dict(zip(map(str, among), doubts, strict=True))})


def best_head(setup: EvaluationSetup, among: Sequence[Head]) -> Answer:
    """Each layer with one head alone, the others of it masked: the one with the lowest loss on validation, on test."""
    scores, chosen = [], {}
    layers = list(dict.fromkeys((head.site, head.layer) for head in among))
    for layer in layers:
        heads = [head for head in among if head[:2] == layer]
        losses = {}
        for head in heads:
            with masked(setup.run.model, [other for other in heads if other != head]):
                losses[head] = loss(setup.run.model, setup.run.data.valid[:SEARCHED])
        best = min(heads, key=lambda head: losses[head])
        values = scores_without(setup, [other for other in heads if other != best])
        name = f"{best.site} {best.layer}"
        chosen[name] = best.head
        scores += [_score(setup, split, metric, value, f"one of {name}") for (split, metric), value in values.items()]
        setup.run.watch(f"{name} with head {best.head} alone  BLEU {values[setup.split, 'bleu']:.2f}")
    return Answer(scores, {"best": chosen})


def _score(
    setup: EvaluationSetup,
    split: str,
    metric: str,
    value: float,
    subset: str | None,
    signature: str | None = None,
    n: int | None = None,
) -> RecordedScore:
    sentences = len(setup.run.data.valid if split == "valid" else setup.test)
    if metric in scoring.TEXT_SCORES:  # a scorer has one signature, whatever it scores
        signature = scoring.TEXT_SCORES[metric](["a"], ["a"]).signature
    return RecordedScore(split=split, metric=metric, value=value, n=n or sentences, subset=subset, signature=signature)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
