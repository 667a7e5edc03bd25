"""The diagnosis of a batch: every measure of every head, and what the states are like.

B batch · S slots · H heads · D width of the states.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from study.models.translator import PAD
from study.training.batches import Batch
from study.training.diagnostics import measures
from study.training.diagnostics.taps import Site, SiteObservation
from study.training.diagnostics.truth import Truth
from study.training.points import NAMES

Layer = dict[str, Any]
"""name ↦ one value a head, or None where the measure means nothing; and what `states` says of the layer."""

Diagnostics = dict[str, list[Layer]]
"""site ↦ layers."""

POSITIONS = (0, 1, 4, 8, 16)
"""Bins of position and distance, named by where they begin: 0, 1–3, 4–7, 8–15, 16 and more."""


def diagnose(observations: dict[Site, SiteObservation], batch: Batch, truth: Truth) -> Diagnostics:
    """The measures of every site on one batch, from what `look` saw of it."""
    found: Diagnostics = {}
    for (site, _), observation in observations.items():
        asked = batch.mask if site == "encoder_self" else batch.wanted != PAD
        rows = measures.Rows.of(observation.call, asked)
        layer = _by_name(_values(observation, site, rows, batch, truth)) | states(
            observation.states, rows, site != "decoder_self"
        )
        found.setdefault(site, []).append(layer)
    return found


def _values(
    observation: SiteObservation, site: str, rows: measures.Rows, batch: Batch, truth: Truth
) -> measures.Values:
    """Every measure of one site, null where it means nothing there."""
    call = observation.call
    found = measures.norms(call.query, observation.keys, rows)
    none = torch.full_like(found["query_norm"], torch.nan)
    if call.weights.shape[-1]:
        found |= measures.logits(call.logits, rows) | measures.contexts(call.heads, rows)
        found |= measures.entropies(call.normalised, rows, call.sums_to_one, call.softmax)
        over_tokens = call.over_tokens(batch.source.shape[1]) if site == "cross" else call.weights
        tokens = batch.mask[:, :0] if site == "decoder_self" else batch.mask
        if over_tokens is not None:
            found |= measures.masses(over_tokens, rows, tokens, truth.get(site))
        if site == "encoder_self":  # elsewhere no pair of slots sees each other
            found["symmetry"] = measures.symmetry(call.logits, rows)
    return {name: found.get(name, none) for name in NAMES}


def _by_name(values: measures.Values) -> Layer:
    """Values [H] as numbers, NaN as None, read from the device at once."""
    table = torch.stack([value.double() for value in values.values()]).tolist()
    rows = ([number(value) for value in row] for row in table)
    return {name: None if set(row) == {None} else row for name, row in zip(values, rows, strict=True)}


def number(value: float) -> float | None:
    """A number, or None for what is none."""
    return value if math.isfinite(value) else None


STATES = ("state_mean", "state_variance", "state_mean_by_position", "state_variance_by_position")


def states(memory: Tensor | None, rows: measures.Rows, positions: bool = True) -> dict[str, Any]:
    """Measure the states [B, S, D] from which keys are computed, over all components of the slots that some query sees.

    state_mean, state_variance: E[x] and E[(x − E[x])²].
    state_mean_by_position, state_variance_by_position: the same of the slots of one bin of `POSITIONS`, null for
        an empty bin, and null as a whole unless `positions` are the source's.
    """
    if memory is None or not memory.shape[1]:
        return dict.fromkeys(STATES)
    real = rows.visible.any(2).any(1)
    bins = place(torch.arange(memory.shape[1], device=memory.device))
    parts = torch.stack([real, *(real & (bins == b) for b in range(len(POSITIONS)))]).double()
    exact = memory.double()
    mean = torch.einsum("pbs,bsd->pd", parts, exact).mean(1) / parts.sum((1, 2))
    square = torch.einsum("pbs,bsd->pd", parts, exact.square()).mean(1) / parts.sum((1, 2))
    first, second = ([number(v) for v in column] for column in torch.stack([mean, square - mean.square()]).tolist())
    return dict(
        zip(STATES, (first[0], second[0], *((first[1:], second[1:]) if positions else (None, None))), strict=True)
    )


def place(distance: Tensor) -> Tensor:
    """The bin of `POSITIONS` that a position or distance is in."""
    return torch.bucketize(distance, torch.tensor(POSITIONS, device=distance.device), right=True) - 1
