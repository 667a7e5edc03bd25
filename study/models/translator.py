"""Interface of a model of any family, for training, search, diagnostics and pruning.

B batch · S source tokens · L target tokens · D width · N vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention import Memory, MultiHeadAttention, Terms
from study.attention.site import Held
from study.attention.weighting import to_float32
from study.config.sites import READS

PAD, UNK, BOS, EOS = 0, 1, 2, 3


class Encoded(NamedTuple):
    """A batch of encoded sources: a batch-first tree, so that a beam is one `select`."""

    memories: tuple[Memory | Held, ...]
    """Cross-attention's memory, one per decoder layer that attends."""
    state: Any
    """The decoder's initial state."""
    terms: tuple[Terms, ...]
    """Terms of the loss from the encoder and the memory."""


class Output(NamedTuple):
    """Teacher-forced decoding of a batch."""

    logits: Tensor
    """[B, L, N]."""
    terms: tuple[Terms, ...]
    """Terms of the loss from the decoder's attentions."""


class Origin(NamedTuple):
    """Inputs of a site in words; t counts target tokens, and y_t is the token that step t gives."""

    query: str
    """x, what queries are mapped from."""
    memory: str
    """m, what keys and values are mapped from."""
    use: str
    """Use of the output c."""


class Translator(nn.Module):
    """A translator over one shared vocabulary."""

    source_embedding: nn.Embedding
    target_embedding: nn.Embedding
    unembedding: nn.Linear
    carries: bool = True
    """True if the context of one step can change a later step."""
    longest: int | None = None
    """The most tokens that a source or a target may have, BOS or EOS counted; None where there is no limit."""
    phases: tuple[str, str] = ("encoder", "decoder")
    """Names of the parts that `encode` and `decode` compute beside the sites, in tables of cost."""

    def encode(self, source: Tensor, mask: Tensor) -> Encoded:
        """Source tokens [B, S] and their mask [B, S]."""
        raise NotImplementedError

    def decode(self, encoded: Encoded, target: Tensor) -> Output:
        """Teacher forcing: target tokens [B, L] (BOS first) → logits of the tokens that follow them."""
        raise NotImplementedError

    def step(self, token: Tensor, state: Any, encoded: Encoded) -> tuple[Tensor, Any]:
        """One token [B] per sentence → logits [B, N] of the next, and the state after it."""
        raise NotImplementedError

    def places(self) -> Iterator[tuple[str, int, Any]]:
        """Yield (site, layer, module) of all that mixes tokens, in the order of computation."""
        raise NotImplementedError

    def sites(self) -> Iterator[tuple[str, int, MultiHeadAttention]]:
        """Yield those of `places` that are `Attention` and have a head."""
        for site, layer, module in self.places():
            if isinstance(module, MultiHeadAttention) and module.kept:
                yield site, layer, module

    def site_reading(self, language: str) -> str:
        """Return the site at which queries of `source` or `target` see source tokens; empty if there is none."""
        sites = (site for site, _, _ in self.places())
        return next((s for s in sites if language in READS[s].queries and "source" in READS[s].slots), "")

    def origins(self) -> dict[str, Origin]:
        """Inputs of every site."""
        raise NotImplementedError

    def tie(self, embeddings: str) -> None:
        """Share embedding weights: separate, target (= output) or shared (source too)."""
        if embeddings != "separate":
            self.unembedding.weight = self.target_embedding.weight
        if embeddings == "shared":
            self.source_embedding.weight = self.target_embedding.weight


def select(tree: Any, index: Tensor) -> Any:
    """The rows `index` of every tensor in a batch-first tree of tuples."""
    if isinstance(tree, Tensor):
        return tree.index_select(0, index)
    if isinstance(tree, tuple):
        chosen = [select(branch, index) for branch in tree]
        return type(tree)(*chosen) if hasattr(tree, "_fields") else tuple(chosen)
    return tree


def output_logits(unembedding: nn.Linear, states: Tensor) -> Tensor:
    """Logits of the vocabulary, in float32 whatever the precision."""
    return to_float32(F.linear(states, unembedding.weight, unembedding.bias))


def lengths(mask: Tensor) -> Tensor:
    """Number of tokens of each sentence, [B]."""
    return mask.sum(1, dtype=torch.long)
