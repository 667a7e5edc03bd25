"""The recurrent family: a GRU or LSTM encoder, the decoder's cell, and decoders named after the source of their query.

`bahdanau` asks with s_{t-1} and its context enters the cell (Bahdanau et al. 2015); `luong` asks with s_t (Luong et
al. 2015), and with input feeding its last readout enters the cell. Both read out tanh(W_c [c; s]).

B batch · S source tokens · L target tokens · D width · E width of the encoder's states, or of what enters the cell ·
G gates of the cell (3 GRU, 4 LSTM).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention import Lengths, Memory, MultiHeadAttention, Terms, View
from study.attention.site import Held, Whole, build_site
from study.attention.view import in_sequence
from study.attention.weighting import to_float32, without_autocast
from study.config import Recurrent as Config
from study.config.mechanisms import DECODER, INIT
from study.models.bridge import SourceMemory, initial_vectors, last
from study.models.dropout import Dropout
from study.models.translator import PAD, Encoded, Origin, Output, Translator, lengths, output_logits

Kind = type[nn.GRU] | type[nn.LSTM]


class Encoder(nn.Module):
    """States [B, S, E] of every token, and the final state [h→; h←] [B, E].

    Args:
        kind: `nn.GRU` or `nn.LSTM`.
        width: D.
        memory: E, halved between the directions.
        layers: number of layers.
        bidirectional: read in both directions.
        dropout: between layers.
    """

    def __init__(self, kind: Kind, width: int, memory: int, layers: int, bidirectional: bool, dropout: float) -> None:
        super().__init__()
        size = memory // 2 if bidirectional else memory
        entering = [width] + [memory] * (layers - 1)
        self.rightward = nn.ModuleList(kind(enters, size, batch_first=True) for enters in entering)
        self.leftward = nn.ModuleList(kind(enters, size, batch_first=True) for enters in entering if bidirectional)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        reverse = reversal(mask)
        for layer, rightward in enumerate(self.rightward):
            if layer:
                x = self.dropout(x)
            ahead, _ = _run(rightward, x)
            if not self.leftward:
                x = ahead
                continue
            back, _ = _run(self.leftward[layer], permute(x, reverse))
            x = torch.cat([ahead, permute(back, reverse)], -1)
        final = last(ahead, mask)
        return x, torch.cat([final, last(back, mask)], -1) if self.leftward else final


def _run(rnn: nn.Module, x: Tensor, hidden: Any = None) -> Any:
    """Run torch's cell over sequences; on a CPU in float32, as oneDNN's LSTM in bfloat16 needs AVX-512."""
    with without_autocast(x.device) if x.is_cpu else nullcontext():
        return rnn(x, hidden)


def reversal(mask: Tensor) -> Tensor:
    """Return the positions of each sentence in reverse order, with padding in place: [B, S]. It is its own inverse."""
    position = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, lengths(mask)[:, None] - 1 - position, position)


def permute(x: Tensor, order: Tensor) -> Tensor:
    """x[b, order[b, s]]: [B, S, D]."""
    return x.gather(1, order[..., None].expand_as(x))


Hidden = tuple[tuple[Tensor, ...], ...]
"""One (h,) or (h, c) per layer, each [B, D]."""


class Cell(nn.Module):
    """A stack of GRU or LSTM layers that can be run over a whole sequence or token by token.

    What enters (a context, or a fed-back readout) is added to the first layer's gates through a matrix of its own,
    so that the other matrices keep their shapes and initial values in every arm.

    Args:
        kind: `nn.GRU` or `nn.LSTM`.
        width: D.
        layers: number of layers.
        dropout: between layers.
        entering: E; 0 when nothing enters.
    """

    def __init__(self, kind: Kind, width: int, layers: int, dropout: float, entering: int) -> None:
        super().__init__()
        self.rnn = kind(width, width, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        gates = 3 if kind is nn.GRU else 4
        self.entering = nn.Linear(entering, gates * width, bias=False) if entering else None
        self.dropout = Dropout(dropout)

    def gates(self, embedded: Tensor) -> Tensor:
        """The embedding's part of the first layer's gates: [B, …, D] → [B, …, G·D]."""
        return F.linear(embedded, self._weight("weight_ih", 0), self._weight("bias_ih", 0))

    def sequence(self, embedded: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        """Run over all tokens at once, when nothing enters: [B, L, D] → states [B, L, D]."""
        parts = [to_float32(torch.stack(part)) for part in zip(*hidden, strict=True)]
        states, after = _run(self.rnn, embedded, parts[0] if len(parts) == 1 else tuple(parts))
        flat = (after,) if isinstance(after, Tensor) else after
        return states, tuple(zip(*(part.unbind(0) for part in flat), strict=True))

    def forward(self, gates: Tensor, hidden: Hidden, enters: Tensor | None) -> Hidden:
        """One token, from its gates [B, G·D] and what enters [B, E]."""
        if self.entering is not None:
            assert enters is not None
            gates = gates + self.entering(enters)
        after: list[tuple[Tensor, ...]] = []
        for layer, before in enumerate(hidden):
            if layer:
                below = self.dropout(after[-1][0])
                gates = F.linear(below, self._weight("weight_ih", layer), self._weight("bias_ih", layer))
            recurrent = F.linear(before[0], self._weight("weight_hh", layer), self._weight("bias_hh", layer))
            after.append(_gru(gates, recurrent, *before) if len(before) == 1 else _lstm(gates, recurrent, *before))
        return tuple(after)

    def _weight(self, name: str, layer: int) -> Tensor:
        weight: Tensor = getattr(self.rnn, f"{name}_l{layer}")
        return weight


def _gru(gates: Tensor, recurrent: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    """r, z = σ(x + h), n = tanh(x + r ⊙ h); h' = (1 − z) ⊙ n + z ⊙ h, with torch's order of gates."""
    width = h.shape[-1]
    reset, update = torch.sigmoid(gates[..., : 2 * width] + recurrent[..., : 2 * width]).chunk(2, -1)
    new = torch.tanh(gates[..., 2 * width :] + reset * recurrent[..., 2 * width :])
    return (torch.lerp(new.to(h.dtype), h, update.to(h.dtype)),)  # autocast gives gates another type


def _lstm(gates: Tensor, recurrent: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """i, f, o = σ(x + h), g = tanh(x + h); c' = f ⊙ c + i ⊙ g, h' = o ⊙ tanh(c'), with torch's order of gates."""
    keep, forget, new, out = (gates + recurrent).chunk(4, -1)
    c = torch.sigmoid(forget) * c + torch.sigmoid(keep) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(c), c


class State(NamedTuple):
    """The decoder between two tokens."""

    hidden: Hidden
    """One (h,) or (h, c) per layer, each [B, D]."""
    fed: Tensor | None
    """The last readout [B, D], with input feeding."""
    position: int
    """Target tokens that were read: the absolute position of the next query."""


class Recurrent(Translator):
    """A recurrent encoder-decoder."""

    def __init__(self, config: Config, vocabulary: int, lengths: Lengths | None = None) -> None:
        super().__init__()
        self.config = config
        width, memory = config.width, config.memory_width
        site = config.attention.cross
        context = site.output_width(width, memory)
        self.dropout = Dropout(config.dropout)
        # The target first: a shared weight is drawn under its first name, the one it has when only the output is tied.
        self.target_embedding = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.source_embedding = nn.Embedding(vocabulary, width, padding_idx=PAD)
        kind = nn.GRU if config.cell == "gru" else nn.LSTM
        self.encoder = Encoder(kind, width, memory, config.layers, config.bidirectional, config.dropout)
        parts = 1 if config.cell == "gru" else 2
        mapped = config.layers * parts if INIT[config.init].mapped else 0
        self.bridges = nn.ModuleList(nn.Linear(memory, width) for _ in range(mapped))
        self.context_enters = DECODER[config.decoder].context_enters
        entering = context if self.context_enters else width if config.input_feeding else 0
        self.carries = entering > 0
        self.memory = SourceMemory.chosen(config, memory)
        self.cell = Cell(kind, width, config.layers, config.dropout, entering)
        self.attention = build_site(site, width, memory, lengths)
        self.readout = nn.Linear(context + width, width)
        self.unembedding = nn.Linear(width, vocabulary)
        self.tie(config.embeddings)

    def places(self) -> Iterator[tuple[str, int, MultiHeadAttention | Whole]]:
        yield "cross", 0, self.attention

    def origins(self) -> dict[str, Origin]:
        config = self.config
        top = " (top layer)" if config.layers > 1 else ""
        encoder = f"{config.cell.upper()} states h{top}, of width {config.memory_width}"
        encoder += ", both directions" if config.bidirectional else ", left to right"
        enters = ", c_t" if self.context_enters else ", r_{t−1}" if config.input_feeding else ""
        state = f"s_t = {config.cell.upper()}(s_{{t−1}}, y_{{t−1}}{enters}), of width {config.width}"
        readout = "tanh(W_c [c_t; s_t])" if config.readout == "tanh" else "W_c [c_t; s_t]"
        return {
            "cross": Origin(
                f"{DECODER[config.decoder].query} it reads y_{{t−1}}{top}; {state}",
                f"{self.memory.formula}; encoder: {encoder}",
                f"readout r_t = {readout}, and logits of y_t from it",
            )
        }

    def encode(self, source: Tensor, mask: Tensor) -> Encoded:
        embedded = self._embed(self.source_embedding, source)
        states, final = self.encoder(embedded, mask)
        slots = self.memory(states, final, mask)
        memory = self.attention.remember(self.dropout(slots.states), slots.mask)._replace(origin=slots.origin)
        return Encoded((memory,), self._initial(states, final, mask), (slots.terms,))

    def _initial(self, states: Tensor, final: Tensor, mask: Tensor) -> State:
        parts = 1 if self.config.cell == "gru" else 2
        flat = initial_vectors(self.config, self.bridges, states, final, mask, self.config.layers * parts)
        hidden = tuple(tuple(flat[i : i + parts]) for i in range(0, len(flat), parts))
        fed = final.new_zeros(len(final), self.config.width) if self.config.input_feeding else None
        return State(hidden, fed, 0)

    def decode(self, encoded: Encoded, target: Tensor) -> Output:
        embedded = self._embed(self.target_embedding, target)
        state: State = encoded.state
        memory = encoded.memories[0]
        if self.cell.entering is None:
            states, _ = self.cell.sequence(embedded, state.hidden)
            context, terms = self.attention(states, memory, _view(memory, 0, target.shape[1]))
            return Output(self._logits(self._read(context, states)), (terms,))
        gates = self.cell.gates(embedded)
        readouts, collected = [], []
        for t in range(target.shape[1]):
            readout, state, terms = self._step(gates[:, t], state, memory)
            readouts.append(readout)
            collected.append(terms)
        return Output(self._logits(torch.stack(readouts, 1)), (in_sequence(collected),))

    def step(self, token: Tensor, state: State, encoded: Encoded) -> tuple[Tensor, State]:
        gates = self.cell.gates(self._embed(self.target_embedding, token))
        readout, state, _ = self._step(gates, state, encoded.memories[0])
        return self._logits(readout), state

    def _step(self, gates: Tensor, state: State, memory: Memory | Held) -> tuple[Tensor, State, Terms]:
        """One token, from the gates [B, G·D] that its embedding gives."""
        view = _view(memory, state.position, 1)
        if self.context_enters:
            context, terms = self.attention(state.hidden[-1][0][:, None], memory, view)
            hidden = self.cell(gates, state.hidden, context[:, 0])
            readout = self._read(context[:, 0], hidden[-1][0])
            return readout, State(hidden, None, state.position + 1), terms
        hidden = self.cell(gates, state.hidden, state.fed)
        context, terms = self.attention(hidden[-1][0][:, None], memory, view)
        readout = self._read(context[:, 0], hidden[-1][0])
        fed = readout if self.config.input_feeding else None
        return readout, State(hidden, fed, state.position + 1), terms

    def _embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        """√D times the embedding, whose variance is 1/D: inputs of variance 1, as in the transformer."""
        embedded: Tensor = self.dropout(embedding(tokens) * math.sqrt(self.config.width))
        return embedded

    def _read(self, context: Tensor, states: Tensor) -> Tensor:
        readout = self.readout(torch.cat([context, states], -1))
        return torch.tanh(readout) if self.config.readout == "tanh" else readout

    def _logits(self, readout: Tensor) -> Tensor:
        return output_logits(self.unembedding, self.dropout(readout))


def _view(memory: Memory | Held, start: int, count: int) -> View:
    return View(memory.mask[:, None, None], torch.arange(start, start + count, device=memory.mask.device))
