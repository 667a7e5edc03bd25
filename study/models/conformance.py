"""Checks that every mechanism must pass, built in or a user's own. `study check` prints them.

Small sites and models in float64, with padding: B batch · H heads · L queries · S slots · D width · K key width.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from study.attention import (
    Attention,
    AttentionCall,
    Combine,
    Lengths,
    Memory,
    Mixing,
    Reach,
    Scale,
    Score,
    View,
    Weighting,
)
from study.attention.part import Part
from study.config import Attention as Config
from study.config import experiment_from, plugins
from study.config.mechanisms import AXES
from study.models.build import build, initialise

B, H, L, S, D = 2, 3, 5, 7, 24
LENGTHS = Lengths(longest=16, typical=12)
KINDS: dict[str, type[Part]] = {kind.axis: kind for kind in (Score, Scale, Weighting, Combine, Reach, Mixing)}
"""Axis ↦ the class that its values are subclasses of."""


class Check(NamedTuple):
    """One check and its outcome."""

    name: str
    problem: str
    """The mistake and its remedy; empty if the mechanism passes."""
    note: str = ""
    """Why the check does not apply, if it does not."""


class CheckFailedError(Exception):
    """A mechanism fails a check."""


class NotApplicableError(Exception):
    """A check has nothing to test, for the reason given."""


def check(axis: str, value: str) -> Iterator[Check]:
    """Yield the outcome of every check that belongs to an axis.

    Args:
        axis: field of an attention or model, such as `score`.
        value: name of a built-in value, or of a user's own class as `study.config.plugins` reads it.
    """
    cases = (reference, *MODEL_CHECKS) if axis == "mixing" else (*SITE_CHECKS, *OWN_CHECKS.get(axis, ()), *MODEL_CHECKS)
    for case in cases:
        name = (inspect.getdoc(case) or "").splitlines()[0].rstrip(".")
        try:
            case(axis, value)
        except CheckFailedError as problem:
            yield Check(name, str(problem))
        except NotApplicableError as reason:
            yield Check(name, "", str(reason))
        except Exception as problem:
            text = str(problem).strip().splitlines()
            yield Check(name, f"{type(problem).__name__}: {text[0] if text else 'no message'}")
        else:
            yield Check(name, "")


def _site(axis: str, value: str, **fields: Any) -> Attention:
    """Return an initialised site in float64, in evaluation."""
    given: dict[str, Any] = {"heads": H, axis: value, **fields}
    row = AXES[axis][value]
    if axis == "weights" and row.scale:
        given["scale"] = row.scale
    site = Attention(Config(**given).resolved(D, D), D, D, LENGTHS)
    initialise(site, 1)
    return site.double().eval()


def _states(count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(B, count, D, generator=generator, dtype=torch.float64)


def _mask() -> Tensor:
    """[B, S]: the second sentence has three slots."""
    mask = torch.ones(B, S, dtype=torch.bool)
    mask[1, 3:] = False
    return mask


def _view(mask: Tensor, queries: int = L, start: int = 0) -> View:
    return View(mask if mask.ndim == 4 else mask[:, None, None], torch.arange(start, start + queries))


def _context(site: Attention, query: Tensor, memory: Memory, view: View) -> Tensor:
    out: Tensor = site(query, memory, view)[0]
    return out


def _equal(one: Tensor, other: Tensor, problem: str) -> None:
    if one.shape != other.shape:
        raise CheckFailedError(f"{problem}; shapes are {list(one.shape)} and {list(other.shape)}")
    if not torch.allclose(one, other, rtol=1e-8, atol=1e-10, equal_nan=True):
        raise CheckFailedError(f"{problem}; the largest difference is {(one - other).abs().max():.2g}")


def shapes(axis: str, value: str) -> None:
    """Output is finite, of shape [B, L, D]."""
    site = _site(axis, value)
    out = _context(site, _states(L), site.remember(_states(S, 1), _mask()), _view(_mask()))
    if out.shape != (B, L, site.width):
        raise CheckFailedError(f"expected an output of shape {[B, L, site.width]}, got {list(out.shape)}")
    if not out.isfinite().all():
        raise CheckFailedError("expected finite numbers, got inf or nan")


def gradients(axis: str, value: str) -> None:
    """Every parameter gets a finite gradient."""
    site = _site(axis, value).train()
    states = _states(S, 1).requires_grad_()
    out, terms = site(_states(L), site.remember(states, _mask()), _view(_mask()))
    loss = out.square().sum() + sum((term.sum() for term in terms if isinstance(term, Tensor)), out.new_zeros(()))
    named = {name: parameter for name, parameter in site.named_parameters() if parameter.requires_grad}
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    for name, gradient in zip(named, found, strict=True):
        if gradient is None and (name.startswith(f"{axis}.") or axis == "combine"):
            raise CheckFailedError(f"parameter {name} gets no gradient: it is not used, or a step detaches it")
        if gradient is not None and not gradient.isfinite().all():
            raise CheckFailedError(f"the gradient of {name} is inf or nan")


def nothing_to_attend_to(axis: str, value: str) -> None:
    """A query that sees no slot gets a zero context and finite gradients."""
    site = _site(axis, value).train()
    states, mask = _states(S, 1).requires_grad_(), _mask()
    mask[1] = False
    out = _context(site, _states(L), site.remember(states, mask), _view(mask))
    if out[1].abs().max() != 0:
        raise CheckFailedError(f"expected 0, got numbers up to {out[1].abs().max():.2g}. Give weight 0 to hidden slots")
    (gradient,) = torch.autograd.grad(out.sum(), states, allow_unused=True)
    if gradient is not None and not gradient.isfinite().all():
        raise CheckFailedError("the gradient is inf or nan. Replace empty rows before the operation that divides by 0")


def padding(axis: str, value: str) -> None:
    """Padding changes nothing, neither by its content nor by its length."""
    site, states = _site(axis, value), _states(S, 1)
    other = torch.where(_mask()[..., None], states, 9 * _states(S, 2))
    first = _context(site, _states(L), site.remember(states, _mask()), _view(_mask()))
    second = _context(site, _states(L), site.remember(other, _mask()), _view(_mask()))
    _equal(first, second, "the content of padded slots changes the output. Use view.mask")
    longer, mask = nn.functional.pad(states, (0, 0, 0, 2)), nn.functional.pad(_mask(), (0, 2))
    third = _context(site, _states(L), site.remember(longer, mask), _view(mask))
    _equal(first, third, "two more padded slots change the output. Count visible slots by view.mask, not by shape")


def _causal(count: int) -> Tensor:
    return torch.tril(torch.ones(count, count, dtype=torch.bool))[None, None].expand(B, 1, -1, -1)


def causality(axis: str, value: str) -> None:
    """In causal self-attention, later tokens do not change earlier outputs."""
    if axis == "reach" and AXES[axis][value].cross_only:
        raise NotApplicableError("it belongs to cross-attention alone")
    site, states, mask = _site(axis, value), _states(S), torch.ones(B, S, dtype=torch.bool)
    changed = torch.cat([states[:, :-1], 9 * states[:, -1:]], 1)
    first, second = (_context(site, x, site.remember(x, mask), _view(_causal(S), S))[:, :-1] for x in (states, changed))
    _equal(first, second, "a hidden later token changes an earlier output. Use view.mask")


def incremental(axis: str, value: str) -> None:
    """Token by token equals all at once, as decoding needs."""
    site, states, mask = _site(axis, value), _states(S), torch.ones(B, S, dtype=torch.bool)
    whole = _context(site, states, site.remember(states, mask), _view(_causal(S), S))
    grown = site.remember(states[:, :0], mask[:, :0])
    for t in range(S):
        grown = site.extend(grown, states[:, t : t + 1])
        now = _view(_causal(S)[:, :, t : t + 1, : t + 1], 1, start=t)
        out = _context(site, states[:, t : t + 1], grown, now)
        _equal(out[:, 0], whole[:, t], "a slot's preparation depends on the other slots, or on the number of queries")


def fused(axis: str, value: str) -> None:
    """The fused kernel equals the explicit formula."""
    site = _site(axis, value)
    if not site.fusable:
        raise NotApplicableError("it is not declared as fusable")
    memory = site.remember(_states(S, 1), _mask())
    quick = _context(site, _states(L), memory, _view(_mask()))
    _equal(quick, _context(site, _states(L), memory, _view(_mask())), "two equal calls differ")
    site.tap = lambda seen: None
    explicit = _context(site, _states(L), memory, _view(_mask()))
    _equal(quick, explicit, "fusable is declared, and the fused kernel computes another function. Leave fusable out")


def removed_heads(axis: str, value: str) -> None:
    """Removing heads equals gating them to 0, as pruning needs."""
    site = _site(axis, value)
    memory, kept = site.remember(_states(S, 1), _mask()), (0, 2)
    smaller = site.reduced(kept)
    gate = torch.zeros(H, 1, 1, dtype=torch.float64)
    gate[list(kept)] = 1

    class Gate(nn.Module):
        def forward(self, heads: Tensor) -> Tensor:
            return heads * gate

    site.gate = Gate()
    site.tap = lambda seen: None
    smaller.tap = lambda seen: None
    gated = _context(site, _states(L), memory, _view(_mask()))
    _equal(
        gated,
        _context(smaller, _states(L), smaller.remember(_states(S, 1), _mask()), _view(_mask())),
        "parameters are not sliced by head. Let their first axis be the heads', or define keep(heads)",
    )


def _seen(site: Attention, query: Tensor, states: Tensor, mask: Tensor) -> AttentionCall:
    calls: list[AttentionCall] = []
    site.tap = calls.append
    _context(site, query, site.remember(states, mask), _view(mask))
    site.tap = None
    return calls[0]


def what_it_reads(axis: str, value: str) -> None:
    """A score depends on what its facts say that it reads."""
    site, facts = _site(axis, value), AXES[axis][value]
    base = _seen(site, _states(L), _states(S, 1), _mask()).logits
    moved = {
        "query": _seen(site, 2 * _states(L, 3), _states(S, 1), _mask()).logits,
        "key": _seen(site, _states(L), 2 * _states(S, 4), _mask()).logits,
    }
    for name, logits in moved.items():
        changes = not torch.equal(base, logits)
        if changes != (name in facts.reads):
            does = "changes" if changes else "does not change"
            raise CheckFailedError(f"the score {does} with the {name}, and facts.reads is {facts.reads}. Correct it")


def rescaling(axis: str, value: str) -> None:
    """With facts.matrix, the score's own parameter multiplies it."""
    site = _site(axis, value)
    if not AXES[axis][value].matrix:
        raise NotApplicableError("it has no matrix of its own")
    base, factor = _seen(site, _states(L), _states(S, 1), _mask()).logits, torch.tensor([2.0, 3.0, 5.0]).double()
    if not site.score.rescale(factor):
        raise CheckFailedError("facts.matrix is true. Define rescale(factor), which scales the score and returns True")
    now = _seen(site, _states(L), _states(S, 1), _mask()).logits
    _equal(now, base * factor[:, None, None], "rescale(factor) does not multiply the score of head h by factor[h]")


