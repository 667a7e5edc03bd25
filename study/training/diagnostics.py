"""Diagnostics of attention on a fixed batch: measures of every head, and where gradients arrive.

Taps and hooks leave the model unchanged. NaN stands for null until a value leaves this module.

B batch · L queries or target tokens · S slots or source tokens, end-of-sentence counted · H heads. a weights.
A row is a query (b, t) that is not padding. Slots that a row does not see do not count. Means over rows leave out rows
that see no slot.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention import AttentionCall
from study.config.sites import READS
from study.corpora import Link
from study.models import Translator
from study.models.translator import PAD
from study.store.records import rounded
from study.training.batches import Batch, Examples
from study.training.vocabulary import Vocabulary

Site = tuple[str, int]
"""A site and its layer."""
Diagnostics = dict[str, list[dict[str, Any]]]
"""site ↦ layers ↦ name ↦ one value a head, or None where the measure means nothing."""
Values = dict[str, Tensor]
"""name ↦ one value a head [H]."""
Truth = dict[str, Tensor]
"""site ↦ 1/n at a query's gold slots, n the tokens of its word, and 0 beside them: a mean so weighted is over words.

cross and joint [B, L, S], encoder_self [B, S, S]; sites without gold are missing. Sure and possible links count alike.
End-of-sentence has no gold, neither as query nor as slot.
"""

NAMES = ("logit_sd", "entropy", "information", "max_weight", "gold_mass", "last_two_mass", "end_mass")
"""Names of all measures of a head."""
IN_HISTORY = ("entropy", "gold_mass", "source_mass")
"""Measures whose means over layers and heads the history keeps."""
brief = partial(rounded, digits=4)
"""Rounds diagnostics as a record has them."""
POSITIONS = (0, 1, 4, 8, 16)
"""Bins of a distance, named by where they begin: 0, 1–3, 4–7, 8–15, 16 and more."""
FEWEST = 8
"""A bin with fewer values has no mean."""
SENTENCES = 16
"""Sentences whose gradients are measured, the first of the batch."""
TARGET_POSITIONS = (0.0, 1 / 3, 2 / 3, 1.0)
"""Relative positions of the target tokens whose loss is differentiated: 0 the first, 1 the last before the end."""


@contextmanager
def taps(model: Translator) -> Iterator[dict[Site, list[AttentionCall]]]:
    """Record every call of every attention within the context. A decoder that goes step by step calls L times."""
    seen: dict[Site, list[AttentionCall]] = {(site, layer): [] for site, layer, _ in model.sites()}
    for site, layer, attention in model.sites():
        attention.tap = seen[site, layer].append
    try:
        yield seen
    finally:
        for _, _, attention in model.sites():
            attention.tap = None


@torch.no_grad()
def observe(model: Translator, batch: Batch) -> dict[Site, AttentionCall]:
    """Return the call of every site, all queries together, of a teacher-forced pass in evaluation mode.

    The call of a site of source and target is that of the target's queries; `AttentionCall.sources` is the other one.
    """
    training = model.training
    model.eval()
    with taps(model) as seen:
        encoded = model.encode(batch.source, batch.mask)
        first = {site: len(calls) for site, calls in seen.items()}
        model.decode(encoded, batch.given)
    model.train(training)
    return {site: _together(calls, first[site]) for site, calls in seen.items()}


def _together(calls: list[AttentionCall], encoding: int) -> AttentionCall:
    """Join calls of one query each to one call with all queries; `encoding` of the calls are those of the encoder."""
    if 0 < encoding < len(calls):
        return _together(calls[encoding:], 0)._replace(sources=_in_order(*calls[:encoding]))
    if len(calls) == 1:
        return calls[0]
    names = ("query", "logits", "normalised", "weights", "heads", "mask")
    joined: dict[str, Any] = {name: torch.cat([getattr(call, name) for call in calls], 2) for name in names}
    return calls[0]._replace(**joined)


def _in_order(call: AttentionCall) -> AttentionCall:
    """Return a call of source tokens to themselves with weights and mask of the queries in the order of the batch."""
    assert call.origin is not None
    query = call.origin.transpose(1, 2)[:, None]
    mask = query @ call.mask.expand(-1, -1, query.shape[-1], -1).to(query.dtype) > 0
    return call._replace(weights=query @ call.weights, mask=mask)


def truth(data: Examples, vocabulary: Vocabulary, batch: Batch) -> Truth:
    """Return the gold links of the examples of a batch: `Pair.alignment` of the target, else `Pair.attends`."""
    source = [vocabulary.words(example.pair.source) for example in data]
    target = [vocabulary.words(example.pair.target) for example in data]
    sites = {
        "cross": ([example.pair.alignment for example in data], target, batch.wanted.shape[1]),
        "encoder_self": ([example.pair.attends for example in data], source, batch.source.shape[1]),
    }
    found: Truth = {}
    for site, (links, asking, queries) in sites.items():
        if all(known is not None for known in links):
            shape = queries, batch.source.shape[1]
            rows = zip(links, asking, source, strict=True)
            masks = [_of_tokens(known or (), query, slots, shape) for known, query, slots in rows]
            found[site] = torch.stack(masks).to(batch.source.device)
    return found | ({"joint": found["cross"]} if "cross" in found else {})


def _of_tokens(links: Sequence[Link], asking: list[int], source: list[int], shape: tuple[int, int]) -> Tensor:
    """Return links between words as a mask over tokens. `asking` and `source` give the word of each token."""
    linked = {(link.target, link.source) for link in links}
    out = torch.zeros(shape)
    for row, word in enumerate(asking):
        for slot, other in enumerate(source):
            out[row, slot] = ((word, other) in linked) / asking.count(word)
    return out


def diagnose(calls: dict[Site, AttentionCall], batch: Batch, truth: Truth) -> Diagnostics:
    """Return the measures of every site on one batch, from the calls that `observe` recorded.

    logit_sd: standard deviation of the visible logits; null for fewer than two. The others: see `entropies` and
    `masses`. Of two score maps of a head, the mean. A site of source and target also has source_mass, the share of
    weight on the source, and attends_mass, the gold mass of the source's queries; its other masses are shares of the
    weight on the source.
    """
    found: Diagnostics = {}
    for (site, _), call in calls.items():
        queries, slots = READS[site]
        real = (batch.wanted != PAD if "target" in queries else batch.mask)[:, None, :, None]
        values: Values = {}
        if call.weights.shape[-1]:
            visible = call.mask.expand_as(call.normalised) & real  # before heads mix their maps
            values = {"logit_sd": deviation(call.logits, visible)}
            values |= entropies(call.normalised, visible, call.sums_to_one)
            over_tokens = call.over_tokens(batch.source.shape[1]) if "source" in slots else None
            if over_tokens is not None:
                some = (call.visible_tokens().expand_as(over_tokens) & real).any(-1)
                values |= masses(over_tokens, some, batch.mask, truth.get(site))
            if over_tokens is not None and "target" in slots:
                size, total = over_tokens.abs().sum(-1), call.weights.abs().sum(-1)
                values["source_mass"] = mean(size / total.masked_fill(total == 0, 1), some & (total > 0))
            if call.sources is not None and (gold := truth.get("encoder_self")) is not None:
                seeing = (call.sources.mask & batch.mask[:, None, :, None]).any(-1)
                own = masses(call.sources.weights, seeing, batch.mask, gold)
                values["attends_mass"] = own["gold_mass"]
        found.setdefault(site, []).append(_by_name(values, call.heads.shape[1]))
    return found


def _by_name(values: Values, heads: int) -> dict[str, Any]:
    """Return values as numbers, with None for NaN, in one transfer from the device."""
    means = [value.view(-1, heads).mean(0).double() for value in values.values()]
    rows = [[number(value) for value in row] for row in torch.stack(means).tolist()] if means else []
    known = {name: row for name, row in zip(values, rows, strict=True) if set(row) != {None}}
    return dict.fromkeys(NAMES) | known


def mean(values: Tensor, where: Tensor) -> Tensor:
    """Return the mean of values [B, H, …] where `where` is True: [H]; NaN for a head without such values."""
    where = where.expand_as(values)
    away = [axis for axis in range(values.dim()) if axis != 1]
    return values.masked_fill(~where, 0).sum(away) / where.sum(away)


def deviation(logits: Tensor, visible: Tensor) -> Tensor:
    """Return the standard deviation of the visible logits [B, H, L, S] of each head; NaN for fewer than two."""
    count = visible.sum((0, 2, 3))
    centre = mean(logits, visible)
    square = (logits - centre[:, None, None]).square().masked_fill(~visible, 0).sum((0, 2, 3))
    return (square / (count - 1)).sqrt().masked_fill(count < 2, torch.nan)


def entropies(weights: Tensor, visible: Tensor, sums_to_one: bool) -> Values:
    """Measure the entropy H of weights a [B, H, L, S].

    entropy: H(a) / log(visible slots), the mean over rows with at least two slots.
    information: H(mean over queries of a) − mean H(a), in nats, the mean over sentences; 0 if all queries agree.
    max_weight: the largest weight of a row, the mean over rows.

    The weights are those of the normaliser, before a reach samples or removes any, because a sampled row is always
    sharp. All but max_weight are missing if rows are not distributions.
    """
    slots = visible.sum(-1)
    some = slots > 0
    found = {"max_weight": mean(weights.amax(-1), some)}
    if not sums_to_one:
        return found
    entropy = torch.special.entr(weights).sum(-1)
    count = some.sum(2).clamp(min=1)
    inside = (entropy * some).sum(2) / count
    pooled = torch.special.entr((weights * some[..., None]).sum(2) / count[..., None]).sum(-1)
    union = visible.any(2).sum(-1)  # a window's rows each see a few slots, and together more
    return found | {
        "entropy": mean(entropy / slots.clamp(min=2).log(), slots > 1),
        "information": mean(pooled - inside, union > 1),
    }


def shared(weights: Tensor) -> Tensor:
    """Return each weight over the sum of the sizes of its row; 0 where all are 0."""
    total = weights.abs().sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1)


def masses(weights: Tensor, some: Tensor, tokens: Tensor, gold: Tensor | None) -> Values:
    """Measure the share of weight on a set G of slots, Σ_{s ∈ G} |a_s| / Σ_s |a_s|: the mean over rows with a G.

    last_two_mass: G is the last two source tokens before end-of-sentence. The weight on end-of-sentence counts in the
        denominator.
    end_mass: G is the source's end-of-sentence, where attention may collapse, too.
    gold_mass: G is the gold slots. The mean is over words: the tokens of a word share the part of one word. So it is
        the score of this name (`alignment.gold_mass`) on these sentences.

    Args:
        weights: [B, H, L, S] over source tokens.
        some: rows that see a slot, [B, H, L].
        tokens: source tokens with end-of-sentence, [B, S].
        gold: [B, L, S] as `Truth` has it, or None.
    """
    share = shared(weights.abs())
    place = torch.arange(weights.shape[-1], device=weights.device)
    count = tokens.sum(1)
    last = (place < count[:, None] - 1) & (place >= count[:, None] - 3)
    end = place == count[:, None] - 1
    found = {
        "last_two_mass": mean((share * last[:, None, None]).sum(-1), some & (count > 1)[:, None, None]),
        "end_mass": mean((share * end[:, None, None]).sum(-1), some),
    }
    if gold is not None:
        part = some * gold.amax(-1)[:, None]
        found["gold_mass"] = ((share * (gold[:, None] > 0)).sum(-1) * part).sum((0, 2)) / part.sum((0, 2))
    return found


@torch.inference_mode(False)
def gradients(model: Translator, batch: Batch, truth: Truth) -> dict[str, Any]:
    """Measure the gradient of a target token's loss at each source token, g_ts = ‖∂(−log p(y_t)) / ∂e_s‖.

    e_s is the row of the embedding table, before the model multiplies it by √D; with factors split, that of the name
    alone. Measured are `SENTENCES` of a batch and four target tokens t of each, of which a short target has some twice.
    End-of-sentence tokens are left out. All are null where no gradient arrives.

    norm: ‖∂(−log p(y_t)) / ∂E‖_F over the rows of all source tokens, its mean over t.
    by_way: g_ts / (mean of g_t over s) at the gold source token s of t (or min(t, last) where the corpus has no gold),
        its mean by bin of the distance from s to the end of the source: how far a state that is read at the end must
        carry it. In a bidirectional encoder the middle of the source is the farthest. The bins are `POSITIONS`.
    far_near_way: the farthest bin with a mean over the nearest; 1 where the way costs nothing.
    """
    few = Batch(*(tensor[:SENTENCES].repeat_interleave(len(TARGET_POSITIONS), 0) for tensor in batch))
    row = torch.arange(len(few.source), device=few.source.device)
    length = (few.wanted != PAD).sum(1) - 1
    share = torch.tensor(TARGET_POSITIONS, device=length.device).repeat(len(row) // len(TARGET_POSITIONS))
    position = (share * (length - 1).clamp(min=0)).round().long()
    real = few.mask.clone()
    real[row, few.mask.sum(1) - 1] = False
    gold = truth.get("cross")
    if gold is not None:
        gold = gold[:SENTENCES].repeat_interleave(len(TARGET_POSITIONS), 0)[row, position] > 0
    return profile((at_source(model, few, position) * real).double(), real, position, gold)


def at_source(model: Translator, batch: Batch, position: Tensor) -> Tensor:
    """Return ‖∂(−log p(y_t)) / ∂e_s‖ for t = position[b] of every sentence: [B, S]. One backward pass suffices."""
    leaves = []

    def leaf(module: nn.Module, given: Any, embedded: Tensor) -> Tensor:
        leaves.append(embedded.detach().requires_grad_())
        return leaves[-1]

    training = model.training
    model.eval()
    handle = model.source_embedding.register_forward_hook(leaf)
    try:  # cuDNN's recurrent layers have no backward pass in evaluation mode
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            output = model.decode(model.encode(batch.source, batch.mask), batch.given).logits
            row = torch.arange(len(position), device=position.device)
            loss = F.cross_entropy(output[row, position], batch.wanted[row, position], reduction="sum")
            found: Tensor | None = torch.autograd.grad(loss, leaves, allow_unused=True)[0]
    finally:
        handle.remove()
        model.train(training)
    norm: Tensor = found.square().sum(-1).sqrt() if found is not None else torch.zeros(batch.mask.shape)
    return norm.to(batch.mask.device)


def profile(size: Tensor, real: Tensor, position: Tensor, gold: Tensor | None) -> dict[str, Any]:
    """Average gradient norms by distance, as `gradients` returns them.

    Args:
        size: norms g [B, S].
        real: source tokens that are neither padding nor end-of-sentence [B, S].
        position: t [B], of the target token.
        gold: source tokens aligned with it [B, S]; None: the token at the same position.
    """
    slot = torch.arange(real.shape[1], device=real.device)
    count = real.sum(1, keepdim=True)
    if gold is None:
        gold = slot == torch.minimum(position[:, None], count - 1).clamp(min=0)
    total = size.square().sum(1).sqrt()
    relative = size * count / size.sum(1, keepdim=True).clamp(min=1e-300)
    way = (count - 1 - slot).expand_as(size)
    bins = torch.bucketize(way, torch.tensor(POSITIONS, device=way.device), right=True) - 1
    means = []
    for b in range(len(POSITIONS)):
        inside = relative[(total > 0)[:, None] & real & gold & (bins == b)]
        means.append(float(inside.mean()) if len(inside) >= FEWEST else None)
    known = [value for value in means if value is not None]
    return {
        "norm": number(float(total.mean())) if (total > 0).any() else None,
        "by_way": means,
        "far_near_way": known[-1] / known[0] if len(known) > 1 and known[0] else None,
    }


def number(value: float) -> float | None:
    """Return a number; None for NaN or infinity."""
    return value if math.isfinite(value) else None


def site_means(diagnostics: Diagnostics) -> Any:
    """Return the means over layers and heads that the history keeps, by site; without those of no value."""
    found: dict[str, dict[str, float]] = {}
    for site, layers in diagnostics.items():
        found[site] = {}
        for name in IN_HISTORY:
            known = [value for layer in layers for value in layer.get(name) or () if value is not None]
            if known:
                found[site][name] = sum(known) / len(known)
    return brief(found)
