"""Checks that every mechanism must pass, built in or a user's own. `study check` and the tests run them.

Every check builds small models that have the mechanism, of each family that takes it, and gives them sentences with
padding. All but the check of gradients draw every parameter.

B batch · H heads · L target tokens · S source tokens · D width.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from study.attention import Lengths, Whole
from study.attention.part import Part
from study.config import AttentionConfig, experiment_from, plugins
from study.config.mechanisms import AXES, REACH, SCORE, SiteFacts
from study.config.overrides import UNIONS
from study.errors import InputError
from study.models.build import Config as Declared
from study.models.build import build, construct, generator
from study.models.layer import Attention
from study.models.translator import Translator, select

B, H, L, S, D, VOCABULARY = 2, 3, 5, 7, 24, 13
LONG = 120
"""Source tokens from which every window of half-width 1 is gathered."""
LENGTHS = Lengths(longest=LONG, typical=12)


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
        given: dict[str, Any] = {self.axis: self.value} if self.axis in AttentionConfig.model_fields else {}
        if self.axis == "site" and "heads" in self.facts.options:
            given["heads"] = H
        if self.axis == "weights" and self.facts.scale:
            given["scale"] = self.facts.scale
        if self.axis == "weights" and self.facts.positive:
            given["score"] = SCORE.those(lambda row: row.positive)[0]
        if self.axis == "combine":
            given |= {"values": "projected", "output": "raw" if self.facts.wide else "projected"}
        return given

    def configs(self, **reach: Any) -> list[Declared]:
        """Return a configuration of each family that takes the mechanism: at all its sites, or at cross alone.

        Raises:
            CheckFailedError: no model takes it.
        """
        found, refused, fields = [], "", self.fields() | reach
        stands = self.facts.sites if self.axis == "site" else SiteFacts.sites
        families = UNIONS["model"][1].items()
        model: dict[str, Any] = {"width": D, "layers": 1, "dropout": 0.0}
        if self.axis != "site":
            model["attention.heads"] = H
        if self.axis not in AttentionConfig.model_fields:
            model[self.axis] = self.value
        for family, kind in families:
            own = kind.model_fields["attention"].get_default(call_default_factory=True)
            every = [site for site in type(own).model_fields if site in stands]
            for sites in (every, ["cross"]):
                if fields and not sites:
                    continue
                given = {f"attention.{site}.{name}": value for site in sites for name, value in fields.items()}
                try:
                    found.append(experiment_from({"model": {"family": family} | model | given}).model)
                    break
                except InputError as problem:
                    refused = str(problem)
        if not found:
            raise CheckFailedError(f"no model takes it: {refused}")
        return found

    def models(self, initial: bool = False, reach: Mapping[str, Any] = {}) -> Iterator[tuple[str, Translator]]:
        """Yield the family and a model of each of these configurations, in float64.

        Its parameters are `drawn`, unless they are to be the initial ones.
        """
        for config in self.configs(**reach):
            model = build(config, VOCABULARY, 1, LENGTHS).double().eval()
            yield config.family, model if initial else drawn(model)

    def reached(self, reaches: Iterable[str]) -> Iterator[tuple[str, Translator]]:
        """Yield a description and a model of each family with each of these reaches that the mechanism takes."""
        for reach in [self.value] if self.axis == "reach" else reaches:
            given = {"reach": reach} | ({"window": 1} if AXES["reach"][reach].local else {})
            with suppress(CheckFailedError):
                yield from ((f"{family}, {given}", model) for family, model in self.models(reach=given))


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
    yield from (gradients, empty_rows, padding, decoding)
    if case.axis not in ("site", "mixing"):
        yield from (windows, taps)
        if not (case.axis == "combine" and case.facts.mixes_logits):
            yield removed_heads
    if case.axis == "score":
        yield what_it_reads
    if case.axis == "weights":
        yield distribution
    yield from (training, devices)


Model = TypeVar("Model", bound=torch.nn.Module)


@torch.no_grad()
def drawn(model: Model) -> Model:
    """Move every parameter by N(0, 0.1²), in place: a factor that starts at 0 or 1 would hide what it multiplies."""
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator(2, name), dtype=torch.float64)
        parameter.add_(0.1 * noise.to(parameter.dtype))
    return model


def _source(count: int = S) -> tuple[Tensor, Tensor]:
    """Return source tokens [B, S] and their mask; the second sentence has three tokens."""
    mask = torch.ones(B, count, dtype=torch.bool)
    mask[1, 3:] = False
    return torch.randint(4, VOCABULARY, (B, count), generator=torch.Generator().manual_seed(6)), mask


def _target() -> Tensor:
    """Return target tokens [B, L]."""
    return torch.randint(4, VOCABULARY, (B, L), generator=torch.Generator().manual_seed(7))


def _logits(model: Translator, source: Tensor, mask: Tensor) -> Tensor:
    return model.decode(model.encode(source, mask), _target()).logits


def _equal(one: Tensor, other: Tensor, problem: str, tolerance: float = 1e-8) -> None:
    if not torch.allclose(one, other, rtol=tolerance, atol=tolerance / 100, equal_nan=True):
        raise CheckFailedError(f"{problem}; the largest difference is {(one - other).abs().max():.2g}")


def _must(holds: object, problem: str) -> None:
    if not holds:
        raise CheckFailedError(problem)


def gradients(case: Case) -> None:
    """A finite gradient reaches every parameter, and in it every head."""
    for _, model in case.models(initial=True):
        parts = [module for module in model.modules() if isinstance(module, (Part, Whole))]
        own = {parameter for part in parts for parameter in part.parameters()}
        names = [name for name, parameter in model.named_parameters() if parameter in own]
        slopes = _slopes(model.train())
        for name in names:
            gradient = slopes[name]
            if gradient is None:
                raise CheckFailedError(f"parameter {name} gets no gradient: it is not used, or a step detaches it")
            _must(gradient.isfinite().all(), f"the gradient of {name} is inf or nan")
            by_head = gradient.reshape(H if gradient.shape[:1] == (H,) else 1, -1).abs().amax(1)
            of = f" of head {int(by_head.argmin())}" if len(by_head) > 1 else ""
            _must(by_head.all(), f"the gradient of {name}{of} is 0: the output does not depend on it")


def _slopes(model: Translator) -> dict[str, Tensor | None]:
    """Return the gradient of every parameter: of a loss, and of the terms that mechanisms add to it."""
    named = dict(model.named_parameters())
    encoded = model.encode(*_source())
    out = model.decode(encoded, _target())
    terms = [term.sum() for part in (*encoded.terms, *out.terms) for term in part if term is not None]
    loss = F.cross_entropy(out.logits.flatten(0, 1), _target().flatten()) + sum(terms)
    return dict(zip(named, torch.autograd.grad(loss, list(named.values()), allow_unused=True), strict=True))


def empty_rows(case: Case) -> None:
    """A query that sees no slot gets a zero context and finite gradients."""
    for _, model in case.models():
        source, mask = _source()
        mask[1] = False
        contexts: list[Tensor] = []

        def collect(module: Any, given: Any, out: Any, contexts: list[Tensor] = contexts) -> None:
            context, seeing = out[0], given[2].mask.any(-1)[:, 0]
            contexts.append(context[~seeing.expand(context.shape[:2])])

        for _, _, module in model.train().places():
            if case.axis != "mixing":
                module.register_forward_hook(collect)
        logits = _logits(model, source, mask)
        if contexts:
            largest = torch.cat(contexts).abs().max()
            _must(largest == 0, f"expected 0, got numbers up to {largest:.2g}. Give weight 0 to hidden slots")
        slopes = torch.autograd.grad(logits.sum(), list(model.parameters()), allow_unused=True)
        finite = all(slope.isfinite().all() for slope in slopes if slope is not None)
        _must(finite, "the gradient is inf or nan. Replace empty rows before the operation that divides by 0")


def padding(case: Case) -> None:
    """Padding of the source changes nothing, neither by its content nor by its length."""
    for family, model in case.models():
        source, mask = _source()
        whole = _logits(model, source, mask)
        other = _logits(model, torch.where(mask, source, source.flip(1)), mask)
        _equal(other, whole, f"{family}: the content of padded slots changes the output. Use view.mask")
        longer = _logits(model, F.pad(source, (0, 2)), F.pad(mask, (0, 2)))
        why = "two more padded slots change the output. Count visible slots by view.mask, and slots from view.offset"
        _equal(longer, whole, f"{family}: {why}")


def decoding(case: Case) -> None:
    """Models with every reach decode token by token as they are trained, and beams can be reordered."""
    for what, model in case.reached(REACH):
        target, encoded = _target(), model.encode(*_source())
        whole, state = model.decode(encoded, target).logits, encoded.state
        for t in range(L):
            logits, state = model.step(target[:, t], state, encoded)
            why = "A slot depends on other slots, or a position is not that of view.position"
            _equal(logits, whole[:, t], f"{what}: step {t} of decoding differs from teacher forcing. {why}")
            turned = torch.tensor([1, 0])
            whole, target, state, encoded = (select(x, turned) for x in (whole, target, state, encoded))


def windows(case: Case) -> None:
    """Every window takes long sources, and gathered windows equal masked ones."""
    for what, model in case.reached(REACH.taking("window")):
        gathered = _logits(model, *_source(LONG))
        for _, _, attention in model.sites():
            attention.gather_from = math.inf
        masked = _logits(model, *_source(LONG))
        _equal(gathered, masked, f"{what}: a gathered window differs. Let gather_from be infinite")


def taps(case: Case) -> None:
    """The fused kernel, or a repeated call, equals the explicit formula."""
    for family, model in case.models():
        quick = _logits(model, *_source())
        _equal(quick, _logits(model, *_source()), f"{family}: two equal calls differ")
        for _, _, attention in model.sites():
            attention.tap = lambda call: None
        why = "the kernel computes another function. Define forward, or correct prepare and prepare_query"
        _equal(quick, _logits(model, *_source()), f"{family}: {why}")


def removed_heads(case: Case) -> None:
    """Removing a head equals gating it to 0, as pruning needs."""
    why = "a head reads another, or parameters are not sliced by head: make their first axis the heads', or define keep"
    for gone in (0, H - 1):
        left = torch.tensor([head != gone for head in range(H)])
        for family, model in case.models():
            paths = {module: path for path, module in model.named_modules()}
            hooks = [
                attention.gate.register_forward_hook(lambda gate, inputs, heads, left=left: heads * left[:, None, None])
                for _, _, attention in model.sites()
            ]
            gated = _logits(model, *_source())
            for hook in hooks:
                hook.remove()
            for _, _, attention in list(model.sites()):
                try:
                    smaller = attention.reduced(left.nonzero()[:, 0].tolist())
                except (IndexError, TypeError) as problem:  # of `Part.keep`
                    if plugins.line_of(problem):
                        raise
                    raise CheckFailedError(f"{family}, without head {gone}: {why}") from None
                model.set_submodule(paths[attention], smaller)
            _equal(_logits(model, *_source()), gated, f"{family}, without head {gone}: {why}")


def what_it_reads(case: Case) -> None:
    """A score depends on what its facts say that it reads."""
    site = drawn(Attention(D, longest=S, heads=H, weights="sigmoid", **case.fields()).double().eval())
    states = torch.randn(4, B, S, D, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    base = site(states[0], states[1], weights=True)[1]
    for name, given in (("query", (states[2], states[1])), ("key", (states[0], states[3]))):
        changes = not torch.equal(base, site(*given, weights=True)[1])
        does = "changes" if changes else "does not change"
        right = changes == (name in case.facts.reads)
        _must(right, f"the score {does} with the {name}, and facts.reads is {case.facts.reads}. Correct it")


def distribution(case: Case) -> None:
    """Weights are 0 at hidden slots, in float32 or better, and sum to 1 if facts say so."""
    weighting: Any = drawn(Attention(D, heads=H, **case.fields())).site.weights
    mask = _source()[1][:, None, None]
    for dtype, size in ((torch.float64, 1.0), (torch.float32, 1e4), (torch.float16, 1e4)):
        logits = (torch.randn(B, H, L, S, generator=torch.Generator().manual_seed(5)) * size).to(dtype)
        weights = weighting(logits, mask)
        hidden = weights.masked_select(~mask.expand_as(weights))
        _must(not hidden.any(), "a hidden slot has weight. Multiply by the mask, or fill with −inf before a softmax")
        full = weights.dtype != torch.float16
        _must(full, "weights are in half precision. Compute them in float32: study.attention.weighting.to_float32")
        sums = not case.facts.sums_to_one or ((weights.sum(-1) - 1).abs() < 2e-5).all()
        _must(sums, "facts.sums_to_one is true, and rows do not sum to 1")


def training(case: Case) -> None:
    """A step of training in float32 equals one in float64 within rounding."""
    for family, model in case.models():
        single, double = (_trained(copy.deepcopy(model).to(dtype)) for dtype in (torch.float32, torch.float64))
        _must(single.isfinite().all(), f"{family}: after one step in float32, numbers are inf or nan")
        _equal(single.double(), double, f"{family}: float32 and float64 differ after one step", 1e-2)


@torch.no_grad()
def _trained(model: Translator) -> Tensor:
    """Return the logits after one step of gradient descent."""
    with torch.enable_grad():
        slopes = _slopes(model.train())
    for name, parameter in model.named_parameters():
        if (slope := slopes[name]) is not None:
            parameter.sub_(0.1 * slope)
    return _logits(model, *_source())


def devices(case: Case) -> None:
    """It is built on another device, and moved there."""
    *_, config = case.configs()
    with torch.device("meta"):
        construct(config, VOCABULARY, LENGTHS)
    model = build(config, VOCABULARY, 1, LENGTHS).to("meta")
    target, *given = (x.to("meta") for x in (_target(), *_source()))
    encoded = model.encode(*given)
    model.decode(encoded, target)
    model.step(target[:, 0], encoded.state, encoded)
