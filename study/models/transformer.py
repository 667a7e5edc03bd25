"""The pre-norm transformer (Vaswani et al. 2017, with normalisation before each block as in Xiong et al. 2020).

B batch · S source tokens · L target tokens · D width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention import Attention, Lengths, Memory, Terms, View
from study.attention.mixing import build_mixing
from study.attention.part import Part
from study.config import Transformer as Config
from study.models.bridge import build_memory, last
from study.models.dropout import Dropout
from study.models.translator import PAD, Encoded, Origin, Output, Translator, output_logits


class Positions(Part):
    """Positions of one language.

    Args:
        width: D.
        lengths: of the training sentences.
    """

    axis = "positions"
    longest: int | None = None
    """The longest sentence that has positions; None if every sentence has."""

    def __init__(self, width: int, lengths: Lengths | None = None) -> None:
        super().__init__()

    def forward(self, start: int, embedded: Tensor) -> Tensor:
        """Embeddings [B, T, D] of the tokens from `start` on ↦ the same with their positions."""
        raise NotImplementedError


class NoPositions(Positions):
    """x: causality alone tells order, and in the encoder nothing does."""

    name = "none"

    def forward(self, start: int, embedded: Tensor) -> Tensor:
        return embedded


class Sinusoids(Positions):
    """Sines and cosines of position / 10000^(2i/D), interleaved (Vaswani et al. 2017)."""

    name = "sinusoidal"

    def forward(self, start: int, embedded: Tensor) -> Tensor:
        return embedded + sinusoids(start, embedded.shape[1], embedded.shape[2], embedded.device)


class LearnedPositions(Positions):
    """√D · P[t], P a table of one row for each position of the longest training sentence (Gehring et al. 2017).

    Like a token's, a position's part has variance 1 at the start. A position beyond the table was never trained, so
    it does not exist: search and evaluation stop at `longest`, and a longer input is refused.
    """

    name = "learned"

    def __init__(self, width: int, lengths: Lengths | None = None) -> None:
        super().__init__(width)
        if lengths is None:
            raise ValueError("learned positions are sized by the training sentences: build with their lengths")
        self.longest = lengths.longest
        self.weight = nn.Parameter(torch.empty(lengths.longest, width))

    def forward(self, start: int, embedded: Tensor) -> Tensor:
        end = start + embedded.shape[1]
        if end > len(self.weight):
            raise ValueError(f"learned positions end at {len(self.weight)} tokens, and there are {end}")
        return embedded + self.weight[start:end] * math.sqrt(self.weight.shape[1])


def sinusoids(start: int, count: int, width: int, device: torch.device) -> Tensor:
    """The table of `Sinusoids`: [count, D]."""
    position = torch.arange(start, start + count, device=device, dtype=torch.float32)
    frequency = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10_000) / width))
    angle = position[:, None] * frequency
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


def build_positions(config: Config, lengths: Lengths | None) -> Positions:
    """The positions that a transformer declares, for one language."""
    return Positions.named(config.positions)(config.width, lengths)


class State(NamedTuple):
    """The decoder between two tokens."""

    memories: tuple[Memory, ...]
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

    def __init__(self, config: Config, lengths: Lengths | None) -> None:
        super().__init__()
        self.attention = build_mixing(config, lengths)
        self.attention_norm = nn.LayerNorm(config.width)
        self.feedforward = _feedforward(config)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor, view: View, names: Tensor | None = None) -> tuple[Tensor, Terms]:
        """States [B, S, D] ↦ the same of the next layer. Queries and keys read `names` instead, if given."""
        normed = self.attention_norm(x)
        if names is None:
            mixed, terms = self.attention(normed, self.attention.remember(normed, mask), view)
        else:
            assert isinstance(self.attention, Attention)
            scored = self.attention_norm(names)
            mixed, terms = self.attention(scored, self.attention.remember(scored, mask, normed), view)
        x = x + self.dropout(mixed)
        return (x if self.feedforward is None else x + self.dropout(self.feedforward(x))), terms


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention and feed-forward, each on the normalised stream."""

    def __init__(self, config: Config, lengths: Lengths | None) -> None:
        super().__init__()
        self.self_attention = Attention(config.attention.decoder_self, config.width, config.width, lengths)
        self.self_norm = nn.LayerNorm(config.width)
        self.cross_attention = Attention(config.attention.cross, config.width, config.width, lengths)
        self.cross_norm = nn.LayerNorm(config.width)
        self.feedforward = _feedforward(config)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x: Tensor, past: Memory | None, cross: Memory, causal: View, across: View
    ) -> tuple[Tensor, Memory, tuple[Terms, Terms]]:
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


def _feedforward(config: Config) -> nn.Module | None:
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
        self.source_positions = build_positions(config, lengths)
        self.target_positions = build_positions(config, lengths)
        self.longest = self.source_positions.longest
        self.encoder = nn.ModuleList(EncoderLayer(config, lengths) for _ in range(config.layers))
        self.encoder_norm = nn.LayerNorm(config.width)
        self.memory = build_memory(config, config.width)
        self.decoder = nn.ModuleList(DecoderLayer(config, lengths) for _ in range(config.layers))
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

    def sites(self) -> Iterator[tuple[str, int, Attention]]:
        for i, layer in enumerate(self.encoder):
            assert isinstance(layer, EncoderLayer)
            if isinstance(layer.attention, Attention) and layer.attention.kept:
                yield "encoder_self", i, layer.attention
        for i, layer in enumerate(self.decoder):
            assert isinstance(layer, DecoderLayer)
            if layer.self_attention.kept:
                yield "decoder_self", i, layer.self_attention
            if layer.cross_attention.kept:
                yield "cross", i, layer.cross_attention

    def origins(self) -> dict[str, Origin]:
        below = "the residual stream at its layer, normalised (layer 1: embeddings + positions)"
        joins = "added to the residual stream"
        every = "the same states, every source token"
        if self.config.factors == "split":
            below, every = f"{below}, of names alone", f"{every}; values of labels alone"
        sites = {
            "encoder_self": Origin(f"source tokens: {below}", every, joins),
            "decoder_self": Origin(f"target tokens: {below}", "the same states, y_0 … y_{t−1} alone", joins),
            "cross": Origin(
                "the residual stream after self-attention of its layer, normalised",
                f"{self.memory.formula}; encoder: states h of the last layer, normalised, of width {self.config.width}",
                joins,
            ),
        }
        return {site: sites[site] for site in dict.fromkeys(site for site, _, _ in self.sites())}

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
