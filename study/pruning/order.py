"""Orders of removal: every one a list of the same heads, the least important first, by a number per head.

Importance is measured without retraining, or learned as L0 gates with the weights fixed: one number a head that is
exactly 0 or 1 with some probability, z = min(1, max(0, s(ζ − γ) + γ)), s = σ((ln u − ln(1 − u) + ln α)/β), u uniform on
(0, 1): hard concrete (Louizos et al. 2018; for heads Voita et al. 2019). P(z ≠ 0) = σ(ln α − β ln(−γ/ζ)).

B sentences · H heads · L queries · V value width of a head.
"""

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from study.config import Experiment
from study.models import Translator
from study.models.translator import PAD
from study.pruning.surgery import ALL, Head, Mask, gated, heads_of, masked
from study.training import decode
from study.training.batches import Examples, Steps
from study.training.step import step_seed

Importance = dict[Head, float]


class Unit(nn.Module):
    """heads ↦ heads · z with z = 1, one for every sentence and head: ∂L/∂z is o·∂L/∂o, summed over queries."""

    def __init__(self) -> None:
        super().__init__()
        self.z: Tensor | None = None

    def forward(self, heads: Tensor) -> Tensor:
        """[B, H, L, V]. A decoder that goes step by step calls L times and meets the same z."""
        if self.z is None:
            self.z = heads.new_ones(*heads.shape[:2], 1, 1, requires_grad=True)
        return heads * self.z


def gradient(model: Translator, data: Examples, normalise: bool = False) -> Importance:
    """E_x |o_h · ∂L(x)/∂o_h| of each head (Michel et al. 2019, eq. 2), L the unsmoothed −log p of a sentence, in nats.

    `normalise` divides by the l2 norm over the heads of a layer, as the paper does.
    """
    units = {(site, layer): Unit() for site, layer, _ in model.sites()}
    sums: dict[tuple[str, int], Any] = defaultdict(float)
    count = 0
    with gated(model, units), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        for chosen, batch in decode.fitting(model, data):
            for unit in units.values():
                unit.z = None
            logits = model.decode(model.encode(batch.source, batch.mask), batch.given).logits
            gates = [unit.z for unit in units.values() if unit.z is not None]
            slopes = torch.autograd.grad(decode.token_nll(logits, batch.wanted).sum(), gates, allow_unused=True)
            for place, slope in zip(units, slopes, strict=True):
                if slope is not None:
                    sums[place] = sums[place] + slope.abs().sum((0, 2, 3)).double()
            count += len(chosen)
    found = dict.fromkeys(heads_of(model), 0.0)
    for place, total in sums.items():
        mean = total / max(1, count)
        if normalise:
            mean = mean / mean.norm().clamp(min=torch.finfo(mean.dtype).tiny)
        found |= {Head(*place, head): value for head, value in enumerate(mean.tolist())}
    return found


def weight_norm(model: Translator, among: Sequence[Head]) -> Importance:
    """The l2 norm of the parameters that a head has: those that an attention with this head alone is made of."""
    places = {(head.site, head.layer) for head in among}
    return {
        Head(site, layer, head): sum(float(p.detach().double().square().sum()) for p in parameters) ** 0.5
        for site, layer, attention in model.sites()
        if (site, layer) in places
        for head in range(len(attention.kept))
        for parameters in [list(attention.reduced([head]).parameters())]
    }


def loss(model: Translator, data: Examples) -> float:
    """−log p per target token, in nats, end-of-sentence counted."""
    return float(decode.forced_nll(model, data).nansum()) / sum(len(example.target) + 1 for example in data)


def leave_one_out(model: Translator, data: Examples, among: Sequence[Head]) -> Importance:
    """Return the loss that each head's absence alone adds. Exact: one pass over the data a head."""
    whole = loss(model, data)
    found: Importance = {}
    for head in among:
        with masked(model, [head]):
            found[head] = loss(model, data) - whole
    return found


BETA, GAMMA, ZETA = 2 / 3, -0.1, 1.1
OPEN = 3.0
"""ln α at the start: P(z ≠ 0) = .99, and z is 1 most of the time."""
RATE = 0.1
"""Learning rate of ln α, by Adam."""


class HardConcrete(Mask):
    """A gate for each of H heads, one draw of which holds until the next, whoever calls."""

    def __init__(self, heads: int, start: float = OPEN) -> None:
        super().__init__(torch.ones(heads))
        self.log_alpha = nn.Parameter(torch.full((heads,), start))

    def draw(self, generator: torch.Generator) -> Tensor:
        """Z [H] from fresh numbers."""
        uniform = torch.rand(self.log_alpha.shape, generator=generator).clamp(1e-6, 1 - 1e-6)
        noise = torch.logit(uniform).to(self.log_alpha)
        s = torch.sigmoid((noise + self.log_alpha) / BETA)
        self.z = (s * (ZETA - GAMMA) + GAMMA).clamp(0, 1)
        return self.z

    def open(self) -> Tensor:
        """P(z ≠ 0) of each head."""
        return torch.sigmoid(self.log_alpha - BETA * math.log(-GAMMA / ZETA))


