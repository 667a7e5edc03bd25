"""Checks that every mechanism must pass, built in or a user's own. `study check` and the tests run them.

Small sites and models with padding: B batch · H heads · L queries · S slots · D width.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention import AttentionCall, Lengths, View
from study.attention.positions import Positions
from study.attention.site import build_site
from study.config import Attention as Config
from study.config import Recurrent, Transformer, experiment_from, plugins
from study.config.mechanisms import AXES, REACH, SCORE
from study.errors import InputError
from study.models.build import build, construct, initialise
from study.models.translator import Translator, select

B, H, L, S, D, VOCABULARY = 2, 3, 5, 7, 24, 13
LONG = 120
"""Slots of a memory from which every window of half-width 1 is gathered."""
LENGTHS = Lengths(longest=16, typical=12)
SITES = ("encoder_self", "decoder_self", "cross")


class CheckFailedError(Exception):
    """A mechanism fails a check."""


class Case(NamedTuple):
    """A mechanism under test: one value of one axis, as `study.config.mechanisms` names them."""

    axis: str
    value: str

    @property
    def facts(self) -> Any:
        """Row of the value."""
        return AXES[self.axis][self.value]

    def fields(self) -> dict[str, Any]:
        """Return the fields of a site that takes the value."""
        if self.axis == "site":
            return {"site": self.value} | ({"heads": H} if "heads" in self.facts.options else {})
        given: dict[str, Any] = {"heads": H} | ({self.axis: self.value} if self.axis in Config.model_fields else {})
        if self.axis == "weights" and self.facts.scale:
            given["scale"] = self.facts.scale
        if self.axis == "weights" and self.facts.positive:
            given["score"] = SCORE.those(lambda row: row.positive)[0]
        if self.axis == "combine":
            given |= {"values": "projected", "output": "raw" if self.facts.wide else "projected"}
        return given

    def site(self, **fields: Any) -> Any:
        """Return an initialised site in float64, in evaluation: `Attention`, or `Whole` for axis site."""
        config = Config(**self.fields() | fields).resolved(D, D)
        positions = None
        if self.axis == "positions":
            chosen = Positions.named(self.value)
            positions = chosen(D, **chosen.taken({"heads": H, "lengths": LENGTHS}))
            initialise(positions, 1)
            positions.double()
        site = build_site(config, D, D, LENGTHS, positions=positions)
        initialise(site, 1)
        return site.double().eval()

    @property
    def stands(self) -> tuple[str, ...]:
        """Sites at which it may stand."""
        return tuple(self.facts.sites) if self.axis == "site" else SITES

    def reaches(self) -> list[dict[str, Any]]:
        """Return the fields of every reach that the mechanism takes."""
        if self.axis == "reach":
            return [{"window": 1} if self.facts.local else {}]
        found: list[dict[str, Any]] = []
        for reach in REACH if self.axis in Config.model_fields.keys() - {"site"} else ():
            given = {"reach": reach} | ({"window": 1} if REACH[reach].local else {})
            with suppress(ValueError):
                Config(**self.fields() | given).resolved(D, D)
                found.append(given)
        return found or [{}]

    def given(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, states and the mask of a call that the site takes."""
        if "cross" in self.stands:
            return _states(L), _states(S, 1), _mask()
        causal = torch.ones(S, S, dtype=torch.bool).tril().expand(B, 1, S, S)
        return _states(S), _states(S), _mask() if "encoder_self" in self.stands else causal

    def models(self, **reach: Any) -> list[Recurrent | Transformer]:
        """Return a model of each family that takes the mechanism: at every site, or at cross alone.

        Raises:
            CheckFailedError: no model takes it.
        """
        found, refused, fields = [], "", self.fields() | reach
        for family in (Recurrent, Transformer):
            sites = family.model_fields["attention"].annotation.model_fields  # type: ignore[union-attr]
            choices: list[dict[str, Any]] = [
                {f"attention.{site}.{name}": value for site in some for name, value in fields.items()}
                for some in ([site for site in sites if site in self.stands], ["cross"])
                if some and self.axis in fields
            ]
            if self.axis in family.model_fields:
                choices = [{self.axis: self.value}]
            sizes = {"family": family.model_fields["family"].default, "width": D, "layers": 1, "dropout": 0.0}
            for given in choices:
                try:
                    found.append(experiment_from({f"model.{name}": v for name, v in (sizes | given).items()}).model)
                    break
                except InputError as problem:
                    refused = str(problem)
        if not found:
            raise CheckFailedError(f"no model takes it: {refused}")
        return found


