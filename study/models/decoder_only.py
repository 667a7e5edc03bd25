"""The decoder-only family: one stack over the joined sequence of source and target.

The stack is pre-norm, x ← x + attention(norm x), x ← x + feed-forward(norm x), and has one site, `joint`. Source tokens
see source tokens alone: earlier ones (`source_mask causal`) or all (`full`, a prefix language model: Liu et al. 2018,
Raffel et al. 2020). Target tokens see the source and earlier target tokens. The loss is that of target tokens.

Embeddings count from the boundary of the two: the source's EOS is −1, BOS is 0. The source is then shifted to the
right, so that padding stands before it and a sentence's result does not depend on its batch. Inside a site, queries and
slots have the numbers of this padded sequence.

B batch · S source tokens · L target tokens · D width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention import Lengths, Memory, MultiHeadAttention, Terms, View
from study.attention.positions import Positions, build_positions
from study.attention.site import Held, Whole, build_site
from study.config import DecoderOnly as Config
from study.models.dropout import Dropout
from study.models.transformer import feedforward
from study.models.translator import PAD, Encoded, Origin, Output, Translator, lengths, output_logits


class State(NamedTuple):
    """The stack between two tokens."""

    memories: tuple[Memory | Held, ...]
    """Source and target so far, one per layer."""
    boundary: int
    """S, the number of BOS in the padded sequence."""


class Layer(nn.Module):
    """x + attention(norm x), then x + feed-forward(norm x)."""

    def __init__(self, config: Config, lengths: Lengths | None, layer: int, positions: Positions) -> None:
        super().__init__()
        site, causal = config.attention.joint, config.source_mask == "causal"
        self.attention = build_site(site, config.width, config.width, lengths, layer, positions, causal)
        self.attention_norm = nn.LayerNorm(config.width)
        self.feedforward = feedforward(config)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x: Tensor, past: Any, view: View, origin: Tensor | None = None
    ) -> tuple[Tensor, Memory | Held, Terms]:
        """States [B, T, D] after a memory, or the first ones with their mask [B, T] ↦ those of the next layer."""
        normed = self.attention_norm(x)
        if isinstance(past, Tensor):
            memory = self.attention.remember(normed, past)._replace(origin=origin)
        else:
            memory = self.attention.extend(past, normed)
        mixed, terms = self.attention(normed, memory, view)
        x = x + self.dropout(mixed)
        return (x if self.feedforward is None else x + self.dropout(self.feedforward(x))), memory, terms


class DecoderOnly(Translator):
    """A pre-norm stack that reads the source and goes on with the target."""

    phases = ("stack", "stack")

    def __init__(self, config: Config, vocabulary: int, lengths: Lengths | None = None) -> None:
        super().__init__()
        self.config = config
        self.dropout = Dropout(config.dropout)
        self.target_embedding = nn.Embedding(vocabulary, config.width, padding_idx=PAD)
        self.source_embedding = nn.Embedding(vocabulary, config.width, padding_idx=PAD)
        self.root = math.sqrt(config.width)
        """√D, by which embeddings are multiplied, since their variance is 1/D."""
        self.causal = config.source_mask == "causal"
        # The source has no positions of its own inside the site: relative ones belong to the joined sequence.
        self.source_positions = build_positions(config, None, self.causal, lengths)
        self.target_positions = build_positions(config, config.attention.joint, self.causal, lengths)
        self.longest = self.target_positions.longest
        self.before = lengths.longest if lengths else 0
        """Rows of tables for source slots, which stand before those for target slots."""
        joint = Lengths(*(2 * length for length in lengths)) if lengths else None  # source plus target
        layers = range(1, config.layers + 1)
        self.layers = nn.ModuleList(Layer(config, joint, i, self.target_positions) for i in layers)
        self.norm = nn.LayerNorm(config.width)
        self.unembedding = nn.Linear(config.width, vocabulary)
        self.tie(config.embeddings)

    def places(self) -> Iterator[tuple[str, int, MultiHeadAttention | Whole]]:
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            yield "joint", i, layer.attention

    def origins(self) -> dict[str, Origin]:
        first = "embeddings" if self.target_positions.inside else f"{self.target_positions.formula}, x the embeddings"
        sees = "itself and those before it" if self.causal else "every source token"
        query = (
            "tokens of the joined sequence, t = 0 at BOS and −1 at the source's end: the residual stream at its layer, "
            f"normalised (layer 1: {first})"
        )
        memory = f"the same states; a source token sees {sees}, a target token the source and y_0 … y_{{t−1}}"
        return {"joint": Origin(query, memory, "added to the residual stream")}

    def encode(self, source: Tensor, mask: Tensor) -> Encoded:
        count, slot = source.shape[1], torch.arange(source.shape[1], device=source.device)
        token = (slot - (count - lengths(mask))[:, None]) % count  # of each slot; padding comes round to the beginning
        mask = mask.gather(1, token)
        x = self.source_embedding(source).gather(1, token[..., None].expand(-1, -1, self.config.width))
        origin = ((token[..., None] == slot) & mask[..., None]).to(x.dtype)
        view = View(mask[:, None, None], slot, offset=count - self.before)
        if self.causal:
            view = view._replace(mask=view.mask & (slot <= slot[:, None]))
        x = self.source_positions(-count, x * self.root)
        _, memories, terms = self._run(x, [mask] * len(self.layers), view, origin)
        return Encoded((), State(memories, count), terms)

    def decode(self, encoded: Encoded, target: Tensor) -> Output:
        x, _, terms = self._decode(target, encoded.state)
        return Output(output_logits(self.unembedding, x), terms)

    def step(self, token: Tensor, state: State, encoded: Encoded) -> tuple[Tensor, State]:
        x, state, _ = self._decode(token[:, None], state)
        return output_logits(self.unembedding, x[:, 0]), state

    def _decode(self, target: Tensor, state: State) -> tuple[Tensor, State, tuple[Terms, ...]]:
        """Tokens [B, L] after those that the state remembers."""
        past, length = state.memories[0].mask, target.shape[1]
        slot = torch.arange(past.shape[1] + length, device=target.device)
        position = slot[past.shape[1] :]
        visible = F.pad(past, (0, length), value=True)[:, None, None] & (slot <= position[:, None])
        view = View(visible, position, offset=state.boundary - self.before)
        embedded = self.target_embedding(target) * self.root
        x = self.target_positions(past.shape[1] - state.boundary, embedded)
        x, memories, terms = self._run(x, state.memories, view)
        return self.norm(x), State(memories, state.boundary), terms

    def _run(
        self, x: Tensor, past: Sequence[Memory | Held | Tensor], view: View, origin: Tensor | None = None
    ) -> tuple[Tensor, tuple[Memory | Held, ...], tuple[Terms, ...]]:
        """Embeddings [B, T, D] with their positions ↦ states after the last layer, and memories and terms of each."""
        x = self.dropout(x)
        memories, collected = [], []
        for layer, before in zip(self.layers, past, strict=True):
            x, memory, terms = layer(x, before, view, origin)
            memories.append(memory)
            collected.append(terms)
        return x, tuple(memories), tuple(collected)
