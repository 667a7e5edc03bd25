"""What attention does on a fixed batch: per site, layer and head, through the taps alone.

B batch · L queries · S slots · H heads. Entropies are in nats before they are normalised.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from study.attention import Seen
from study.models import Translator
from study.models.translator import PAD
from study.training.batches import Batch

Site = tuple[str, int]
Diagnostics = dict[str, list[list[dict[str, float | None]]]]
"""site ↦ layers ↦ heads ↦ name ↦ value."""


@contextmanager
def taps(model: Translator) -> Iterator[dict[Site, list[Seen]]]:
    """Every call of every attention while the context is open: a decoder that goes step by step calls L times."""
    seen: dict[Site, list[Seen]] = {(site, layer): [] for site, layer, _ in model.sites()}
    for site, layer, attention in model.sites():
        attention.tap = seen[site, layer].append
    try:
        yield seen
    finally:
        for _, _, attention in model.sites():
            attention.tap = None


@torch.no_grad()
def observe(model: Translator, batch: Batch) -> dict[Site, Seen]:
    """Teacher-forced decoding of a batch, seen at every site with all queries together. In evaluation mode."""
    training = model.training
    model.eval()
    with taps(model) as calls:
        model.decode(model.encode(batch.source, batch.mask), batch.given)
    model.train(training)
    return {site: _together(seen) for site, seen in calls.items()}


def _together(calls: list[Seen]) -> Seen:
    """Calls of one query each as one call of many."""
    if len(calls) == 1:
        return calls[0]
    first = calls[0]
    along: dict[str, Any] = {
        name: torch.cat([getattr(c, name) for c in calls], 2)
        for name in ("query", "logits", "weights", "heads", "mask")
    }
    return first._replace(**along)


def diagnose(model: Translator, batch: Batch) -> Diagnostics:
    """The diagnostics of every head on one batch."""
    found: Diagnostics = {}
    for (site, _), seen in observe(model, batch).items():
        asked = batch.mask if site == "encoder_self" else batch.wanted != PAD
        found.setdefault(site, []).append(_heads(seen, asked))
    return found


def _heads(seen: Seen, asked: Tensor) -> list[dict[str, float | None]]:
    """One dictionary a head; `asked` [B, L] are the queries that are not padding."""
    seeable = seen.mask.expand_as(seen.weights) & asked[:, None, :, None]
    columns: dict[str, list[float | None]] = {}
    for h in range(seen.weights.shape[1]):
        visible = seeable[:, h]
        values = _logits(seen.logits[:, h][visible]) | _entropies(seen.weights[:, h], visible)
        if not seen.sums_to_one:
            values |= dict.fromkeys(("entropy", "information", "spread"))
        values["query_norm"] = _mean(seen.query[:, h].norm(dim=-1)[asked])
        for name, value in values.items():
            columns.setdefault(name, []).append(value)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _logits(logits: Tensor) -> dict[str, float | None]:
    """Mean, standard deviation and largest of the visible logits."""
    if logits.numel() < 2:
        return dict.fromkeys(("logit_mean", "logit_sd", "logit_max"))
    return {"logit_mean": float(logits.mean()), "logit_sd": float(logits.std()), "logit_max": float(logits.max())}


def _entropies(weights: Tensor, visible: Tensor) -> dict[str, float | None]:
    """How spread the rows are, how spread their mean is, and what the query adds.

    entropy: H(a) / log(visible slots), the mean over rows with at least two slots.
    information: H(mean over queries of a) − mean H(a), in nats, the mean over sentences; 0 if all queries agree.
    spread: H(mean over queries of a) / log(visible slots); low when all queries look at one place (collapse).
    max_weight: the largest weight of a row, the mean over rows.
    """
    slots = visible.sum(-1)
    rows = slots > 0
    several = slots > 1
    if not bool(several.any()):
        largest = _mean(weights.amax(-1)[rows]) if weights.shape[-1] else None
        return {"entropy": None, "information": None, "spread": None, "max_weight": largest}
    entropy = torch.special.entr(weights).sum(-1)
    count = rows.sum(1).clamp(min=1)
    mean_entropy = (entropy * rows).sum(1) / count
    pooled = torch.special.entr((weights * rows[..., None]).sum(1) / count[:, None]).sum(-1)
    most = slots.amax(1)
    wide = most > 1
    return {
        "entropy": _mean((entropy / slots.clamp(min=2).log())[several]),
        "information": _mean((pooled - mean_entropy)[wide]),
        "spread": _mean((pooled / most.clamp(min=2).log())[wide]),
        "max_weight": _mean(weights.amax(-1)[rows]),
    }


def _mean(values: Tensor) -> float | None:
    return float(values.mean()) if values.numel() else None


def with_initial(last: Diagnostics, initial: Diagnostics) -> Diagnostics:
    """Diagnostics with each head's standard deviation of logits at step 0 beside them."""
    return {
        site: [
            [{**head, "logit_sd_step_0": initial[site][i][h]["logit_sd"]} for h, head in enumerate(layer)]
            for i, layer in enumerate(layers)
        ]
        for site, layers in last.items()
    }