class Check(NamedTuple):
    """One check and its outcome."""

    name: str
    problem: str
    """The mistake and its remedy; empty if the mechanism passes."""


Test = Callable[[Case], None]


def check(axis: str, value: str) -> Iterator[Check]:
    """Yield the outcome of every check that applies. An error that the class raises ends them.

    Args:
        axis: field of an attention or model, such as `score`.
        value: name of a built-in value, or of a user's own class as `study.config.plugins` reads it.
    """
    case = Case(axis, value)
    for test in _tests(case):
        name = (inspect.getdoc(test) or "").partition("\n")[0].rstrip(".")
        try:
            test(case)
        except CheckFailedError as problem:
            yield Check(name, str(problem))
        except Exception as problem:
            text = f"{type(problem).__name__}: {problem}".strip().partition("\n")[0]
            where = plugins.line_of(problem)
            hint = "No line of the class raises it: compare its facts, arguments, shapes"
            yield Check(name, f"{where}: {text}" if where else f"{text}. {hint}")
            return
        else:
            yield Check(name, "")


def _tests(case: Case) -> Iterator[Test]:
    """Yield the checks that apply to a mechanism."""
    axis = case.axis
    inside = axis == "positions" and Positions.named(case.value).inside
    if inside or axis in Config.model_fields:
        yield from (shapes, gradients)
        if "cross" in case.stands:
            yield empty_rows
        if axis != "site":
            yield from (windows, taps)
        if axis != "site" and not (axis == "combine" and case.facts.mixes_logits):
            yield removed_heads
    if axis in ("score", "scale", "weights", "reach", "combine") and getattr(case.site(), axis).reference:
        yield reference
    if axis == "score":
        yield what_it_reads
    if axis == "weights":
        yield distribution
    yield from (padding, decoding, training, devices)


