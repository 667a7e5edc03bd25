"""Numbers of one run: a score, a diagnostic, or a fact from a pruning.

`study.scores.metrics` says how metrics are named. A record is plain data here, as `Store.tree` returns it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from study.config.sites import ALIGNING
from study.scores import metrics

FACTS = ("entropy", "tokens_per_second", "freed", "heads", "with_one_head")
"""Numbers of a run that tables of sweeps show beside its scores; see `facts`."""
Tree = Mapping[str, Any]


@dataclass(frozen=True)
class Measure:
    """Quantity that is read from a run.

    Attributes:
        costing: instead of the metric: the share of heads, in %, that cost more than this when they are removed alone.
    """

    metric: str
    costing: float | None = None

    @property
    def title(self) -> str:
        """`exact match, %`; `query information, nats`."""
        name = metrics.title(self.metric)
        if self.costing is not None:
            return f"heads that cost more than {self.costing:g} {name}"
        return name

    def of(self, values: Mapping[str | None, float | None]) -> float | None:
        """Return the number from the values of its score by subset; None if it means nothing in this run.

        A share of heads is 100 · share of heads h without which the score is worse by more than costing.

        Raises:
            KeyError: the run has no such rows.
        """
        if self.costing is None:
            return values["/".join(self.metric.split("/")[2:]) or None]
        parts = [value for subset, value in values.items() if metrics.WITHOUT.fullmatch(subset or "")]
        if (whole := values[None]) is None or not parts or None in parts:
            raise KeyError("without")
        sign = metrics.metric_of(self.metric).direction
        return 100 * sum(sign * (whole - part) > self.costing for part in parts if part is not None) / len(parts)


def diagnostic(tree: Tree, metric: str) -> float | None:
    """Return a diagnostic of a run, the mean over its layers and heads, or bins; None where all are null.

    The share of a site's heads, 0–1, that are left when all have gone that go for free is computed from the order of a
    pruning. It is None for a mean over several orders, and for an order without heads of the site.

    Raises:
        KeyError: the run has no such diagnostic.
    """
    if metric.startswith(metrics.LEFT) and "pruning" in tree["diagnostics"]:
        heads, free = free_heads(tree)
        in_site = [head.split()[0] == metric.removeprefix(metrics.LEFT) for head in heads]
        if free is None or "draws" in tree["diagnostics"]["pruning"] or not any(in_site):
            return None
        return sum(in_site[round(free) :]) / sum(in_site)
    values = list(_leaves(tree["diagnostics"], metric.removeprefix(metrics.DIAGNOSTICS).split("/")))
    if not values:
        raise KeyError(metric)
    return _mean(values)


def _leaves(tree: Any, path: list[str]) -> Iterator[Any]:
    """Yield the values at the path, of every layer and head on the way."""
    if isinstance(tree, list):
        for item in tree:
            yield from _leaves(item, path)
    elif not path:
        yield tree
    elif isinstance(tree, dict) and path[0] in tree:
        yield from _leaves(tree[path[0]], path[1:])


def _mean(values: Sequence[Any]) -> float | None:
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    return math.fsum(numbers) / len(numbers) if numbers else None  # sum() depends on the version of Python


def facts(tree: Tree) -> dict[str, Any]:
    """Return what tables of sweeps show of a run beside its scores.

    note           the error
    device, rule   the machine, and the rule that chose the tested step
    entropy        of cross-attention, or of joint (0–1), the mean over layers and heads
    heads, freed   heads in the order of a pruning, and how many of them are free
    with_one_head  BLEU of the layer that suffers most when its best head has to serve alone
    """
    heads, free = free_heads(tree)
    alone = [
        s["value"]
        for s in tree["scores"]
        if s["metric"] == "bleu" and (s["subset"] or "").startswith("one of ") and s["value"] is not None
    ]
    return {
        "note": tree["error"] or "",
        "device": (tree["provenance"] or {}).get("device", ""),
        "rule": (tree["selection"] or {}).get("rule", ""),
        "entropy": _mean([leaf for site in ALIGNING for leaf in _leaves(tree["diagnostics"], [site, "entropy"])]),
        "tokens_per_second": (tree["resources"] or {}).get("tokens_per_second"),
        "freed": free,
        "heads": len(heads) or None,
        "with_one_head": min(alone, default=None),
    }


def free_heads(tree: Tree) -> tuple[list[str], float | None]:
    """Return the heads in the order of their removal, `site layer head`, and how many of the first are free to remove.

    Their number is free share × heads, rounded unless it is a mean over orders; None without an order or a share.
    """
    pruning = tree["diagnostics"].get("pruning", {})
    heads, share = pruning.get("order", []), next((s["value"] for s in tree["scores"] if s["metric"] == "free"), None)
    if not heads or share is None:
        return heads, None
    exactly = share / 100 * len(heads)
    return heads, exactly if "draws" in pruning else float(int(exactly + 0.5))
