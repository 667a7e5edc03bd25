"""Heads that are removed: what belongs to a head goes with it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


@torch.no_grad()
def keep_heads(module: nn.Module, heads: Sequence[int]) -> None:
    """Leave these heads to every part of a module, in place; a part that several share is cut once.

    The first axis of a part's own parameters and of its frozen tables (`drawn`) is the heads', unless the part has a
    `keep` of its own.
    """
    for part in module.modules():
        keep = getattr(part, "keep", None)
        if part is not module and keep is not None:
            keep(heads)
            continue
        for name, parameter in list(part.named_parameters(recurse=False)):
            setattr(part, name, nn.Parameter(_rows(parameter, heads), requires_grad=parameter.requires_grad))
        for name in getattr(part, "drawn", ()):
            setattr(part, name, _rows(part.get_buffer(name), heads))


def _rows(tensor: Tensor, heads: Sequence[int]) -> Tensor:
    return tensor.detach()[list(heads)].clone()