def _states(count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(B, count, D, generator=generator, dtype=torch.float64)


def _mask(count: int = S) -> Tensor:
    """[B, S]: the second sentence has three slots."""
    mask = torch.ones(B, count, dtype=torch.bool)
    mask[1, 3:] = False
    return mask


def _attend(site: Any, query: Tensor, states: Tensor, mask: Tensor) -> Tensor:
    """Return the contexts of queries over the states; the mask is [B, S], or [B, 1, L, S]."""
    real = mask if mask.ndim == 2 else mask.new_ones(states.shape[:2])
    view = View(mask[:, None, None] if mask.ndim == 2 else mask, torch.arange(query.shape[1]))
    contexts: Tensor
    contexts, site.terms = site(query, site.remember(states, real), view)
    return contexts


def _tapped(site: Any, query: Tensor, states: Tensor, mask: Tensor) -> AttentionCall:
    calls: list[AttentionCall] = []
    site.tap = calls.append
    _attend(site, query, states, mask)
    site.tap = None
    return calls[0]


def _equal(one: Tensor, other: Tensor, problem: str, tolerance: float = 1e-8) -> None:
    if one.shape != other.shape:
        raise CheckFailedError(f"{problem}; shapes are {list(one.shape)} and {list(other.shape)}")
    if not torch.allclose(one, other, rtol=tolerance, atol=tolerance / 100, equal_nan=True):
        raise CheckFailedError(f"{problem}; the largest difference is {(one - other).abs().max():.2g}")


def _must(holds: object, problem: str) -> None:
    if not holds:
        raise CheckFailedError(problem)


def shapes(case: Case) -> None:
    """Results are finite and have their shapes."""
    site = case.site()
    query, states, mask = case.given()
    out, wanted = _attend(site, query, states, mask), [B, query.shape[1], site.width]
    _must(list(out.shape) == wanted, f"expected an output of shape {wanted}, got {list(out.shape)}")
    _must(out.isfinite().all(), "expected finite numbers, got inf or nan")


def gradients(case: Case) -> None:
    """A finite gradient reaches every parameter, and in it every head."""
    site = case.site().train()
    out = _attend(site, *case.given())
    loss = out.square().sum() + sum(term.sum() for term in site.terms if isinstance(term, Tensor))
    every = (*site.named_parameters(), *(() if case.axis != "positions" else site.positions.named_parameters()))
    named = {name: parameter for name, parameter in every if parameter.requires_grad}
    _used(named, torch.autograd.grad(loss, list(named.values()), allow_unused=True))


def _used(named: dict[str, nn.Parameter], found: tuple[Tensor | None, ...]) -> None:
    for name, gradient in zip(named, found, strict=True):
        if gradient is None:
            raise CheckFailedError(f"parameter {name} gets no gradient: it is not used, or a step detaches it")
        _must(gradient.isfinite().all(), f"the gradient of {name} is inf or nan")
        by_head = gradient.reshape(H, -1).abs().amax(1) if len(gradient) == H else gradient.abs().max()[None]
        of = f" of head {int(by_head.argmin())}" if len(by_head) > 1 else ""
        _must(by_head.all(), f"the gradient of {name}{of} is 0: the output does not depend on it")


def empty_rows(case: Case) -> None:
    """A query that sees no slot gets a zero context and finite gradients."""
    site = case.site().train()
    states, mask = _states(S, 1).requires_grad_(), _mask()
    mask[1] = False
    out = _attend(site, _states(L), states, mask)
    largest = out[1].abs().max()
    _must(largest == 0, f"expected 0, got numbers up to {largest:.2g}. Give weight 0 to hidden slots")
    (gradient,) = torch.autograd.grad(out.sum(), states, allow_unused=True)
    finite = gradient is None or gradient.isfinite().all()
    _must(finite, "the gradient is inf or nan. Replace empty rows before the operation that divides by 0")


def windows(case: Case) -> None:
    """Every reach takes long sources, and gathered windows equal masked ones."""
    for reach in case.reaches():
        site, states, query = case.site(**reach), _states(LONG, 1), _states(L)
        gathered = _attend(site, query, states, _mask(LONG))
        site.gather_from = math.inf
        masked = _attend(site, query, states, _mask(LONG))
        _equal(gathered, masked, f"{reach}: a gathered window differs. Let gather_from be infinite")


def taps(case: Case) -> None:
    """The fused kernel, or a repeated call, equals the explicit formula."""
    site, given = case.site(), case.given()
    quick = _attend(site, *given)
    _equal(quick, _attend(site, *given), "two equal calls differ")
    site.tap = lambda call: None
    explicit = _attend(site, *given)
    _equal(
        quick, explicit, "the kernel computes another function. Define forward, or correct prepare and prepare_query"
    )


def removed_heads(case: Case) -> None:
    """Removing each head equals gating it to 0, as pruning needs."""
    for gone in range(H):
        site, given = case.site(), case.given()
        smaller = _attend(site.reduced([head for head in range(H) if head != gone]), *given)
        others = (torch.arange(H) != gone)[:, None, None]
        site.gate.register_forward_hook(lambda gate, inputs, heads, others=others: heads * others)
        why = "parameters are not sliced by head. Let their first axis be the heads', or define keep(heads)"
        _equal(smaller, _attend(site, *given), f"without head {gone}: {why}")


def reference(case: Case) -> None:
    """The class equals its own reference in float64."""
    site = case.site()
    seen = _tapped(site, *case.given())
    part: Any = getattr(site, case.axis)
    result, given = {
        "score": (seen.logits / site.scale(), (seen.query, site.map_key(_states(S, 1)))),
        "scale": (torch.as_tensor(site.scale()), (site.score.d,)),
        "weights": (seen.normalised, (seen.logits, seen.mask)),
        "reach": (seen.weights, (seen.logits, seen.mask)),
        "combine": (site.combine(seen.heads), (seen.heads,)),
    }[case.axis]
    numbers = {**dict(part.named_parameters()), **dict(part.named_buffers())}
    parameters = (numbers,) if "parameters" in inspect.signature(part.reference).parameters else ()
    wanted = torch.as_tensor(part.reference(*given, *parameters), dtype=torch.float64)
    _equal(result.double(), wanted.expand_as(result), "the class differs from its reference")


def what_it_reads(case: Case) -> None:
    """A score depends on what its facts say that it reads."""
    site, given = case.site(), (_states(L), _states(S, 1))
    base = _tapped(site, *given, _mask()).logits
    for name, moved in (("query", (2 * _states(L, 3), given[1])), ("key", (given[0], 2 * _states(S, 4)))):
        changes = not torch.equal(base, _tapped(site, *moved, _mask()).logits)
        does = "changes" if changes else "does not change"
        right = changes == (name in case.facts.reads)
        _must(right, f"the score {does} with the {name}, and facts.reads is {case.facts.reads}. Correct it")


def distribution(case: Case) -> None:
    """Weights are 0 at hidden slots, in float32 or better, and sum to 1 if facts say so."""
    weighting, mask = case.site().weights, _mask()[:, None, None]
    for dtype, size in ((torch.float64, 1.0), (torch.float32, 1e4), (torch.float16, 1e4)):
        logits = (torch.randn(B, H, L, S, generator=torch.Generator().manual_seed(5)) * size).to(dtype)
        weights = weighting(logits, mask)
        hidden = weights.masked_select(~mask.expand_as(weights))
        _must(not hidden.any(), "a hidden slot has weight. Multiply by the mask, or fill with −inf before a softmax")
        full = weights.dtype != torch.float16
        _must(full, "weights are in half precision. Compute them in float32: study.attention.weighting.to_float32")
        sums = not case.facts.sums_to_one or ((weights.sum(-1) - 1).abs() < 2e-5).all()
        _must(sums, "facts.sums_to_one is true, and rows do not sum to 1")


def _tokens() -> tuple[Tensor, Tensor]:
    """Source [B, S] and target [B, L]."""
    tokens = torch.randint(4, VOCABULARY, (B, S + L), generator=torch.Generator().manual_seed(6))
    return tokens[:, :S], tokens[:, S:]


def padding(case: Case) -> None:
    """Padding of the source changes nothing, neither by its content nor by its length."""
    for config in case.models():
        model = build(config, VOCABULARY, 1, LENGTHS).double().eval()
        (source, target), mask = _tokens(), _mask()
        whole = model.decode(model.encode(source, mask), target).logits
        other = model.decode(model.encode(torch.where(mask, source, source.flip(1)), mask), target).logits
        _equal(other, whole, f"{config.family}: the content of padded slots changes the output. Use view.mask")
        longer = model.decode(model.encode(F.pad(source, (0, 2)), F.pad(mask, (0, 2))), target).logits
        why = "two more padded slots change the output. Count visible slots by view.mask, not by shape"
        _equal(longer, whole, f"{config.family}: {why}")


def decoding(case: Case) -> None:
    """Models with every reach decode token by token as they are trained, and beams can be reordered."""
    for reach in case.reaches():
        for config in case.models(**reach):
            model = build(config, VOCABULARY, 1, LENGTHS).double().eval()
            source, target = _tokens()
            encoded = model.encode(source, _mask())
            whole, state = model.decode(encoded, target).logits, encoded.state
            for t in range(L):
                logits, state = model.step(target[:, t], state, encoded)
                why = "A slot depends on other slots, or a position is not that of view.position"
                _equal(
                    logits,
                    whole[:, t],
                    f"{config.family}, {reach}: step {t} of decoding differs from teacher forcing. {why}",
                )
                turned = torch.tensor([1, 0])
                whole, target, state, encoded = (select(x, turned) for x in (whole, target, state, encoded))


def training(case: Case) -> None:
    """A step of training in float32 equals one in float64 within rounding."""
    for config in case.models():
        single, double = (
            _trained(build(config, VOCABULARY, 1, LENGTHS).to(dtype), case) for dtype in (torch.float32, torch.float64)
        )
        _must(single.isfinite().all(), f"{config.family}: after one step in float32, numbers are inf or nan")
        _equal(single.double(), double, f"{config.family}: float32 and float64 differ after one step", 1e-2)


def _trained(model: Translator, case: Case) -> Tensor:
    """Return the logits after one step of gradient descent. Mixing and positions have no site that tests their use."""
    (source, target), named = _tokens(), dict(model.named_parameters())
    logits = model.decode(model.encode(source, _mask()), target).logits
    loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
    slopes = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    if case.axis in ("mixing", "positions"):
        _used(named, slopes)
    with torch.no_grad():
        for parameter, slope in zip(named.values(), slopes, strict=True):
            parameter.sub_(0.1 * slope if slope is not None else 0.0)
        return model.decode(model.encode(source, _mask()), target).logits


def devices(case: Case) -> None:
    """It is built on another device, and moved there."""
    *_, config = case.models()
    with torch.device("meta"):
        construct(config, VOCABULARY, LENGTHS)
    model = build(config, VOCABULARY, 1, LENGTHS).to("meta")
    source, target, mask = (x.to("meta") for x in (*_tokens(), _mask()))
    encoded = model.encode(source, mask)
    model.decode(encoded, target)
    model.step(target[:, 0], encoded.state, encoded)