def learned(model: Translator, experiment: Experiment, train: Examples) -> Importance:
    """Ln α of the heads of a site after `gate_steps` updates of the loss per token + λ · the expected open gates.

    The number of open gates is a sum, so that a head has one price however many are gated. The model stays as it is, in
    evaluation mode; batches and draws are functions of (seed, step).
    """
    pruning, seed = experiment.pruning, experiment.seed
    assert pruning is not None
    assert pruning.penalty is not None
    assert pruning.gate_steps is not None
    device = next(model.parameters()).device
    places = [(name, layer, len(a.kept)) for name, layer, a in model.sites() if pruning.site in (ALL, name)]
    gates = {(name, layer): HardConcrete(count).to(device) for name, layer, count in places}
    weights = [gate.log_alpha for gate in gates.values()]
    adam = torch.optim.Adam(weights, RATE)
    fitting = [example for example in train if decode.fits(model, example)]
    batches = Steps(fitting, experiment.training.batch_tokens, seed, 0, pruning.gate_steps)
    with gated(model, gates), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        for step, cpu in enumerate(batches):
            batch = cpu.to(device)
            generator = torch.Generator().manual_seed(step_seed(seed, step, ":gates"))
            for gate in gates.values():
                gate.draw(generator)
            logits = model.decode(model.encode(batch.source, batch.mask), batch.given).logits
            tokens = (batch.wanted != PAD).sum()
            opened = torch.stack([gate.open().sum() for gate in gates.values()]).sum()
            total = decode.token_nll(logits, batch.wanted).sum() / tokens + pruning.penalty * opened
            for weight, slope in zip(weights, torch.autograd.grad(total, weights), strict=True):
                weight.grad = slope
            adam.step()
    found = {place: gate.log_alpha.detach().tolist() for place, gate in gates.items()}
    return {Head(*place, head): value for place, values in found.items() for head, value in enumerate(values)}


MEASURED = 2000
"""Training sentences, the first, that the gradient's importance is a mean over."""
SEARCHED = 300
"""Validation sentences, the first, whose loss decides where an order tries heads out."""


class Ranking(NamedTuple):
    """Heads in the order of their removal, and the number that each was judged by, if it was by one."""

    heads: list[Head]
    importance: Importance


def rank(model: Translator, experiment: Experiment, train: Examples, valid: Examples) -> Ranking:
    """The order that a pruning declares: the least important head first, of equals the earlier.

    The model is in evaluation mode. No order uses the test set.
    """
    pruning = experiment.pruning
    assert pruning is not None
    among, searched = heads_of(model, pruning.site), valid[:SEARCHED]
    match pruning.order:
        case "greedy":
            return greedy(model, searched, among)
        case "gradient" | "gradient_normalised":
            importance = gradient(model, train[:MEASURED], pruning.order == "gradient_normalised")
        case "weight_norm":
            importance = weight_norm(model, among)
        case "leave_one_out":
            importance = leave_one_out(model, searched, among)
        case "gates":
            importance = learned(model, experiment, train)
        case _:
            return Ranking(shuffled(among, experiment.seed, 0), {})
    return Ranking(sorted(among, key=lambda head: importance[head]), {head: importance[head] for head in among})


def greedy(model: Translator, data: Examples, among: Sequence[Head]) -> Ranking:
    """One after the other the head without which, beside those gone, the loss is lowest. The number is that loss."""
    gone: list[Head] = []
    importance: Importance = {}
    while left := [head for head in among if head not in importance]:
        tried: Importance = {}
        for head in left:
            with masked(model, [*gone, head]):
                tried[head] = loss(model, data)
        best = min(left, key=lambda head: tried[head])
        gone.append(best)
        importance[best] = tried[best]
    return Ranking(gone, importance)


def shuffled(among: Sequence[Head], seed: int, draw: int) -> list[Head]:
    """A random order: a function of (seed, draw)."""
    heads = list(among)
    random.Random(f"{seed}:{draw}").shuffle(heads)
    return heads


def gone(heads: Sequence[Head], fraction: float) -> list[Head]:
    """The first of an order, so many as are nearest to a fraction of it."""
    return list(heads[: int(fraction * len(heads) + 0.5)])