def distribution(axis: str, value: str) -> None:
    """Weights are 0 at hidden slots, and sum to 1 if facts say so."""
    weighting, facts = Weighting.named(value)(), AXES[axis][value]
    for dtype, size in ((torch.float64, 1.0), (torch.float32, 1e4), (torch.float16, 1e4)):
        logits = (torch.randn(B, H, L, S, generator=torch.Generator().manual_seed(5)) * size).to(dtype)
        weights = weighting(logits, _mask()[:, None, None])
        if weights.masked_select(~_mask()[:, None, None].expand_as(weights)).any():
            raise CheckFailedError("a hidden slot has weight. Multiply by the mask, or fill with −inf before a softmax")
        if weights.dtype == torch.float16:
            raise CheckFailedError(
                "weights are in half precision. Compute them in float32: study.attention.weighting.to_float32"
            )
        if facts.sums_to_one and not torch.allclose(weights.sum(-1), torch.ones((), dtype=weights.dtype), atol=1e-5):
            raise CheckFailedError("facts.sums_to_one is true, and rows do not sum to 1")


def reference(axis: str, value: str) -> None:
    """The class equals its own reference in float64."""
    written = KINDS[axis].named(value).reference
    if written is None:
        raise NotApplicableError("the class has no static method `reference`")
    got, wanted = _with_reference(axis, value, written)
    _equal(got, wanted, "the class differs from its reference")


