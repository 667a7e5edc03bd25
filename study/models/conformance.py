"""Checks that every mechanism must pass, built in or a user's own. `study check` prints them.

Small sites and models with padding: B batch · H heads · L queries · S slots · D width.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention import Attention, AttentionCall, Lengths, View
from study.attention.part import Part
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


class Case(NamedTuple):
    """A mechanism under test: one value of one axis, as `study.config.mechanisms` names them."""

    axis: str
    value: str

    @property
    def facts(self) -> Any:
        """Row of the value."""
        return AXES[self.axis][self.value]

    @property
    def reaches(self) -> tuple[str, ...]:
        """Every reach that the mechanism takes."""
        if self.axis == "site":
            return ("global",)
        return (self.value,) if self.axis == "reach" else tuple(reach for reach in REACH if self._takes(reach))

    def _takes(self, reach: str) -> bool:
        try:
            return bool(Config(**self.fields() | {"reach": reach}).resolved(D, D))
        except ValueError:
            return False

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
        if fields.get("reach") in REACH.taking("window"):
            fields["window"] = 1
        config = Config(**self.fields() | (fields if self.axis != "site" else {})).resolved(D, D)
        site = build_site(config, D, D, LENGTHS, positions=self._positions())
        initialise(site, 1)
        return site.double().eval()

    def _positions(self) -> Positions | None:
        if self.axis != "positions":
            return None
        chosen = Positions.named(self.value)
        positions = chosen(D, **chosen.taken({"heads": H, "lengths": LENGTHS}))
        initialise(positions, 1)
        return positions.double().eval()

    @property
    def stands(self) -> tuple[str, ...]:
        """Sites at which it may stand."""
        return tuple(self.facts.sites) if self.axis == "site" else ("encoder_self", "decoder_self", "cross")

    def given(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, states and the mask of a call that the site takes."""
        if "cross" in self.stands:
            return _states(L), _states(S, 1), _mask()
        return _states(S), _states(S), _mask() if "encoder_self" in self.stands else _causal(S)

    def need(self, site: str) -> None:
        """Leave out a test of another site.

        Raises:
            NotApplicableError: the mechanism does not stand at this site.
        """
        if site not in self.stands:
            raise NotApplicableError(f"it stands at {' and '.join(self.stands)} alone (facts.sites)")

    def models(self) -> Iterator[Recurrent | Transformer]:
        """Yield a model of each family that takes the mechanism: at every site, or at cross alone.

        Raises:
            CheckFailedError: no model takes it.
        """
        refused, count = "", 0
        for family in (Recurrent, Transformer):
            own = self.axis in family.model_fields
            given = {self.axis: self.value} if own else self.fields() if self.axis in Config.model_fields else {}
            names = family.model_fields["attention"].annotation.model_fields  # type: ignore[union-attr]
            if self.axis == "site":
                at = [name for name in names if name in self.stands]
                given = {f"{name}.{field}": value for name in at for field, value in given.items()}
            sizes = {"family": family.model_fields["family"].default, "width": D, "layers": 1, "dropout": 0.0}
            places = ("attention.",) if self.axis == "site" else ("attention.", "attention.cross.")
            for place in ("",) if own else places if given else ():
                overrides = {f"model.{name}": value for name, value in sizes.items()}
                overrides |= {f"model.{place}{name}": value for name, value in given.items()}
                try:
                    yield experiment_from(overrides).model
                except InputError as problem:
                    refused = str(problem)
                else:
                    count += 1
                    break
        if not count:
            raise CheckFailedError(f"no model takes it: {refused}")


def check(axis: str, value: str) -> Iterator[Check]:
    """Yield the outcome of every check that belongs to an axis.

    A mechanism that cannot be run at all gets the first outcome alone, and an error that comes again is not repeated.

    Args:
        axis: field of an attention or model, such as `score`.
        value: name of a built-in value, or of a user's own class as `study.config.plugins` reads it.
    """
    told: set[str] = set()
    for number, test in enumerate((*_tests(axis, value), *OWN.get(axis, ()), *MODEL)):
        name = (inspect.getdoc(test) or "").splitlines()[0].rstrip(".")
        try:
            test(Case(axis, value))
        except NotApplicableError as reason:
            yield Check(name, "", str(reason))
        except Exception as problem:
            text = _explained(problem)
            yield Check(name, *(("", "the same error") if text in told else (text,)))
            if not number:
                return
            told.add(text)
        else:
            yield Check(name, "")


