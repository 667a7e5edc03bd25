"""Table of scores: title, unit, decimals, direction, bounds, meaning, and the corpora and splits that have each.

Sweep files, claims, tables, figures and results/README.md use it. A metric is
named `split/score` (`test/exact`), or `split/score/subset` for a part of a split or of a model's heads
(`test/bleu/length 4-7`, `test/nll/without pronouns`, `test/bleu/kept 0.5`). Claims also name diagnostics by their place
in the record, the mean over layers and heads (`diagnostics/cross/information`); `diagnostics/pruning/left/<site>`
follows from a pruning's order.
"""

import difflib
import math
import re
from dataclasses import dataclass
from functools import partial
from typing import Literal

from study.corpora import Section
from study.errors import InputError

Goal = Literal["maximize", "minimize"]
Need = Literal["alignment", "attends", "contrasts", "heads"]
Kind = Literal["length", "corpus", "heads"]
"""Kinds of subsets: source lengths, subsets that a corpus names, shares of heads."""


@dataclass(frozen=True)
class Metric:
    """Facts about one score.

    Attributes:
        title: name in tables and figures, without the unit.
        meaning: definition in one line, without range and direction.
        goal: direction that is better; None for a number that is neither.
        bounds: smallest and largest possible value.
        unit: unit of the title: % or nothing.
        decimals: decimals in print.
        needs: what the corpus must offer. alignment: gold word alignments; attends: gold of encoder self-attention;
            contrasts: minimal pairs; heads: nothing of the corpus, but the run is a pruning, scored on the first test.
        parts: kinds of subsets that have it.
    """

    title: str
    meaning: str
    goal: Goal | None = "maximize"
    bounds: tuple[float, float] = (0.0, 100.0)
    unit: Literal["", "%"] = ""
    decimals: int = 1
    needs: Need | None = None
    parts: tuple[Kind, ...] = ()

    @property
    def direction(self) -> int:
        """+1 if higher is better, −1 if lower is better, 0 if neither."""
        return {"maximize": 1, "minimize": -1, None: 0}[self.goal]

    @property
    def limits(self) -> tuple[float, float] | None:
        """Floor and ceiling; None where one of them is infinite."""
        return self.bounds if math.isfinite(self.bounds[1]) else None

    @property
    def full_title(self) -> str:
        """Title and unit: `exact match, %`, `NLL per sentence, nats`, `alignment error rate, 0–1`."""
        unit = "nats" if self.meaning.startswith("nats") else "0–1" if self.bounds == (0.0, 1.0) else self.unit
        return f"{self.title}, {unit}" if unit else self.title


_share = partial(Metric, unit="%")
_error = partial(Metric, goal="minimize", bounds=(0.0, 1.0), decimals=3, needs="alignment")
_surprise = partial(Metric, goal="minimize", bounds=(0.0, math.inf), decimals=3)
_heads = partial(Metric, needs="heads")
_PARTS: tuple[Kind, ...] = ("length", "corpus", "heads")
METRICS: dict[str, Metric] = {
    "bleu": Metric("BLEU", "sacreBLEU, cased, 13a, one reference, exponential smoothing.", parts=_PARTS),
    "chrf": Metric("chrF", "sacreBLEU, character n-grams up to 6."),
    "exact": _share("exact match", "share of translations that equal the reference.", parts=_PARTS),
    "prefix": _share("prefix accuracy", "share of words before the first error, the mean over sentences."),
    "aer": _error("alignment error rate", "cross-attention as an alignment, against the gold links."),
    "aer_best_head": _error("alignment error rate, best head", "the same of one head, chosen on validation."),
    "aer_floor": _error("alignment error rate, its floor", "of a perfect argmax with one link a target word."),
    "gold_mass": _error("attention mass on gold", "the mean over target words.", goal="maximize"),
    "nll": _surprise("NLL per sentence", "nats of the reference, forced decoding.", parts=_PARTS[1:]),
    "nll_per_token_by_length": _surprise(
        "NLL per token, by source word",
        "nats per token and word: slope of a sentence's NLL per target token over its source length, by least squares.",
        bounds=(-math.inf, math.inf),
        decimals=4,
        parts=("corpus",),
    ),
    "nll_calibrated": _surprise(
        "NLL per sentence, calibrated", "nats, at a temperature fitted on validation.", parts=("corpus",)
    ),
    "perplexity": _surprise("perplexity", "exp of the nats per target token.", bounds=(1.0, math.inf), decimals=2),
    "contrast": _share("pronoun pairs right", "both right translations more probable; chance 25.", needs="contrasts"),
    "accuracy": _share("word accuracy", "share of reference words that the translation has at the same place."),
    "attends_argmax": _share("encoder argmax on gold", "encoder self-attention, heads averaged.", needs="attends"),
    "free": _heads("heads free", "largest share, in tenths, before a step costs more than 0.5 BLEU.", unit="%"),
    "area": _heads("mean BLEU of the curve", "mean BLEU over the eleven steps of a pruning's curve."),
    "cliff": _heads("largest loss of BLEU in one step", "from one step of the curve to the next.", "minimize"),
    "needed": _heads("heads needed", "NLL rises without the head (paired t-test, FDR .05).", "minimize", unit="%"),
    "harmful": _heads("heads harmful", "NLL falls without the head, tested alike.", "minimize", unit="%"),
}

