"""Numbers of one record: a score, its slope over source length, a diagnostic, or a fact from a pruning.

`study.metrics` says how metrics are named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from study import metrics
from study.analysis import labels
from study.errors import InputError
from study.records import Record

LENGTH = re.compile(r"length (\d+)-(\d+)")


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
        name = metrics.title(self.metric)
        if self.costing is not None:
            return f"heads that cost more than {labels.number(self.costing, self.decimals)} {name}"
        return f"{name} per source word" if self.by_length else name

    @property
    def decimals(self) -> int:
        """Number of decimals in print."""
        return 3 if self.by_length else metrics.decimals(self.metric)

    def of(self, record: Record) -> float | None:
        """Return the number; None where the record says null: it means nothing in this run.

        Raises:
            InputError: the record has no such score or diagnostic.
        """
        if metrics.is_diagnostic(self.metric):
            return _diagnostic(record, self.metric)
        split, score, *part = self.metric.split("/", 2)
        subset = part[0] if part else None
        if self.costing is not None:
            found = _costing(record, split, score, self.costing)
        elif self.by_length:
            found = _slope(record, split, score, self.by_sentences)
        else:
            found = record.score(split, score, subset)
            if found is None and any((s.split, s.metric, s.subset) == (split, score, subset) for s in record.scores):
                return None
        if found is None:
            there = sorted({f"{s.split}/{s.metric}" for s in record.scores})
            by = " by source length" if self.by_length else " without each head" if self.costing is not None else ""
            raise InputError(
                f"scores: expected {self.metric}{by}, got a record with {', '.join(there) or 'no scores'}."
            )
        return found


def _costing(record: Record, split: str, score: str, threshold: float) -> float | None:
    """100 · share of heads h with (score of the whole model) − (score without h) > threshold; None without any head."""
    whole, parts = record.score(split, score), []
    for one in record.scores:
        if (one.split, one.metric) == (split, score) and metrics.WITHOUT.fullmatch(one.subset or ""):
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
    if metric.startswith(metrics.LEFT) and "pruning" in record.diagnostics:
        return heads_left(record, metric.removeprefix(metrics.LEFT))
    path = metric.removeprefix(metrics.DIAGNOSTICS).split("/")
    found = list(_leaves(record.diagnostics, path))
    if not found:
        there = ", ".join(record.diagnostics) or "none"
        raise InputError(f"diagnostics: expected {'.'.join(path)}, got a record with {there}.")
    return _mean([float(leaf) for leaf in found if isinstance(leaf, int | float)])


def _leaves(tree: Any, path: list[str]) -> Iterator[Any]:
    """Yield the values at the path, of every layer and head on the way."""
    if isinstance(tree, list):
        for item in tree:
            yield from _leaves(item, path)
    elif not path:
        yield tree
    elif isinstance(tree, dict) and path[0] in tree:
        yield from _leaves(tree[path[0]], path[1:])


def _mean(known: list[float]) -> float | None:
    return sum(known) / len(known) if known else None


def entropy(record: Record, site: str = "cross") -> float | None:
    """Attention entropy of a site, 0–1: H(weights) / log(visible slots), the mean over layers and heads.

    0: every query looks at one slot; 1: at all alike. None where no head has one (a memory of one slot or none).
    """
    return _mean([value for value in _leaves(record.diagnostics, [site, "entropy"]) if value is not None])


def validation_bleu(record: Record) -> float | None:
    """BLEU on validation at the selected step, else at the last one that has any."""
    known = [point for point in record.history if point.get("valid_bleu") is not None]
    step = record.selection.step if record.selection else None
    chosen = [point for point in known if point.get("step") == step] or known[-1:]
    return float(chosen[-1]["valid_bleu"]) if chosen else None


def heads_left(record: Record, site: str) -> float | None:
    """Share of a site's heads, 0–1, that are left when all have gone that go for free, in the order of the record.

    None for what has no such order: a mean over several, or one without heads of the site.
    """
    heads, count = head_order(record), free_heads(record)
    if count is None or "draws" in _pruning(record):
        return None
    there = [head.split()[0] == site for head in heads]
    return sum(there[round(count) :]) / sum(there) if any(there) else None


def free_heads(record: Record) -> float | None:
    """Return the number of heads that are free to remove: free share × heads, rounded unless a mean over orders."""
    heads, share = head_order(record), next((s.value for s in record.scores if s.metric == "free"), None)
    if not heads or share is None:
        return None
    exactly = share / 100 * len(heads)
    return exactly if "draws" in _pruning(record) else float(int(exactly + 0.5))


def with_one_head(record: Record) -> float | None:
    """BLEU of the layer that suffers most when its best head has to serve alone; None where that was not asked."""
    known = [s.value for s in record.scores if s.metric == "bleu" and (s.subset or "").startswith("one of ")]
    return min((value for value in known if value is not None), default=None)


def head_order(record: Record) -> list[str]:
    """Return the heads in the order of their removal, `site layer head`; empty without an order."""
    found: list[str] = _pruning(record).get("order", [])
    return found


def _pruning(record: Record) -> Mapping[str, Any]:
    found: Mapping[str, Any] = record.diagnostics.get("pruning", {})
    return found
