"""L0 gates: one number a head that is exactly 0 or 1 with some probability, learned with the weights fixed.

z = min(1, max(0, s(ζ − γ) + γ)), s = σ((ln u − ln(1 − u) + ln α)/β), u uniform on (0, 1): hard concrete (Louizos et al.
2018; for heads Voita et al. 2019). P(z ≠ 0) = σ(ln α − β ln(−γ/ζ)).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from study.models import Translator
from study.models.translator import PAD
from study.pruning.importance import Importance
from study.pruning.surgery import ALL, Head, gated
from study.training import decode
from study.training.batches import Example, Steps
from study.training.step import step_seed

BETA, GAMMA, ZETA = 2 / 3, -0.1, 1.1
OPEN = 3.0
"""ln α at the start: P(z ≠ 0) = .99, and z is 1 most of the time."""
RATE = 0.1
"""Learning rate of ln α, by Adam."""


class HardConcrete(nn.Module):
    """A gate for each of H heads, one draw of which holds until the next, whoever calls."""

    def __init__(self, heads: int, start: float = OPEN) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.full((heads,), start))
        self.z: Tensor | None = None

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

    def forward(self, heads: Tensor) -> Tensor:
        """[B, H, L, V]."""
        assert self.z is not None
        return heads * self.z[:, None, None]


def penalty(gates: Mapping[tuple[str, int], HardConcrete]) -> Tensor:
    """The expected number of open gates: a sum, so that a head has one price however many are gated."""
    return torch.stack([gate.open().sum() for gate in gates.values()]).sum()


def learned(
    model: Translator, data: Sequence[Example], site: str, *, price: float, steps: int, batch_tokens: int, seed: int
) -> Importance:
    """Ln α of the heads of a site after `steps` updates of the loss per token + `price` · the expected open gates.

    The model stays as it is, in evaluation mode; batches and draws are functions of (seed, step).
    """
    device = next(model.parameters()).device
    places = [(name, layer, len(a.kept)) for name, layer, a in model.sites() if site in (ALL, name)]
    gates = {(name, layer): HardConcrete(count).to(device) for name, layer, count in places}
    weights = [gate.log_alpha for gate in gates.values()]
    adam = torch.optim.Adam(weights, RATE)
    batches = Steps([example for example in data if decode.fits(model, example)], batch_tokens, seed, 0, steps)
    with gated(model, gates), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        for step, cpu in enumerate(batches):
            batch = cpu.to(device)
            generator = torch.Generator().manual_seed(step_seed(seed, step, ":gates"))
            for gate in gates.values():
                gate.draw(generator)
            logits = model.decode(model.encode(batch.source, batch.mask), batch.given).logits
            tokens = (batch.wanted != PAD).sum()
            total = decode.token_nll(logits, batch.wanted).sum() / tokens + price * penalty(gates)
            for weight, slope in zip(weights, torch.autograd.grad(total, weights), strict=True):
                weight.grad = slope
            adam.step()
    found = {place: gate.log_alpha.detach().tolist() for place, gate in gates.items()}
    return {Head(*place, head): value for place, values in found.items() for head, value in enumerate(values)}
