"""The pre-norm transformer (Vaswani et al. 2017, with normalisation before each block as in Xiong et al. 2020).

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
from study.attention.mixing import Mixing, build_mixing
from study.attention.positions import Positions, build_positions
from study.attention.site import Held, Whole, build_site
from study.config import DecoderOnly
from study.config import Transformer as Config
from study.models.bridge import SourceMemory, last
from study.models.dropout import Dropout
from study.models.translator import PAD, Encoded, Origin, Output, Translator, output_logits


class State(NamedTuple):
    """The decoder between two tokens."""

    memories: tuple[Memory | Held, ...]
    """Self-attention's memory, one per layer."""


class FeedForward(nn.Module):
    """W_2 relu(W_1 x), with biases."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(self.dropout(F.relu(self.up(x))))
        return out


class EncoderLayer(nn.Module):
    """x + mix(norm x), then x + feed-forward(norm x). What mixes is self-attention, or what takes its place."""

    def __init__(self, config: Config, lengths: Lengths | None, layer: int, positions: Positions) -> None:
        super().__init__()
        self.attention = build_mixing(config, lengths, layer, positions)
        self.attention_norm = nn.LayerNorm(config.width)
        self.feedforward = feedforward(config)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor, view: View, names: Tensor | None = None) -> tuple[Tensor, Terms]:
        """States [B, S, D] ↦ the same of the next layer. Queries and keys read `names` instead, if given."""
        normed = self.attention_norm(x)
        if names is None:
            mixed, terms = self.attention(normed, self.attention.remember(normed, mask), view)
        else:
            assert isinstance(self.attention, MultiHeadAttention)
            scored = self.attention_norm(names)
            mixed, terms = self.attention(scored, self.attention.remember(scored, mask, normed), view)
        x = x + self.dropout(mixed)
        return (x if self.feedforward is None else x + self.dropout(self.feedforward(x))), terms


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention and feed-forward, each on the normalised stream."""

    def __init__(self, config: Config, lengths: Lengths | None, layer: int, positions: Positions) -> None:
        super().__init__()
        sites, width = config.attention, config.width
        self.self_attention = build_site(sites.decoder_self, width, width, lengths, layer, positions, causal=True)
        self.self_norm = nn.LayerNorm(config.width)
        self.cross_attention = build_site(sites.cross, width, width, lengths, layer)
        self.cross_norm = nn.LayerNorm(config.width)
        self.feedforward = feedforward(config)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x: Tensor, past: Any, cross: Memory | Held, causal: View, across: View
    ) -> tuple[Tensor, Memory | Held, tuple[Terms, Terms]]:
        normed = self.self_norm(x)
        if past is None:
            own = self.self_attention.remember(normed, normed.new_ones(normed.shape[:2], dtype=torch.bool))
        else:
            own = self.self_attention.extend(past, normed)
        mixed, self_terms = self.self_attention(normed, own, causal)
        x = x + self.dropout(mixed)
        mixed, cross_terms = self.cross_attention(self.cross_norm(x), cross, across)
        x = x + self.dropout(mixed)
        if self.feedforward is not None:
            x = x + self.dropout(self.feedforward(x))
        return x, own, (self_terms, cross_terms)


def feedforward(config: Config | DecoderOnly) -> nn.Module | None:
    """Normalisation and feed-forward block; none at width 0."""
    if not config.feedforward:
        return None
    return nn.Sequential(nn.LayerNorm(config.width), FeedForward(config.width, config.feedforward, config.dropout))


