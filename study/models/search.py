"""Beam search, batched, with cached states: a prefix is never run again.

N sentences · k beams · V vocabulary.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from study.models.translator import BOS, EOS, PAD, Encoded, Translator, lengths, select

Count = TypeVar("Count", int, Tensor)


def most_tokens(source: Count) -> Count:
    """The largest number of target tokens for this number of source tokens, EOS counted on both sides."""
    return 2 * source + 10


@torch.no_grad()
def beam_search(
    model: Translator, source: Tensor, mask: Tensor, *, beam: int, length_penalty: float, limit: int | None = None
) -> list[list[int]]:
    """The best translation of each sentence, without BOS and EOS.

    A hypothesis scores log p / length^α, its EOS counted. A sentence is done when k of its hypotheses have ended
    (with k = 1: greedy search); one that has none by the limit gives its best unfinished one.

    Args:
        model: in evaluation mode.
        source: tokens [N, S].
        mask: [N, S].
        beam: k.
        length_penalty: α.
        limit: largest number of target tokens, EOS counted (default: `most_tokens` of the sentence's own source,
            whatever the batch). Never more than the model's own limit.
    """
    n, device = len(source), source.device
    limits = most_tokens(lengths(mask)) if limit is None else torch.full((n,), limit, device=device)
    if model.longest is not None:
        limits = limits.clamp(max=model.longest)
    encoded = model.encode(source, mask)._replace(terms=())
    encoded = select(encoded, torch.arange(n, device=device).repeat_interleave(beam))
    search = _Search(limits, beam, length_penalty)
    state = encoded.state
    token = torch.full((n * beam,), BOS, device=device)
    for step in range(1, int(limits.max()) + 1):
        logits, state = model.step(token, state, encoded)
        rows = search.advance(logits.log_softmax(-1), step)
        token, state = search.tokens(step), state if beam == 1 else select(state, rows)
        search.expire(step)
        kept = search.drop_done()
        if kept is not None:
            if not len(kept):
                break
            token, state, encoded = (
                token[kept],
                select(state, kept),
                Encoded(select(encoded.memories, kept), None, ()),
            )  # the initial state is not needed any more
    return search.best()


class _Search:
    """The hypotheses of the sentences that are not done, and the best finished one of each sentence."""

    def __init__(self, limits: Tensor, beam: int, length_penalty: float) -> None:
        self.beam, self.alpha, self.limits = beam, length_penalty, limits
        n, limit, device = len(limits), int(limits.max()), limits.device
        self.sentence = torch.arange(n, device=device)
        # At the start the k beams are the same, so only the first may be extended.
        self.score = torch.full((n, beam), float("-inf"), device=device)
        self.score[:, 0] = 0.0
        self.history = torch.full((n, beam, limit), PAD, device=device)
        self.ended = torch.zeros(n, dtype=torch.long, device=device)
        self.best_score = torch.full((n,), float("-inf"), device=device, dtype=torch.float64)
        self.best_tokens = torch.full((n, limit), PAD, device=device)

    def advance(self, log_prob: Tensor, step: int) -> Tensor:
        """Extend every beam by its best tokens; log_prob is [n·k, V]. Returns the row that each new beam came from."""
        n, k = self.score.shape
        log_prob[:, (PAD, BOS)] = float("-inf")
        vocabulary = log_prob.shape[-1]
        total = (self.score[..., None] + log_prob.view(n, k, vocabulary)).flatten(1)
        # Of 2k candidates at most k end, so at least k go on.
        score, index = total.topk(min(2 * k, total.shape[1]), dim=-1)
        beam, token = index // vocabulary, index % vocabulary
        ends = token == EOS
        self._finish(score, beam, ends, step)
        going = torch.where(ends, float("-inf"), score)
        self.score, order = going.topk(k, dim=-1)
        beam, token = beam.gather(1, order), token.gather(1, order)
        self.history = self.history.gather(1, beam[..., None].expand_as(self.history))
        self.history[:, :, step - 1] = token
        return (torch.arange(n, device=beam.device)[:, None] * k + beam).flatten()

    def _finish(self, score: Tensor, beam: Tensor, ends: Tensor, step: int) -> None:
        """Take the hypotheses that end here, among the k best candidates of sentences that are not done."""
        ends = ends & (self.ended < self.beam)[:, None] & (score > float("-inf"))
        ends[:, self.beam :] = False
        value = torch.where(ends, score, float("-inf")) / step**self.alpha
        self.ended += ends.sum(1)
        best, candidate = value.max(1)
        self._keep(best, candidate, beam)

    def _keep(self, value: Tensor, candidate: Tensor, beam: Tensor) -> None:
        value, best = value.double(), self.best_score[self.sentence]
        better = value > best
        which = beam.gather(1, candidate[:, None])[:, 0]
        tokens = self.history[torch.arange(len(which), device=which.device), which]
        self.best_score[self.sentence] = torch.where(better, value, best)
        self.best_tokens[self.sentence] = torch.where(better[:, None], tokens, self.best_tokens[self.sentence])

    def tokens(self, step: int) -> Tensor:
        """The last token of every beam, [n·k]."""
        return self.history[:, :, step - 1].flatten()

    def drop_done(self) -> Tensor | None:
        """Drop sentences that are done, when that shrinks the batch by a quarter. Returns the rows that are left."""
        done = self.ended >= self.beam
        count = int(done.sum())
        if count < len(done) and count < max(1, len(done) // 4):
            return None
        left = (~done).nonzero()[:, 0]
        self.score, self.history = self.score[left], self.history[left]
        self.ended, self.sentence = self.ended[left], self.sentence[left]
        return (left[:, None] * self.beam + torch.arange(self.beam, device=left.device)).flatten()

    def expire(self, step: int) -> None:
        """End the sentences that are at their limit; one without a finished hypothesis gets its best unfinished one."""
        late = (self.limits[self.sentence] <= step) & (self.ended < self.beam)
        nothing = late & (self.best_score[self.sentence] == float("-inf"))
        first = torch.zeros_like(self.sentence)
        self._keep(torch.where(nothing, self.score[:, 0], float("-inf")), first, first[:, None])
        self.ended[late] = self.beam

    def best(self) -> list[list[int]]:
        """Token lists of the best hypotheses."""
        return [[token for token in row if token != PAD] for row in self.best_tokens.tolist()]