LENGTHS = ((4, 7), (8, 10), (11, 13), (14, 16), (17, 20), (21, 26), (27, 32), (33, 60))
"""Buckets of source length in words without punctuation, both ends included; the same for every corpus and run."""
BUCKETS = tuple(f"length {low}-{high}" for low, high in LENGTHS)
"""Names of these subsets."""
KEPT = tuple(f"kept {tenth / 10:.1f}" for tenth in range(11))
"""Subsets of a model's heads, by their share: points of a pruning's curve."""
SITES = ("encoder_self", "decoder_self", "cross", "joint")
WITHOUT = re.compile(rf"without ({'|'.join(SITES)}) \d+ \d+")
"""Subset of a model's heads: the model without one, counted from 0."""
PARTS = re.compile(rf"one of ({'|'.join(SITES)}) \d+|{WITHOUT.pattern}")
"""Subsets of a model's heads: a layer with one head alone, or the model without one, counted from 0."""

DIAGNOSTICS = "diagnostics/"
LEFT = f"{DIAGNOSTICS}pruning/left/"
"""Beginning of the metric, before the site."""
DIAGNOSED = {
    "cross/information": "query information, nats",
    "cross/last_two_mass": "weight on the last two source tokens, 0–1",
    "cross/end_mass": "weight on end-of-sentence, 0–1",
    "joint/source_mass": "weight on the source, 0–1",
    "gradients/start/far_near_way": "gradient, far ÷ near",
    "gradients/middle/far_near_way": "gradient, far ÷ near",
    "gradients/start/by_way": "gradient at gold ÷ its mean over the source",
    "gradients/middle/by_way": "gradient at gold ÷ its mean over the source",
} | {f"pruning/left/{site}": "heads left, 0–1" for site in SITES}
"""Names and units of the diagnostics that claims use; others are named by their path in the record."""

EDGE = 0.01
"""Within this share of a score's range from its floor or ceiling, a score is saturated."""


def with_parts(kind: Kind) -> tuple[str, ...]:
    """Return the scores that have subsets of a kind."""
    return tuple(name for name, metric in METRICS.items() if kind in metric.parts)


def metric_of(name: str) -> Metric:
    """Return the facts about a metric's score; for an unknown score, its name as title and one decimal."""
    if is_diagnostic(name):
        place = name.removeprefix(DIAGNOSTICS)
        words = DIAGNOSED.get(place, place.replace("/", " ").replace("_", " "))
        return Metric(words, "", None, (-math.inf, math.inf), decimals=3)
    score = name.split("/")[1]
    return METRICS.get(score) or Metric(score, "", bounds=(-math.inf, math.inf))


def is_diagnostic(name: str) -> bool:
    """Return True if a metric is read from a record's diagnostics."""
    return name.startswith(DIAGNOSTICS)