class Transformer(Translator):
    """A pre-norm transformer."""

    def __init__(self, config: Config, vocabulary: int, lengths: Lengths | None = None) -> None:
        super().__init__()
        self.config = config
        self.dropout = Dropout(config.dropout)
        # The target first: a shared weight is drawn under its first name, the one it has when only the output is tied.
        self.target_embedding = nn.Embedding(vocabulary, config.width, padding_idx=PAD)
        self.source_embedding = nn.Embedding(vocabulary, config.width, padding_idx=PAD)
        sites, layers = config.attention, range(1, config.layers + 1)
        self.source_positions = build_positions(config, sites.encoder_self, False, lengths)
        self.target_positions = build_positions(config, sites.decoder_self, True, lengths)
        self.longest = self.source_positions.longest
        self.encoder = nn.ModuleList(EncoderLayer(config, lengths, i, self.source_positions) for i in layers)
        self.encoder_norm = nn.LayerNorm(config.width)
        self.memory = SourceMemory.chosen(config, config.width)
        self.decoder = nn.ModuleList(DecoderLayer(config, lengths, i, self.target_positions) for i in layers)
        self.decoder_norm = nn.LayerNorm(config.width)
        self.unembedding = nn.Linear(config.width, vocabulary)
        self.tie(config.embeddings)
        self.name_of: Tensor | None
        self.label_of: Tensor | None
        for factor in ("name_of", "label_of"):
            self.register_buffer(factor, torch.arange(vocabulary) if config.factors == "split" else None)

    def split(self, names: Sequence[int], labels: Sequence[int]) -> None:
        """Read token i of the source as token names[i] in queries and keys, and as labels[i] elsewhere."""
        self.name_of, self.label_of = torch.tensor(names), torch.tensor(labels)

    def places(self) -> Iterator[tuple[str, int, MultiHeadAttention | Whole | Mixing]]:
        for i, layer in enumerate(self.encoder):
            assert isinstance(layer, EncoderLayer)
            yield "encoder_self", i, layer.attention
        for i, layer in enumerate(self.decoder):
            assert isinstance(layer, DecoderLayer)
            yield "decoder_self", i, layer.self_attention
            yield "cross", i, layer.cross_attention

    def origins(self) -> dict[str, Origin]:
        first = "embeddings" if self.source_positions.inside else f"{self.source_positions.formula}, x the embeddings"
        below = f"the residual stream at its layer, normalised (layer 1: {first})"
        joins = "added to the residual stream"
        names, every = "", "the same states, every source token"
        if self.config.factors == "split":
            names, every = ", of names alone", f"{every}; values of labels alone"
        sites = {
            "encoder_self": Origin(f"source tokens: {below}{names}", every, joins),
            "decoder_self": Origin(f"target tokens: {below}", "the same states, y_0 … y_{t−1} alone", joins),
            "cross": Origin(
                "the residual stream after self-attention of its layer, normalised",
                f"{self.memory.formula}; encoder: states h of the last layer, normalised, of width {self.config.width}",
                joins,
            ),
        }
        return {site: sites[site] for site in dict.fromkeys(site for site, _, _ in self.places())}

    def encode(self, source: Tensor, mask: Tensor) -> Encoded:
        names = None
        if self.name_of is not None and self.label_of is not None:
            names = self._embed(self.source_embedding, self.source_positions, self.name_of[source], 0)
            source = self.label_of[source]
        x = self._embed(self.source_embedding, self.source_positions, source, 0)
        view = View(mask[:, None, None], torch.arange(source.shape[1], device=source.device))
        collected = []
        for layer in self.encoder:
            x, terms = layer(x, mask, view, names)
            collected.append(terms)
        x = self.encoder_norm(x)
        slots = self.memory(x, last(x, mask), mask)
        memories = []
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            remembered = layer.cross_attention.remember(slots.states, slots.mask)
            memories.append(remembered._replace(origin=slots.origin))
        return Encoded(tuple(memories), State(()), (*collected, slots.terms))

    def decode(self, encoded: Encoded, target: Tensor) -> Output:
        x, _, terms = self._decode(encoded, target, State(()))
        return Output(output_logits(self.unembedding, x), terms)

    def step(self, token: Tensor, state: State, encoded: Encoded) -> tuple[Tensor, State]:
        x, state, _ = self._decode(encoded, token[:, None], state)
        return output_logits(self.unembedding, x[:, 0]), state

    def _decode(self, encoded: Encoded, target: Tensor, state: State) -> tuple[Tensor, State, tuple[Terms, ...]]:
        """Tokens [B, L] after those that the state remembers."""
        past = state.memories[0].mask.shape[1] if state.memories else 0
        x = self._embed(self.target_embedding, self.target_positions, target, past)
        position = torch.arange(past, past + target.shape[1], device=target.device)
        slot = torch.arange(past + target.shape[1], device=target.device)
        causal = View((slot[None, :] <= position[:, None])[None, None], position)
        memories, collected = [], []
        for i, layer in enumerate(self.decoder):
            cross = encoded.memories[i]
            across = View(cross.mask[:, None, None], position)
            x, own, terms = layer(x, state.memories[i] if past else None, cross, causal, across)
            memories.append(own)
            collected.extend(terms)
        return self.decoder_norm(x), State(tuple(memories)), tuple(collected)

    def _embed(self, embedding: nn.Embedding, positions: nn.Module, tokens: Tensor, start: int) -> Tensor:
        """√D times the embedding (whose variance is 1/D), plus positions."""
        x = embedding(tokens) * math.sqrt(self.config.width)
        embedded: Tensor = self.dropout(positions(start, x))
        return embedded
