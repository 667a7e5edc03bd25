"""Measures of one attention site, for all its heads at once. NaN stands for null.

B batch · L queries · S slots · H heads · K, V widths per head · D width of the states · N source tokens. a weights,
s logits, o = Σ_s a_s v_s contexts. A row is a query (b, t) that is not padding. Slots that a row does not see do not
count. Means over rows leave out rows that see no slot. Every function returns one value per head: [H].
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from study.attention import AttentionCall

Values = dict[str, Tensor]


class Rows(NamedTuple):
    """Masks and counts that the measures of a site share."""

    visible: Tensor
    """[B, H, L, S]: True for slots that a row sees; False for queries that are padding."""
    slots: Tensor
    """[B, H, L]: number of these slots."""
    asked: Tensor
    """[B, 1, L]: True for queries that are not padding."""

    @classmethod
    def of(cls, call: AttentionCall, asked: Tensor, weights: Tensor | None = None) -> Rows:
        """Return the rows of a call, or of its weights before heads mix them.

        `asked` [B, L] is True for queries that are not padding.
        """
        visible = call.mask.expand_as(call.weights if weights is None else weights) & asked[:, None, :, None]
        return cls(visible, visible.sum(-1), asked[:, None])


def mean(values: Tensor, where: Tensor) -> Tensor:
    """Return the mean of values [B, H, …] where `where` is True: [H]; NaN for a head without such values."""
    where = where.expand_as(values)
    away = [axis for axis in range(values.dim()) if axis != 1]
    return values.masked_fill(~where, 0).sum(away) / where.sum(away)


def logits(scores: Tensor, rows: Rows) -> Values:
    """Measure mean, standard deviation and maximum of the visible logits [B, H, L, S]; null for fewer than two."""
    count = rows.visible.sum((0, 2, 3))
    centre = mean(scores, rows.visible)
    square = (scores - centre[:, None, None]).square().masked_fill(~rows.visible, 0).sum((0, 2, 3))
    largest = scores.masked_fill(~rows.visible, float("-inf")).amax((0, 2, 3))
    found = {"logit_mean": centre, "logit_sd": (square / (count - 1)).sqrt(), "logit_max": largest}
    return {name: value.masked_fill(count < 2, torch.nan) for name, value in found.items()}


def entropies(weights: Tensor, rows: Rows, sums_to_one: bool, softmax: bool = True) -> Values:
    """Measure the spread of weights a [B, H, L, S]: of each row, of the mean over queries, and their difference.

    entropy: H(a) / log(visible slots), the mean over rows with at least two slots.
    information: H(mean over queries of a) − mean H(a), in nats, the mean over sentences; 0 if all queries agree.
    spread: H(mean over queries of a) / log(slots that some query sees), the mean over sentences. It measures
        **collapse**: it is low if all queries look at one place. A low entropy alone is no collapse, because correct
        alignments are sharp.
    max_weight: the largest weight of a row, the mean over rows.
    softmax_gradient: 1 − Σ_s a_s², the mean over rows. It is the trace of diag(a) − a aᵀ, the Jacobian ∂a/∂s of a
        softmax: 0 for a row on one slot, 1 − 1/S for a uniform row. Null for other normalisers, whose Jacobian differs.

    The weights are those of the normaliser, before a reach samples or removes any, because a sampled row is always
    sharp. All measures but max_weight are null if rows are not distributions.
    """
    some, several = rows.slots > 0, rows.slots > 1
    largest = mean(weights.amax(-1), some)
    if not sums_to_one:
        none = torch.full_like(largest, torch.nan)
        named = dict.fromkeys(("entropy", "information", "spread"), none)
        return named | {"max_weight": largest, "softmax_gradient": none}
    entropy = torch.special.entr(weights).sum(-1)
    count = some.sum(2).clamp(min=1)
    inside = (entropy * some).sum(2) / count
    pooled = torch.special.entr((weights * some[..., None]).sum(2) / count[..., None]).sum(-1)
    union = rows.visible.any(2).sum(-1)  # a window's rows each see a few slots, and together more
    return {
        "entropy": mean(entropy / rows.slots.clamp(min=2).log(), several),
        "information": mean(pooled - inside, union > 1),
        "spread": mean(pooled / union.clamp(min=2).log(), union > 1),
        "max_weight": largest,
        "softmax_gradient": mean(1 - weights.square().sum(-1), some)
        if softmax
        else torch.full_like(largest, torch.nan),
    }


def norms(query: Tensor, keys: Tensor | None, rows: Rows) -> Values:
    """Measure the norms of queries and keys, after their maps, and the cosine between them.

    query_norm, key_norm: mean ‖q‖ over rows, and mean ‖k‖ over slots.
    cosine: mean of q·k / (‖q‖ ‖k‖) over visible pairs; null if q and k differ in width.

    A measure is null if the score does not read the query or the key that it needs.

    Args:
        query: [B, H, L, K].
        keys: [B, H, S, K'].
        rows: the rows; a slot counts if one of them sees it.
    """
    none = torch.full(query.shape[1:2], torch.nan, device=query.device)
    found = {"query_norm": mean(query.norm(dim=-1), rows.asked) if query.shape[-1] else none}
    found |= {"key_norm": none, "cosine": none}
    if keys is not None and keys.shape[-1] and keys.shape[2]:
        found["key_norm"] = mean(keys.norm(dim=-1), rows.visible.any(2).any(1)[:, None])
        if query.shape[-1] == keys.shape[-1]:
            unit = F.normalize(query, dim=-1) @ F.normalize(keys, dim=-1).transpose(-1, -2)
            found["cosine"] = mean(unit, rows.visible)
    return found


def contexts(heads: Tensor, rows: Rows) -> Values:
    """Measure the norm of the contexts, and its slope against the number n of slots that a row sees.

    context_norm: ‖o‖ of the heads' outputs [B, H, L, V] before they are combined, the mean over rows.
    context_slope: the slope of ln ‖o‖ against ln n by least squares over rows with ‖o‖ > 0. It is −1/2 for an even
        mean of n independent values, and 0 for a single slot. Null if all rows see equally many slots.
    """
    norm = heads.norm(dim=-1)
    some = rows.slots > 0
    return {
        "context_norm": mean(norm, some),
        "context_slope": slope(rows.slots.clamp(min=1), norm, some & (norm > 0)),
    }


def slope(x: Tensor, y: Tensor, where: Tensor) -> Tensor:
    """Return the slope of ln y against ln x by least squares, both [B, H, …]: [H]; null if x does not vary."""
    x, y = x.to(y.dtype).clamp(min=1e-30).log(), y.clamp(min=1e-30).log()
    shape = [1, -1, *[1] * (x.dim() - 2)]
    away = x - mean(x, where).view(shape)
    variance = mean(away.square(), where)
    return mean(away * y, where) / variance.masked_fill(variance < 1e-12, torch.nan)


def shares(weights: Tensor) -> Tensor:
    """Return |a_s| / Σ_s |a_s|: [B, H, L, S]. A distribution stays as it is; a row of zeros stays 0."""
    size = weights.abs()
    total = size.sum(-1, keepdim=True)
    return size / total.masked_fill(total == 0, 1)


def masses(weights: Tensor, rows: Rows, tokens: Tensor, gold: Tensor | None) -> Values:
    """Measure the share of weight on a set G of slots, Σ_{s ∈ G} |a_s| / Σ_s |a_s|: the mean over rows with a G.

    diagonal_mass: G is slot t for row t. At cross that is source token t, for the query that predicts target token t.
        Rows beyond the last token have no G.
    last_two_mass: G is the last two source tokens before end-of-sentence. The weight on end-of-sentence counts in the
        denominator. Null in a decoder's self-attention.
    end_mass: G is the source's end-of-sentence, where attention may collapse, too. Null where last_two_mass is null.
    gold_mass: G is the gold slots. The mean is over words: the tokens of a word share the part of one word. So it is
        the score of this name (`alignment.gold_mass`) on these sentences.
    argmax_on_gold: the share of rows with gold whose largest |a_s| is on a gold slot. If several weights are largest,
        each counts for an equal part of the row; so even weights have the value of chance.

    Args:
        weights: [B, H, L, N] over tokens.
        rows: the rows, as they see slots.
        tokens: [B, N]: source tokens with end-of-sentence; [B, 0] where slots are no source tokens.
        gold: [B, L, N] as `Truth` has it, or None.
    """
    share, some = shares(weights), rows.slots > 0
    place = torch.arange(weights.shape[-1], device=weights.device)
    row = torch.arange(weights.shape[2], device=weights.device)
    none = torch.full(weights.shape[1:2], torch.nan, device=weights.device)
    count = tokens.sum(1) if tokens.shape[1] else (some.any(1).sum(1))
    own = (row[:, None] == place)[None, None]
    found = {"diagonal_mass": mean((share * own).sum(-1), some & (row < count[:, None])[:, None])}
    found |= dict.fromkeys(("last_two_mass", "end_mass", "gold_mass", "argmax_on_gold"), none)
    if tokens.shape[1]:
        last = (place < count[:, None] - 1) & (place >= count[:, None] - 3)
        found["last_two_mass"] = mean((share * last[:, None, None]).sum(-1), some & (count > 1)[:, None, None])
        end = place == count[:, None] - 1
        found["end_mass"] = mean((share * end[:, None, None]).sum(-1), some)
    if gold is not None:
        right = gold[:, None] > 0
        with_gold, part = some & right.any(-1), some * gold.amax(-1)[:, None]
        found["gold_mass"] = ((share * right).sum(-1) * part).sum((0, 2)) / part.sum((0, 2))
        top = (share == share.amax(-1, keepdim=True)) & (share > 0)
        found["argmax_on_gold"] = mean((top & right).sum(-1) / top.sum(-1).clamp(min=1), with_gold)
    return found


def symmetry(scores: Tensor, rows: Rows) -> Tensor:
    """Return ⟨S, Sᵀ⟩ / ⟨S, S⟩ of the logits [B, H, N, N] of self-attention: 1 if symmetric, −1 if antisymmetric.

    Sums run over pairs t ≠ s that see each other. S is centred by its mean over these pairs. With the symmetric and
    antisymmetric parts S₊, S₋ of S, the value is (‖S₊‖² − ‖S₋‖²) / (‖S₊‖² + ‖S₋‖²), which Saponati et al. (2025)
    measure on weight matrices. The diagonal is left out, because it is symmetric in any matrix. Independent entries
    give about 0. A constant added to a row changes this value, but not the softmax. Null if all logits are equal.
    """
    pairs = rows.visible & rows.visible.transpose(-1, -2)
    pairs = pairs & ~torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device)
    centred = (scores - mean(scores, pairs)[:, None, None]).masked_fill(~pairs, 0)
    square = centred.square().sum((0, 2, 3))
    product = (centred * centred.transpose(-1, -2)).sum((0, 2, 3))
    return product / square.masked_fill(square == 0, torch.nan)