def unit_of(name: str) -> str:
    """Return the score whose margin a metric has, without its split: BLEU for what a curve sums up.

    Lengths and parts of the heads have the margin of the whole. A subset that a corpus names has one of its own.
    """
    if is_diagnostic(name):
        return name.partition("/")[2]
    _, score, *subset = name.split("/", 2)
    part = subset if subset and not (subset[0] in (*BUCKETS, *KEPT) or PARTS.fullmatch(subset[0])) else []
    return "/".join(["bleu" if score in ("area", "cliff") else score, *part])


def end(mean: float, limits: tuple[float, float]) -> int:
    """Return 1 for a mean within 1% of the range from its ceiling, or past it, −1 at its floor, and 0 between."""
    floor, ceiling = limits
    slack = EDGE * (ceiling - floor)
    return 1 if mean >= ceiling - slack else -1 if mean <= floor + slack else 0


def title(name: str, unit: bool = True) -> str:
    """`test/exact` ↦ `exact match, %`; `test/exact/kept 0.5` ↦ `exact match (kept 0.5), %`."""
    metric, subset = metric_of(name), [] if is_diagnostic(name) else name.split("/", 2)[2:]
    words = " ".join([metric.title, *(f"({part})" for part in subset)])
    return f"{words}, {metric.unit}" if unit and metric.unit else words


def decimals(name: str) -> int:
    """Decimals with which a metric is printed."""
    return metric_of(name).decimals


def names(corpus: Section) -> list[str]:
    """Return every `split/score` of a run on a corpus."""
    metrics = []
    for split in corpus.scored:
        offered = {None, *corpus.offers(split), *(["heads"] if split == corpus.scored[1] else [])}
        metrics += [f"{split}/{name}" for name, metric in METRICS.items() if metric.needs in offered]
    return metrics


def check(name: str, goal: str | None, corpus: Section, pruned: bool) -> None:
    """Refuse the metric `name` (`split/score` or `split/score/subset`) of a sweep if it does not fit its corpus.

    Raises:
        InputError: runs on the corpus lack it, the goal given is the other one, or heads are counted that runs without
            a pruning (not `pruned`) do not lose.
    """
    _check(name, corpus, "metric.name: ")
    score, *subset = name.split("/", 2)[1:]
    of_heads = subset and (subset[0] in KEPT or PARTS.fullmatch(subset[0]))
    if not pruned and (of_heads or METRICS[score].needs == "heads"):
        raise InputError(f"metric.name: expected a score of trained models, got {name}, which prunings have alone.")
    if goal not in (None, better := METRICS[score].goal):
        raise InputError(f"metric.goal: expected {better} for {score}, got {goal}. Correct the goal or leave it out.")


def check_claimed(name: str, corpus: Section) -> None:
    """Refuse the name of a metric or diagnostic that no run on a corpus has, as a claim gives it.

    Raises:
        InputError: says what was expected.
    """
    if not is_diagnostic(name):
        _check(name, corpus, "")


def _check(name: str, corpus: Section, field: str) -> None:
    """Refuse a score that no run on a corpus has."""
    split, score, subset = [*name.split("/", 2), "", ""][:3]
    offered = names(corpus)
    if f"{split}/{score}" not in offered:
        near = difflib.get_close_matches(name, offered, n=1, cutoff=0.75)
        hint = f" Did you mean {near[0]}?" if near else ""
        splits, scores = (", ".join(dict.fromkeys(metric.split("/")[part] for metric in offered)) for part in (0, 1))
        raise InputError(f"{field}{corpus.name} has no {name}.{hint} Splits: {splits}. Scores: {scores}.")
    kinds = {"length": BUCKETS, "corpus": tuple(corpus.subsets(split)), "heads": KEPT}
    subsets_of = [metric for kind in METRICS[score].parts for metric in kinds[kind]]
    of_heads = PARTS.fullmatch(subset) and "heads" in METRICS[score].parts
    if subset and subset not in subsets_of and not of_heads:
        subsets = f"the subsets {', '.join(subsets_of)}" if subsets_of else "no subsets"
        raise InputError(f"{field}{corpus.name} has no {name}. {split}/{score} has {subsets}.")
