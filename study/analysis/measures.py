"""One run ↦ one number: a score, its slope over source length, or a diagnostic.

Metrics are named as in a sweep: `split/score` (test/exact, valid/nll), `split/score/subset` for a part of the split or
of the model's heads (test/bleu/kept 0.5), or `diagnostics/…` by their place in the record, the mean over layers and
heads (diagnostics/cross/information, diagnostics/gradients/middle/far_near_way). diagnostics/pruning/left/<site> is
computed from the order of a pruning (`prunings.left`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from study import metrics
from study.analysis import prunings, wording
from study.errors import InputError
from study.metrics import BUCKETS, KEPT, with_parts
from study.records import Record

DIAGNOSTICS = "diagnostics/"
DIAGNOSED = {
    "cross/information": "query information, nats",
    "cross/last_two_mass": "weight on the last two source tokens, 0–1",
    "gradients/start/far_near_way": "gradient, far ÷ near",
    "gradients/middle/far_near_way": "gradient, far ÷ near",
    "gradients/start/by_way": "gradient at gold ÷ its mean over the source",
    "gradients/middle/by_way": "gradient at gold ÷ its mean over the source",
}
"""Names and units of the diagnostics that claims use; others are named by their path in the record."""

EDGE = 0.01
"""Within this share of a score's range from its floor or ceiling, a score is saturated."""

LENGTH = re.compile(r"length (\d+)-(\d+)")
PARTS = re.compile(rf"one of ({'|'.join(prunings.SITES)}) \d+|without ({'|'.join(prunings.SITES)}) \d+ \d+")
"""Subsets of a model's heads: a layer with one head alone, or the model without one, counted from 0."""


@dataclass(frozen=True)
class Measure:
    """Quantity that is read from a run's record."""

    metric: str
    by_length: bool = False
    by_sentences: bool = False
    """True: length groups are weighted by their number of sentences. False: all groups have the same weight."""
    costing: float | None = None
    """Instead of the metric: the share of heads, in %, that cost more than this when they are removed alone."""

    @property
    def title(self) -> str:
        """`exact match, %`; `query information, nats`; `exact match, % per source word`."""
        if self.costing is not None:
            return (
                f"heads that cost more than {wording.number(self.costing, self.decimals)} {metrics.title(self.metric)}"
            )
        if self.metric.startswith(prunings.LEFT):
            return "heads left, 0–1"
        if is_diagnostic(self.metric):
            place = self.metric.removeprefix(DIAGNOSTICS)
            return DIAGNOSED.get(place, place.replace("/", " ").replace("_", " "))
        return metrics.title(self.metric) + (" per source word" if self.by_length else "")

    @property
    def decimals(self) -> int:
        """Number of decimals in print."""
        if self.by_length or is_diagnostic(self.metric):
            return 3
        return metrics.decimals(self.metric)


def is_diagnostic(metric: str) -> bool:
    """Return True if a metric is read from a record's diagnostics."""
    return metric.startswith(DIAGNOSTICS)


def check(metric: str, splits: Collection[str]) -> None:
    """Refuse the name of a metric that no run has.

    Raises:
        InputError: says what was expected.
    """
    if is_diagnostic(metric) and metric.count("/") >= 2:
        if metric.startswith(prunings.LEFT) and metric.removeprefix(prunings.LEFT) not in prunings.SITES:
            raise InputError(f"{metric}: there is no such site; the sites are {', '.join(prunings.SITES)}")
        return
    split, score, subset = [*metric.split("/", 2), "", ""][:3]
    if split not in splits or score not in metrics.directed():
        raise InputError(
            f"there is no metric {metric!r}; write split/score such as test/exact (splits: {', '.join(splits)}; "
            f"scores: {', '.join(metrics.directed())}), or diagnostics/site/name such as diagnostics/cross/information"
        )
    if subset and not _has(score, subset):
        raise InputError(
            f"{metric}: there is no part {subset!r} of {score}; {' and '.join(with_parts('length'))} have parts such "
            f"as {BUCKETS[0]!r}, and {', '.join(with_parts('heads'))} 'kept 0.5', 'one of cross 0' and "
            "'without cross 0 0'"
        )


def _has(score: str, subset: str) -> bool:
    """Return True if a run can have this part of a score."""
    by_heads = subset in KEPT or PARTS.fullmatch(subset)
    return bool(by_heads and score in with_parts("heads")) or (subset in BUCKETS and score in with_parts("length"))


