"""Questions to a model whose heads can be masked: curves, each head alone, the best head of a layer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from scipy.stats import false_discovery_control, ttest_rel
from torch import Tensor

from study import files, scoring
from study.config.experiment import Decoding
from study.errors import InputError
from study.models import Translator
from study.pruning.order import SEARCHED, gone, loss
from study.pruning.surgery import Head, heads_of, masked
from study.records import Call, Score
from study.training import decode
from study.training.batches import Example
from study.training.vocabulary import Vocabulary

TENTHS = tuple(range(11))
"""Steps of a curve: tenths of the heads that are gone."""
MARGIN = 0.5
"""BLEU that a free head may cost."""
LEVEL = 0.05
"""False discovery rate, over the heads of one model."""

Subset = str
Values = dict[tuple[str, str], float]
"""(split, metric) ↦ value."""


class EvaluationSetup(NamedTuple):
    """Model, data and settings of an evaluation. The test set decides nothing."""

    model: Translator
    vocabulary: Vocabulary
    valid: Sequence[Example]
    test: Sequence[Example]
    split: str
    """The name of the test split."""
    decoding: Decoding
    parts: Parts


class Parts:
    """Results of the parts of a question, also in a file: a pruning that was stopped continues after the last of them.

    Args:
        path: the file, one line of JSON for each part.
        of: the model that they are measured on. A line of another model is dropped.
        told: called with the number of parts done and of all.
    """

    def __init__(self, path: Path, of: str, told: Callable[[int, int], None]) -> None:
        self.path, self.of, self.told = path, of, told
        self.known: dict[str, Any] = {}
        self.calls: list[Call] = []
        self.done = self.all = 0
        with suppress(FileNotFoundError):
            for line in files.read(path, below=path.parent).decode("utf-8", "replace").splitlines():
                self._read(line)

    def _read(self, line: str) -> None:
        """A line that was torn by the end of the machine is left out."""
        with suppress(ValueError, KeyError, TypeError, InputError):
            tree = files.parse_json(line, str(self.path))
            if tree["of"] == self.of:
                if "call" in tree:
                    self.calls.append(Call.model_validate(tree["call"]))
                else:
                    self.known[tree["part"]] = tree["result"]

    def begin(self, calls: Sequence[Call]) -> None:
        """Keep the calls that make the parts."""
        for call in calls[len(self.calls) :]:
            self._write({"call": call.model_dump()})

    def expect(self, count: int) -> None:
        """Say of how many parts the question consists."""
        self.done, self.all = 0, count
        self.told(0, count)

    def get(self, part: str, measure: Callable[[], Any]) -> Any:
        """Return the result of a part, made of lists, dictionaries, text and numbers; measure it if it is not known."""
        if part not in self.known:
            result = json.loads(json.dumps(measure()))
            self._write({"part": part, "result": result})
            self.known[part] = result
        self.done += 1
        self.told(self.done, max(self.all, self.done))
        return self.known[part]

    def _write(self, tree: dict[str, Any]) -> None:
        files.append(self.path, json.dumps({"of": self.of, **tree}) + "\n")


class Answer(NamedTuple):
    """Scores of parts of the model (`subset` says which) and of the whole question, and details for the record."""

    scores: list[Score]
    details: dict[str, Any]


def scores_without(setup: EvaluationSetup, without: Iterable[Head]) -> Values:
    """NLL on validation and test, BLEU and exact match on test, with these heads masked."""
    heads = sorted(set(without))
    found = setup.parts.get(f"without {', '.join(map(str, heads))}", lambda: _measure(setup, heads))
    return {(split, metric): value for split, metric, value in found}


def _measure(setup: EvaluationSetup, without: Sequence[Head]) -> list[tuple[str, str, float]]:
    with masked(setup.model, without):
        texts = decode.translate(
            setup.model, setup.test, setup.vocabulary, setup.decoding.beam, setup.decoding.length_penalty
        )
        references = [example.pair.target for example in setup.test]
        return [
            ("valid", "nll", _nll(setup.model, setup.valid).mean().item()),
            (setup.split, "nll", _nll(setup.model, setup.test).mean().item()),
            (setup.split, "bleu", scoring.bleu(texts, references).value),
            (setup.split, "exact", scoring.exact_match(texts, references).value),
        ]


def _nll(model: Translator, data: Sequence[Example]) -> Tensor:
    """Scores of each sentence that the model can read."""
    nll = decode.forced_nll(model, data).double()
    return nll[~nll.isnan()]


def curve(setup: EvaluationSetup, orders: Sequence[Sequence[Head]], watch: Callable[[str], None]) -> Answer:
    """Scores without the first tenth, two tenths … of an order, the mean over orders where there are several.

    free: the largest share of heads, in steps of a tenth, up to which every step keeps BLEU above the whole model's
    − `MARGIN`. area: the mean BLEU over the eleven steps. cliff: the largest loss of BLEU from one step to the next.
    """
    known: dict[frozenset[Head], Values] = {}
    lines: list[list[Values]] = []
    setup.parts.expect(len({frozenset(gone(order, tenth / 10)) for order in orders for tenth in TENTHS}))
    for order in orders:
        lines.append([])
        for tenth in TENTHS:
            without = frozenset(gone(order, tenth / 10))
            if without not in known:
                known[without] = scores_without(setup, without)
            lines[-1].append(known[without])
        watch("BLEU without 0 … 10 tenths  " + "  ".join(f"{one[setup.split, 'bleu']:.1f}" for one in lines[-1]))
    scores = []
    for tenth in TENTHS:
        for split, metric in lines[0][tenth]:
            value = _mean([line[tenth][split, metric] for line in lines])
            scores.append(_score(setup, split, metric, value, f"kept {(10 - tenth) / 10:.1f}"))
    shapes = [shape([one[setup.split, "bleu"] for one in line]) for line in lines]
    for name in shapes[0]:
        scores.append(
            _score(setup, setup.split, name, _mean([one[name] for one in shapes]), None, f"bleu|margin:{MARGIN}")
        )
    draws = {"draws": {"bleu": [[one[setup.split, "bleu"] for one in line] for line in lines]}}
    return Answer(scores, draws if len(lines) > 1 else {})


def shape(bleu: Sequence[float]) -> dict[str, float]:
    """Return the scores that are read off one curve."""
    free = 0
    while free + 1 < len(bleu) and bleu[free + 1] > bleu[0] - MARGIN:
        free += 1
    drops = [before - after for before, after in pairwise(bleu)]
    return {"free": 10.0 * free, "area": _mean(bleu), "cliff": max(drops)}


def each_head(setup: EvaluationSetup, site: str, watch: Callable[[str], None]) -> Answer:
    """Scores on test with each head masked alone, and a test of the change of NLL.

    needed, harmful: 100 · the share of heads without which NLL is higher, or lower, by a paired t-test over sentences
    at a false discovery rate of `LEVEL` over the heads of this model (Benjamini and Hochberg 1995).
    """
    among = heads_of(setup.model, site)
    whole = _nll(setup.model, setup.test)
    scores, changes, doubts = [], [], []
    setup.parts.expect(2 * len(among))
    for head in among:
        values = scores_without(setup, [head])
        change, doubt = setup.parts.get(f"change without {head}", partial(_change, setup, head, whole))
        changes.append(change)
        doubts.append(doubt)
        scores += [_score(setup, split, name, value, f"without {head}") for (split, name), value in values.items()]
        watch(f"without {head}  BLEU {values[setup.split, 'bleu']:.2f}  NLL {changes[-1]:+.4f}")
    sure = false_discovery_control(doubts) < LEVEL
    for name, sign in (("needed", 1), ("harmful", -1)):
        share = _mean([100.0 * bool(yes and sign * change > 0) for yes, change in zip(sure, changes, strict=True)])
        scores.append(_score(setup, setup.split, name, share, None, f"nll|t paired|fdr:{LEVEL}", len(among)))
    return Answer(scores, {"p": _named(dict(zip(among, doubts, strict=True)))})


def _change(setup: EvaluationSetup, head: Head, whole: Tensor) -> tuple[float, float]:
    """Return the mean NLL of test sentences that the absence of a head adds, and the p of a paired t-test."""
    with masked(setup.model, [head]):
        change = _nll(setup.model, setup.test) - whole
    p = float(ttest_rel(change.numpy(), torch.zeros_like(change).numpy()).pvalue) if change.any() else 1
    return change.mean().item(), p


def best_head(setup: EvaluationSetup, site: str, watch: Callable[[str], None]) -> Answer:
    """Each layer with one head alone, the others of it masked: the one with the lowest loss on validation, on test."""
    scores, chosen = [], {}
    layers: dict[tuple[str, int], list[Head]] = {}
    for head in heads_of(setup.model, site):
        layers.setdefault((head.site, head.layer), []).append(head)
    setup.parts.expect(len(layers))
    for (name, layer), heads in layers.items():
        losses = {}
        for head in heads:
            with masked(setup.model, [other for other in heads if other != head]):
                losses[head] = loss(setup.model, setup.valid[:SEARCHED])
        best = min(heads, key=lambda head: losses[head])
        values = scores_without(setup, [other for other in heads if other != best])
        chosen[f"{name} {layer}"] = best.head
        scores += [_score(setup, split, m, value, f"one of {name} {layer}") for (split, m), value in values.items()]
        watch(f"{name} {layer} with head {best.head} alone  BLEU {values[setup.split, 'bleu']:.2f}")
    return Answer(scores, {"best": chosen})


def _score(
    setup: EvaluationSetup,
    split: str,
    metric: str,
    value: float,
    subset: Subset | None,
    signature: str | None = None,
    n: int | None = None,
) -> Score:
    sentences = len(setup.valid if split == "valid" else setup.test)
    if metric in scoring.METRICS:  # a scorer has one signature, whatever it scores
        signature = scoring.METRICS[metric](["a"], ["a"]).signature
    return Score(split=split, metric=metric, value=value, n=n or sentences, subset=subset, signature=signature)


def _named(values: Mapping[Head, float]) -> dict[str, float]:
    return {str(head): value for head, value in values.items()}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
