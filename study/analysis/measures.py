"""Numbers of one run: a score, its slope over source length, a diagnostic, or a fact from a pruning.

`study.metrics` says how metrics are named. A record is plain data here, as `Store.tree` returns it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from study import metrics
from study.analysis import labels

FACTS = ("entropy", "tokens_per_second", "freed", "heads", "with_one_head")
"""Numbers of a run that tables of sweeps show beside its scores; see `facts`."""
LENGTH = re.compile(r"length (\d+)-(\d+)")
Tree = Mapping[str, Any]
Scored = Sequence[tuple[str | None, float | None, int]]
"""Subset, value and number of sentences of every row of one score of one run."""


@dataclass(frozen=True)
class Measure:
    """Quantity that is read from a run."""

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

    def of(self, scored: Scored) -> float | None:
        """Return the number from the rows of its score; None if it means nothing in this run.

        Raises:
            KeyError: the run has no such rows.
        """
        if self.costing is not None:
            return _costing(scored, self.costing)
        if self.by_length:
            return slope(scored, self.by_sentences)
        _, _, *part = self.metric.split("/", 2)
        return {subset: value for subset, value, _ in scored}[part[0] if part else None]


def _costing(scored: Scored, threshold: float) -> float:
    """100 · share of heads h with (score of the whole model) − (score without h) > threshold."""
    whole = {subset: value for subset, value, _ in scored}[None]
    parts = [value for subset, value, _ in scored if metrics.WITHOUT.fullmatch(subset or "")]
    if whole is None or not parts or None in parts:
        raise KeyError("without")
    return 100 * sum(whole - part > threshold for part in parts if part is not None) / len(parts)


def slope(scored: Scored, by_sentences: bool) -> float:
    """Least squares over the buckets of source length, each at its middle.

    The slope is Σ w (x − x̄) y / Σ w (x − x̄)², where x̄ is the mean of x under the weights w: 1, or the number of
    sentences of a bucket.

    Raises:
        KeyError: fewer than two buckets have a score.
    """
    found = [(LENGTH.fullmatch(subset or ""), value, n if by_sentences else 1) for subset, value, n in scored]
    points = [((int(b[1]) + int(b[2])) / 2, value, weight) for b, value, weight in found if b and value is not None]
    if len(points) < 2:
        raise KeyError("length")
    middle = sum(w * x for x, _, w in points) / sum(w for *_, w in points)
    return sum(w * (x - middle) * y for x, y, w in points) / sum(w * (x - middle) ** 2 for x, _, w in points)


def diagnostic(tree: Tree, metric: str) -> float | None:
    """Return a diagnostic of a run, the mean over its layers and heads; None where all are null.

    Raises:
        KeyError: the run has no such diagnostic.
    """
    if metric.startswith(metrics.LEFT) and "pruning" in tree["diagnostics"]:
        return heads_left(tree, metric.removeprefix(metrics.LEFT))
    found = list(_leaves(tree["diagnostics"], metric.removeprefix(metrics.DIAGNOSTICS).split("/")))
    if not found:
        raise KeyError(metric)
    return _mean(found)


def _leaves(tree: Any, path: list[str]) -> Iterator[Any]:
    """Yield the values at the path, of every layer and head on the way."""
    if isinstance(tree, list):
        for item in tree:
            yield from _leaves(item, path)
    elif not path:
        yield tree
    elif isinstance(tree, dict) and path[0] in tree:
        yield from _leaves(tree[path[0]], path[1:])


def _mean(values: Iterable[Any]) -> float | None:
    """Return the mean of what is a number; None if nothing is."""
    known = [float(value) for value in values if isinstance(value, int | float)]
    return sum(known) / len(known) if known else None


def facts(tree: Tree) -> dict[str, float | None]:
    """Return the numbers of a run that tables of sweeps show beside its scores.

    entropy        of cross-attention (0–1), the mean over layers and heads
    heads, freed   heads in the order of a pruning, and how many of them are free
    with_one_head  BLEU of the layer that suffers most when its best head has to serve alone
    """
    one_head = [
        s["value"] for s in tree["scores"] if s["metric"] == "bleu" and (s["subset"] or "").startswith("one of ")
    ]
    return {
        "entropy": _mean(_leaves(tree["diagnostics"], ["cross", "entropy"])),
        "tokens_per_second": (tree["resources"] or {}).get("tokens_per_second"),
        "freed": free_heads(tree),
        "heads": len(head_order(tree)) or None,
        "with_one_head": min((value for value in one_head if value is not None), default=None),
    }


def heads_left(tree: Tree, site: str) -> float | None:
    """Share of a site's heads, 0–1, that are left when all have gone that go for free, in the order of the record.

    None for what has no such order: a mean over several, or one without heads of the site.
    """
    heads, count = head_order(tree), free_heads(tree)
    if count is None or "draws" in _pruning(tree):
        return None
    there = [head.split()[0] == site for head in heads]
    return sum(there[round(count) :]) / sum(there) if any(there) else None


def free_heads(tree: Tree) -> float | None:
    """Return the number of heads that are free to remove: free share × heads, rounded unless a mean over orders."""
    heads, share = head_order(tree), next((s["value"] for s in tree["scores"] if s["metric"] == "free"), None)
    if not heads or share is None:
        return None
    exactly = share / 100 * len(heads)
    return exactly if "draws" in _pruning(tree) else float(int(exactly + 0.5))


def head_order(tree: Tree) -> list[str]:
    """Return the heads in the order of their removal, `site layer head`; empty without an order."""
    found: list[str] = _pruning(tree).get("order", [])
    return found


def _pruning(tree: Tree) -> Mapping[str, Any]:
    found: Mapping[str, Any] = tree["diagnostics"].get("pruning", {})
    return found