def _tests(axis: str, value: str) -> tuple[Test, ...]:
    """Return the tests of a single site."""
    if axis == "positions":
        return SITE if Positions.named(value).inside else ()
    return WHOLE if axis == "site" else SITE if axis in Config.model_fields else ()


def _explained(problem: Exception) -> str:
    if isinstance(problem, CheckFailedError):
        return str(problem)
    text = f"{type(problem).__name__}: {problem}".strip().partition("\n")[0]
    where = plugins.line_of(problem)
    return (
        f"{where}: {text}" if where else f"{text}. No line of the class raises it: compare its facts, arguments, shapes"
    )


def _states(count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(B, count, D, generator=generator, dtype=torch.float64)


def _mask(count: int = S) -> Tensor:
    """[B, S]: the second sentence has three slots."""
    mask = torch.ones(B, count, dtype=torch.bool)
    mask[1, 3:] = False
    return mask


def _causal(count: int) -> Tensor:
    return torch.tril(torch.ones(count, count, dtype=torch.bool))[None, None].expand(B, 1, -1, -1)


def _attend(site: Any, query: Tensor, states: Tensor, mask: Tensor) -> Tensor:
    """Return the contexts of queries over the states; the mask is [B, S], or [B, 1, L, S]."""
    real = mask if mask.ndim == 2 else mask.new_ones(states.shape[:2])
    view = View(mask[:, None, None] if mask.ndim == 2 else mask, torch.arange(query.shape[1], device=query.device))
    out: Tensor = site(query, site.remember(states, real), view)[0]
    return out


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


SHAPES = {
    "score": ("score", (B, H, L, S)),
    "weights": ("weights", (B, H, L, S)),
    "combine": ("combine", (B, L, D)),
    "maps": ("map_key", (B, H, -1, D // H)),
    "values": ("map_value", (B, H, S, D // H)),
    "output": ("combine", (B, L, D)),
}
"""Axis ↦ part of a site and shape of its result; −1 for any size, because one map may serve queries and keys."""


def _shaped(shape: tuple[int, ...], part: nn.Module, given: Any, out: Tensor) -> None:
    if out.ndim != len(shape) or any(size not in (-1, got) for size, got in zip(shape, out.shape, strict=True)):
        raise CheckFailedError(
            f"expected {type(part).__name__} to return the shape {list(shape)}, got {list(out.shape)}"
        )


def shapes(case: Case) -> None:
    """Results are finite and have their shapes."""
    site = case.site()
    if case.axis in SHAPES:
        site.tap = lambda call: None
        part, shape = SHAPES[case.axis]
        site.get_submodule(part).register_forward_hook(partial(_shaped, shape))
    query, states, mask = case.given()
    out, wanted = _attend(site, query, states, mask), (B, query.shape[1], site.width)
    if out.shape != wanted:
        raise CheckFailedError(f"expected an output of shape {list(wanted)}, got {list(out.shape)}")
    if not out.isfinite().all():
        raise CheckFailedError("expected finite numbers, got inf or nan")


def gradients(case: Case) -> None:
    """A finite gradient reaches every parameter, and in it every head."""
    site = case.site().train()
    query, states, mask = case.given()
    real, visible = (mask, mask[:, None, None]) if mask.ndim == 2 else (mask[:, 0, -1], mask)
    out, terms = site(query, site.remember(states, real), View(visible, torch.arange(query.shape[1])))
    loss = out.square().sum() + sum((term.sum() for term in terms if isinstance(term, Tensor)), out.new_zeros(()))
    every = (*site.named_parameters(), *(() if case.axis != "positions" else site.positions.named_parameters()))
    named = {name: parameter for name, parameter in every if parameter.requires_grad}
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    for name, gradient in zip(named, found, strict=True):
        if gradient is None:
            raise CheckFailedError(f"parameter {name} gets no gradient: it is not used, or a step detaches it")
        if not gradient.isfinite().all():
            raise CheckFailedError(f"the gradient of {name} is inf or nan")
        by_head = gradient.reshape(H, -1).abs().amax(1) if len(gradient) == H else gradient.abs().max()[None]
        if not by_head.all():
            of = f" of head {int(by_head.argmin())}" if len(by_head) > 1 else ""
            raise CheckFailedError(f"the gradient of {name}{of} is 0: the output does not depend on it")


def nothing_to_attend_to(case: Case) -> None:
    """A query that sees no slot gets a zero context and finite gradients."""
    case.need("cross")
    site = case.site().train()
    states, mask = _states(S, 1).requires_grad_(), _mask()
    mask[1] = False
    out = _attend(site, _states(L), states, mask)
    if out[1].abs().max() != 0:
        raise CheckFailedError(f"expected 0, got numbers up to {out[1].abs().max():.2g}. Give weight 0 to hidden slots")
    (gradient,) = torch.autograd.grad(out.sum(), states, allow_unused=True)
    if gradient is not None and not gradient.isfinite().all():
        raise CheckFailedError("the gradient is inf or nan. Replace empty rows before the operation that divides by 0")


def padding(case: Case) -> None:
    """Padding changes nothing, neither by its content nor by its length."""
    case.need("cross")
    site, states, mask = case.site(), _states(S, 1), _mask()
    other = torch.where(mask[..., None], states, 9 * _states(S, 2))
    first = _attend(site, _states(L), states, mask)
    second = _attend(site, _states(L), other, mask)
    _equal(first, second, "the content of padded slots changes the output. Use view.mask")
    third = _attend(site, _states(L), F.pad(states, (0, 0, 0, 2)), F.pad(mask, (0, 2)))
    _equal(first, third, "two more padded slots change the output. Count visible slots by view.mask, not by shape")


def causality(case: Case) -> None:
    """In causal self-attention, later tokens do not change earlier outputs."""
    if case.axis == "reach" and case.facts.cross_only:
        raise NotApplicableError("it belongs to cross-attention alone")
    case.need("decoder_self")
    site, states = case.site(), _states(S)
    changed = torch.cat([states[:, :-1], 9 * states[:, -1:]], 1)
    first, second = (_attend(site, x, x, _causal(S))[:, :-1] for x in (states, changed))
    _equal(first, second, "a hidden later token changes an earlier output. Use view.mask")


def incremental(case: Case) -> None:
    """Token by token equals all at once, with every reach, as decoding needs."""
    case.need("decoder_self")
    for reach in (name for name in case.reaches if not REACH[name].samples):
        site, states = case.site(reach=reach), _states(S)
        whole = _attend(site, states, states, _causal(S))
        memory = site.remember(states[:, :1], _mask()[:, :1])
        for t in range(S):
            memory = site.extend(memory, states[:, t : t + 1]) if t else memory
            view = View(_causal(S)[:, :, t : t + 1, : t + 1], torch.tensor([t]))
            out = site(states[:, t : t + 1], memory, view)[0]
            problem = "step {} differs. A slot depends on other slots, or a position is not that of view.position"
            _equal(out[:, 0], whole[:, t], problem.format(t) + (f"; reach {reach}" if reach != "global" else ""))


def windows(case: Case) -> None:
    """Every reach takes long sources, and gathered windows equal masked ones."""
    for reach in case.reaches:
        site, states, query = case.site(reach=reach), _states(LONG, 1), _states(L)
        gathered = _attend(site, query, states, _mask(LONG))
        site.gather_from = math.inf
        masked = _attend(site, query, states, _mask(LONG))
        _equal(gathered, masked, f"reach {reach}: a gathered window differs. Let gather_from be infinite")


def taps(case: Case) -> None:
    """The fused kernel, or a repeated call, equals the explicit formula."""
    site = case.site()
    given = _states(L), _states(S, 1), _mask()
    quick = _attend(site, *given)
    _equal(quick, _attend(site, *given), "two equal calls differ")
    site.tap = lambda call: None
    _equal(quick, _attend(site, *given), "fusable is declared, and the kernel computes another function")


class _Gate(nn.Module):
    """Heads times 0 or 1."""

    def __init__(self, kept: list[int]) -> None:
        super().__init__()
        self.open = torch.zeros(H, 1, 1, dtype=torch.float64).index_fill(0, torch.tensor(kept), 1.0)

    def forward(self, heads: Tensor) -> Tensor:
        return heads * self.open


def removed_heads(case: Case) -> None:
    """Removing each head equals gating it to 0, as pruning needs."""
    if case.axis == "combine" and case.facts.mixes_logits:
        raise NotApplicableError("it mixes heads, so that none can be removed")
    for gone in range(H):
        kept = [head for head in range(H) if head != gone]
        site = case.site()
        smaller = site.reduced(kept)
        site.gate = _Gate(kept)
        given = _states(L), _states(S, 1), _mask()
        _equal(
            _attend(smaller, *given),
            _attend(site, *given),
            f"without head {gone}: parameters are not sliced by head. Let their first axis be the heads', or define "
            "keep(heads)",
        )


def what_it_reads(case: Case) -> None:
    """A score depends on what its facts say that it reads."""
    site, given = case.site(), (_states(L), _states(S, 1))
    base = _tapped(site, *given, _mask()).logits
    for name, moved in (("query", (2 * _states(L, 3), given[1])), ("key", (given[0], 2 * _states(S, 4)))):
        changes = not torch.equal(base, _tapped(site, *moved, _mask()).logits)
        if changes != (name in case.facts.reads):
            does = "changes" if changes else "does not change"
            raise CheckFailedError(
                f"the score {does} with the {name}, and facts.reads is {case.facts.reads}. Correct it"
            )


def rescaling(case: Case) -> None:
    """With facts.matrix, the score's own parameter multiplies it."""
    if not case.facts.matrix:
        raise NotApplicableError("it has no matrix of its own")
    site, factor = case.site(), torch.tensor([2.0, 3.0, 5.0]).double()
    base = _tapped(site, _states(L), _states(S, 1), _mask()).logits
    if not site.score.rescale(factor):
        raise CheckFailedError("facts.matrix is true. Define rescale(factor), which scales the score and returns True")
    now = _tapped(site, _states(L), _states(S, 1), _mask()).logits
    _equal(now, base * factor[:, None, None], "rescale(factor) does not multiply the score of head h by factor[h]")


def what_positions_do(case: Case) -> None:
    """Positions act where their facts say."""
    chosen = Positions.named(case.value)
    for fact, method in (("rotates", "rotate"), ("biased", "bias")):
        has = getattr(chosen, method) is not getattr(Positions, method)
        if has != getattr(case.facts, fact):
            raise CheckFailedError(f"facts.{fact} is {not has}, and the class {'has' if has else 'has no'} {method}()")
    if case.facts.relative != chosen.inside:
        where = "in self-attention" if chosen.inside else "on embeddings"
        raise CheckFailedError(f"facts.relative is {case.facts.relative}, and the class acts {where}. Correct it")


def distribution(case: Case) -> None:
    """Weights are 0 at hidden slots, in float32 or better, and sum to 1 if facts say so."""
    weighting, mask = case.site().weights, _mask()[:, None, None]
    for dtype, size in ((torch.float64, 1.0), (torch.float32, 1e4), (torch.float16, 1e4)):
        logits = (torch.randn(B, H, L, S, generator=torch.Generator().manual_seed(5)) * size).to(dtype)
        weights = weighting(logits, mask)
        if weights.masked_select(~mask.expand_as(weights)).any():
            raise CheckFailedError("a hidden slot has weight. Multiply by the mask, or fill with −inf before a softmax")
        if weights.dtype == torch.float16:
            raise CheckFailedError(
                "weights are in half precision. Compute them in float32: study.attention.weighting.to_float32"
            )
        ones = torch.ones((), dtype=weights.dtype)
        if case.facts.sums_to_one and not torch.allclose(weights.sum(-1), ones, atol=1e-5):
            raise CheckFailedError("facts.sums_to_one is true, and rows do not sum to 1")


def reference(case: Case) -> None:
    """The class equals its own reference in float64."""
    if case.axis not in REFERENCES:
        raise NotApplicableError("this axis has no reference")
    site = case.site()
    part, result, given = REFERENCES[case.axis](site, _tapped(site, _states(L), _states(S, 1), _mask()))
    if part.reference is None:
        raise NotApplicableError("the class has no static method `reference`")
    numbers = {**dict(part.named_parameters()), **dict(part.named_buffers())}
    parameters = (numbers,) if "parameters" in inspect.signature(part.reference).parameters else ()
    wanted = torch.as_tensor(part.reference(*given, *parameters), dtype=torch.float64).expand_as(result)
    _equal(result, wanted, "the class differs from its reference")


REFERENCES: dict[str, Callable[[Attention, AttentionCall], tuple[Part, Tensor, tuple[Any, ...]]]] = {
    "score": lambda site, seen: (
        *(site.score, seen.logits / site.scale()),
        (seen.query, site.map_key(_states(S, 1))),
    ),
    "scale": lambda site, seen: (site.scale, torch.as_tensor(site.scale(), dtype=torch.float64), (site.score.d,)),
    "weights": lambda site, seen: (site.weights, seen.normalised, (seen.logits, seen.mask)),
    "reach": lambda site, seen: (site.reach, seen.weights, (seen.logits, _mask()[:, None, None])),
    "combine": lambda site, seen: (site.combine, site.combine(seen.heads), (seen.heads,)),
}
"""Axis ↦ the part of a site, its result in a call, and what its reference gets; `parameters` too, if it asks."""


def _tokens() -> tuple[Tensor, Tensor]:
    """Source [B, S] and target [B, L]."""
    tokens = torch.randint(4, VOCABULARY, (B, S + L), generator=torch.Generator().manual_seed(6))
    return tokens[:, :S], tokens[:, S:]


def decoding(case: Case) -> None:
    """Models decode step by step as they are trained, and beams can be reordered."""
    for config in case.models():
        model = build(config, VOCABULARY, 1, LENGTHS).double().eval()
        (source, target), mask = _tokens(), _mask()
        encoded = model.encode(source, mask)
        whole, state = model.decode(encoded, target).logits, encoded.state
        for t in range(L):
            logits, state = model.step(target[:, t], state, encoded)
            _equal(logits, whole[:, t], f"{config.family}: step {t} of decoding differs from teacher forcing")
            turned = torch.tensor([1, 0])
            whole, target, state, encoded = (select(x, turned) for x in (whole, target, state, encoded))
        padded = model.decode(model.encode(F.pad(source, (0, 2)), F.pad(mask, (0, 2))), _tokens()[1]).logits
        whole = model.decode(model.encode(source, mask), _tokens()[1]).logits
        _equal(padded, whole, f"{config.family}: padding of the source changes the output")


def devices(case: Case) -> None:
    """It is built on another device, and moved there."""
    for config in case.models():
        with torch.device("meta"):
            built = construct(config, VOCABULARY, LENGTHS)
        for model in (built, build(config, VOCABULARY, 1, LENGTHS).to("meta")):
            source, target, mask = (x.to("meta") for x in (*_tokens(), _mask()))
            encoded = model.encode(source, mask)
            model.decode(encoded, target)
            model.step(target[:, 0], encoded.state, encoded)


def training(case: Case) -> None:
    """A step of training in float32 equals one in float64 within rounding."""
    for config in case.models():
        single, double = (_trained(build(config, VOCABULARY, 1, LENGTHS).to(d)) for d in (torch.float32, torch.float64))
        if not single.isfinite().all():
            raise CheckFailedError(f"{config.family}: after one step in float32, numbers are inf or nan")
        _equal(single.double(), double, f"{config.family}: float32 and float64 differ after one step", 1e-2)


def _trained(model: Translator) -> Tensor:
    """Return the logits after one step of gradient descent."""
    (source, target), parameters = _tokens(), list(model.parameters())
    logits = model.decode(model.encode(source, _mask()), target).logits
    slopes = torch.autograd.grad(F.cross_entropy(logits.flatten(0, 1), target.flatten()), parameters, allow_unused=True)
    with torch.no_grad():
        for parameter, slope in zip(parameters, slopes, strict=True):
            parameter.sub_(0.1 * slope if slope is not None else 0.0)
        return model.decode(model.encode(source, _mask()), target).logits


Test = Callable[[Case], None]
SITE: tuple[Test, ...] = (
    *(
        shapes,
        gradients,
        nothing_to_attend_to,
        padding,
        causality,
        incremental,
        windows,
        taps,
        removed_heads,
        reference,
    ),
)
WHOLE: tuple[Test, ...] = (shapes, gradients, nothing_to_attend_to, padding, causality, incremental)
OWN: dict[str, tuple[Test, ...]] = {
    "score": (what_it_reads, rescaling),
    "weights": (distribution,),
    "positions": (what_positions_do,),
}
MODEL: tuple[Test, ...] = (decoding, training, devices)