def _with_reference(axis: str, value: str, written: Callable[..., Any]) -> tuple[Tensor, Tensor]:
    """Return what a class computes, and what its reference gives for the same input."""
    if axis == "mixing":
        layer = Mixing.named(value)(D)
        initialise(layer, 1)
        mixed = layer.double()(_states(S), layer.remember(_states(S), _mask()), _view(_mask(), S))[0]
        return mixed, written(_states(S), _mask(), _numbers(layer))
    site, states = _site(axis, value), _states(S, 1)
    seen, mask = _seen(site, _states(L), states, _mask()), _mask()[:, None, None]
    if axis == "score":
        return seen.logits, written(seen.query, site.map_key(states), _numbers(site.score)) * site.scale()
    if axis == "scale":
        factor = torch.as_tensor(site.scale(), dtype=torch.float64)
        return factor, torch.as_tensor(written(site.score.d), dtype=torch.float64).expand_as(factor)
    if axis == "weights":
        return seen.normalised, written(seen.logits, mask)
    if axis == "reach":
        return seen.weights, written(seen.logits, mask)
    return site.combine(seen.heads), written(seen.heads, _numbers(site.combine))


def _numbers(part: nn.Module) -> dict[str, Tensor]:
    return {**dict(part.named_parameters()), **dict(part.named_buffers())}


