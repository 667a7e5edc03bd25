"""Diagnosis of a batch: every measure of every head and of the states, and summaries for history and record.

B batch · S slots · H heads · D width of the states.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from study.models.translator import PAD
from study.training.batches import Batch
from study.training.diagnostics import measures
from study.training.diagnostics.taps import Site, SiteObservation, Truth

Layer = dict[str, Any]
"""name ↦ one value a head, or None where the measure means nothing; and what `states` says of the layer."""

Diagnostics = dict[str, list[Layer]]
"""site ↦ layers."""

NAMES = (
    *("logit_mean", "logit_sd", "logit_max", "entropy", "information", "spread", "max_weight", "softmax_gradient"),
    *("query_norm", "key_norm", "cosine", "context_norm", "context_slope"),
    *("gold_mass", "argmax_on_gold", "last_two_mass", "end_mass", "diagonal_mass", "symmetry"),
)
"""Names of all measures of a head, in the order in which they are written."""

POSITIONS = (0, 1, 4, 8, 16)
"""Bins of position and distance, named by where they begin: 0, 1–3, 4–7, 8–15, 16 and more."""


def diagnose(observations: dict[Site, SiteObservation], batch: Batch, truth: Truth) -> Diagnostics:
    """Return the measures of every site on one batch, from the values that `look` recorded."""
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
    """Return every measure of one site; NaN if it has no meaning there. Of two score maps of a head, the mean."""
    call = observation.call
    maps = measures.Rows.of(call, rows.asked[:, 0], call.normalised)
    found = measures.norms(call.query, observation.keys, maps)
    none = torch.full_like(found["query_norm"], torch.nan)
    if call.weights.shape[-1]:
        found |= measures.logits(call.logits, maps) | measures.contexts(call.heads, rows)
        found |= measures.entropies(call.normalised, maps, call.sums_to_one, call.softmax)
        over_tokens = call.over_tokens(batch.source.shape[1]) if site == "cross" else call.weights
        tokens = batch.mask[:, :0] if site == "decoder_self" else batch.mask
        if over_tokens is not None:
            found |= measures.masses(over_tokens, rows, tokens, truth.get(site))
        if site == "encoder_self":  # elsewhere no pair of slots sees each other
            found["symmetry"] = measures.symmetry(call.logits, maps)
    heads = call.heads.shape[1]
    return {name: found.get(name, none).view(-1, heads).mean(0) for name in NAMES}


def _by_name(values: measures.Values) -> Layer:
    """Return values [H] as numbers, with None for NaN, in one transfer from the device."""
    table = torch.stack([value.double() for value in values.values()]).tolist()
    rows = ([number(value) for value in row] for row in table)
    return {name: None if set(row) == {None} else row for name, row in zip(values, rows, strict=True)}


def number(value: float) -> float | None:
    """Return a number; None for NaN or infinity."""
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
    """Return the bin of `POSITIONS` of a position or distance."""
    return torch.bucketize(distance, torch.tensor(POSITIONS, device=distance.device), right=True) - 1


KEPT = ("logit_max", "entropy", "spread", "gold_mass")
"""Means over layers and heads that a record's history has, where they mean something. The history's file has every
measure of every head."""

DIGITS = 4
"""Significant digits of a diagnostic in a record."""


def site_means(diagnostics: Diagnostics) -> dict[str, dict[str, float | None]]:
    """Return the mean over layers and heads of every measure, by site; None if no head has a value."""
    names = (*NAMES, "state_mean", "state_variance")
    return {
        site: {name: _mean([value for layer in layers for value in _each(layer[name])]) for name in names}
        for site, layers in diagnostics.items()
    }


def _each(values: list[float | None] | float | None) -> list[float | None]:
    """Return the values of all heads, or the one value of the layer."""
    return values if isinstance(values, list) else [values]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def for_record(last: Diagnostics, initial: Diagnostics, gradients: dict[str, Any]) -> dict[str, Any]:
    """Return a record's diagnostics: site ↦ layers ↦ name ↦ one value a head, and `gradients` by moment.

    Values are those of the last validation. The heads' standard deviations of logits at step 0 stand beside them.
    """
    sites = {
        site: [{**layer, "logit_sd_step_0": initial[site][i]["logit_sd"]} for i, layer in enumerate(layers)]
        for site, layers in last.items()
    }
    tree: dict[str, Any] = brief({**sites, "gradients": gradients} if sites else {})
    return tree


def in_history(diagnostics: Diagnostics) -> dict[str, Any]:
    """Return a validation's diagnostics for the history: the means as `diagnostics`, the values of heads as `heads`."""
    return {"diagnostics": site_means(diagnostics), "heads": brief(diagnostics)}


def short(point: dict[str, Any]) -> dict[str, Any]:
    """Return a point of the history as the record keeps it."""
    sites = point["diagnostics"].items()
    kept = {site: {name: values[name] for name in KEPT if values[name] is not None} for site, values in sites}
    return {name: value for name, value in point.items() if name != "heads"} | {"diagnostics": brief(kept)}


def brief(tree: Any) -> Any:
    """Round every float to `DIGITS` significant digits; NaN and ∞ become None."""
    if isinstance(tree, float):
        return float(f"{tree:.{DIGITS}g}") if math.isfinite(tree) else None
    if isinstance(tree, dict):
        return {key: brief(value) for key, value in tree.items()}
    return [brief(item) for item in tree] if isinstance(tree, list | tuple) else tree
