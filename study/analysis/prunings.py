"""Facts from the record of a pruning beside its scores: the number of free heads, and the layers of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from study.records import Record
from study.sweep.spec import Spec

SITES = ("encoder_self", "decoder_self", "cross")
LEFT = "diagnostics/pruning/left/"
"""Beginning of the metric, before the site."""

SCORES = {"curve": ("free", "area"), "each_head": ("needed", "harmful")}
"""Question ↦ the scores of its answer that a table shows."""


def questions(spec: Spec) -> tuple[str, ...]:
    """Return the questions of a sweep's pruning runs; empty if it has none."""
    sections = [cell.experiment.pruning for cell in spec.cells if cell.experiment]
    return tuple(dict.fromkeys(section.question for section in sections if section))


def compares(spec: Spec) -> bool:
    """Return True if the arms of a sweep end in different models. Questions that only mask heads keep the model."""
    asked = questions(spec)
    return not asked or bool({"curve", "retrain"}.intersection(asked))


def fractions(spec: Spec) -> list[float]:
    """The shares of heads that the pruned models of a sweep lack."""
    sections = [cell.experiment.pruning for cell in spec.cells if cell.experiment]
    return sorted({section.fraction for section in sections if section and section.fraction is not None})


def left(record: Record, site: str) -> float | None:
    """Share of a site's heads, 0–1, that are left when all have gone that go for free, in the order of the record.

    None for what has no such order: a mean over several, or one without heads of the site.
    """
    heads, count = order(record), free_heads(record)
    if count is None or "draws" in _facts(record):
        return None
    there = [head.split()[0] == site for head in heads]
    return sum(there[round(count) :]) / sum(there) if any(there) else None


def free_heads(record: Record) -> float | None:
    """Return the number of heads that are free to remove: free share × heads, rounded unless a mean over orders."""
    heads, share = order(record), next((s.value for s in record.scores if s.metric == "free"), None)
    if not heads or share is None:
        return None
    exactly = share / 100 * len(heads)
    return exactly if "draws" in _facts(record) else float(int(exactly + 0.5))


def with_one_head(record: Record) -> float | None:
    """BLEU of the layer that suffers most when its best head has to serve alone; None where that was not asked."""
    known = [s.value for s in record.scores if s.metric == "bleu" and (s.subset or "").startswith("one of ")]
    return min((value for value in known if value is not None), default=None)


def number_of_heads(record: Record) -> int | None:
    """Return the number of heads in the order; None without an order."""
    return len(order(record)) or None


def order(record: Record) -> list[str]:
    """The heads in the order of their removal, `site layer head`; empty without an order."""
    found: list[str] = _facts(record).get("order", [])
    return found


def _facts(record: Record) -> Mapping[str, Any]:
    found: Mapping[str, Any] = record.diagnostics.get("pruning", {})
    return found