def in_units_of(metric: str) -> str:
    """The score of a whole split whose unit a metric has: BLEU for a part of BLEU, and for what a curve sums up."""
    if is_diagnostic(metric):
        return metric
    split, score = metric.split("/")[:2]
    return f"{split}/{'bleu' if score in ('area', 'cliff') else score}"


def better(metric: str) -> int:
    """+1 where more is better, −1 where less is, 0 for a diagnostic, which is neither."""
    if is_diagnostic(metric):
        return 0
    return metrics.metric_of(metric).direction


def bounds(metric: str) -> tuple[float, float] | None:
    """Floor and ceiling of a score; None where it has none."""
    return None if is_diagnostic(metric) else metrics.metric_of(metric).limits


def end(mean: float, limits: tuple[float, float]) -> int:
    """Return 1 for a mean within 1% of the range from its ceiling, or past it, −1 at its floor, and 0 between."""
    floor, ceiling = limits
    slack = EDGE * (ceiling - floor)
    return 1 if mean >= ceiling - slack else -1 if mean <= floor + slack else 0


def value(record: Record, measure: Measure) -> float | None:
    """The number; None where the record says null: it means nothing in this run.

    Raises:
        InputError: the record has no such score or diagnostic.
    """
    if is_diagnostic(measure.metric):
        return _diagnostic(record, measure.metric)
    split, score, *part = measure.metric.split("/", 2)
    subset = part[0] if part else None
    if measure.costing is not None:
        found = _costing(record, split, score, measure.costing)
    elif measure.by_length:
        found = _slope(record, split, score, measure.by_sentences)
    else:
        found = record.score(split, score, subset)
        if found is None and any((s.split, s.metric, s.subset) == (split, score, subset) for s in record.scores):
            return None
    if found is None:
        there = sorted({f"{s.split}/{s.metric}" for s in record.scores})
        by = " by source length" if measure.by_length else " without each head" if measure.costing is not None else ""
        raise InputError(f"scores: no {measure.metric}{by}; the record has {', '.join(there) or 'none at all'}")
    return found


def _costing(record: Record, split: str, score: str, threshold: float) -> float | None:
    """100 · share of heads h with (score of the whole model) − (score without h) > threshold; None without any head."""
    whole, parts = record.score(split, score), []
    for one in record.scores:
        if (one.split, one.metric) == (split, score) and (one.subset or "").startswith("without "):
            parts.append(one.value)
    if whole is None or not parts or None in parts:
        return None
    return 100 * sum(whole - part > threshold for part in parts if part is not None) / len(parts)


def _slope(record: Record, split: str, score: str, by_sentences: bool) -> float | None:
    """Least squares over the buckets of source length, each at its middle; None with fewer than two.

    The slope is Σ w (x − x̄) y / Σ w (x − x̄)², where x̄ is the mean of x under the weights w: 1, or the number of
    sentences of a bucket.
    """
    points = []
    for one in record.scores:
        bucket = LENGTH.fullmatch(one.subset or "")
        if bucket and (one.split, one.metric) == (split, score) and one.value is not None:
            weight = one.n if by_sentences else 1
            points.append(((int(bucket[1]) + int(bucket[2])) / 2, one.value, weight))
    if len(points) < 2:
        return None
    middle = sum(w * x for x, _, w in points) / sum(w for *_, w in points)
    return sum(w * (x - middle) * y for x, y, w in points) / sum(w * (x - middle) ** 2 for x, _, w in points)


def _diagnostic(record: Record, metric: str) -> float | None:
    if metric.startswith(prunings.LEFT) and "pruning" in record.diagnostics:
        return prunings.left(record, metric.removeprefix(prunings.LEFT))
    path = metric.removeprefix(DIAGNOSTICS).split("/")
    found = list(_leaves(record.diagnostics, path))
    known = [float(leaf) for leaf in found if isinstance(leaf, int | float)]
    if not found:
        there = ", ".join(record.diagnostics) or "none"
        raise InputError(f"diagnostics: {'.'.join(path)} is not there; the record has {there}")
    return sum(known) / len(known) if known else None


def _leaves(tree: Any, path: list[str]) -> Iterator[Any]:
    """Yield the values at the path, of every layer and head on the way."""
    if isinstance(tree, list):
        for item in tree:
            yield from _leaves(item, path)
    elif not path:
        yield tree
    elif isinstance(tree, dict) and path[0] in tree:
        yield from _leaves(tree[path[0]], path[1:])