def both_families(axis: str, value: str) -> None:
    """Models of both families decode step by step as they are trained."""
    field = "model.mixing" if axis == "mixing" else f"model.attention.cross.{axis}"
    scale = AXES[axis][value].scale if axis == "weights" else ""
    families = ("transformer",) if axis == "mixing" else ("recurrent", "transformer")
    for family in families:
        overrides = {
            "model.family": family,
            "model.width": D,
            "model.layers": 1,
            "model.attention.heads": H,
            field: value,
        }
        if scale:
            overrides["model.attention.cross.scale"] = scale
        if axis == "combine":
            overrides |= {"model.attention.cross.values": "projected", "model.attention.cross.output": "projected"}
            if AXES[axis][value].wide:
                overrides["model.attention.cross.output"] = "raw"
        model = build(experiment_from(overrides).model, 13, 1, LENGTHS).double().eval()
        tokens = torch.Generator().manual_seed(6)
        source, target = (torch.randint(4, 13, (B, n), generator=tokens) for n in (S, L))
        encoded = model.encode(source, _mask())
        whole, state = model.decode(encoded, target).logits, encoded.state
        for t in range(L):
            logits, state = model.step(target[:, t], state, encoded)
            _equal(logits, whole[:, t], f"{family}: step {t} of decoding differs from teacher forcing")
        longer = nn.functional.pad(source, (0, 2)), nn.functional.pad(_mask(), (0, 2))
        padded = model.decode(model.encode(*longer), target).logits
        _equal(padded, whole, f"{family}: padding of the source changes the output")


def axis_of(plugin: plugins.Plugin) -> str:
    """Return the axis of a user's own class, from the class that it is a subclass of. Runs its file.

    Raises:
        InputError: the file cannot be run, or the class is a subclass of no kind of mechanism.
    """
    return Part.named(plugin.value).axis


Case = Callable[[str, str], None]
SITE_CHECKS: tuple[Case, ...] = (
    *(shapes, gradients, nothing_to_attend_to, padding, causality, incremental, fused, removed_heads, reference),
)
OWN_CHECKS: dict[str, tuple[Case, ...]] = {"score": (what_it_reads, rescaling), "weights": (distribution,)}
MODEL_CHECKS: tuple[Case, ...] = (both_families,)
