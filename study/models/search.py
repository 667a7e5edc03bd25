"""Beam search, batched, with cached states: a prefix is never run again.

N sentences · k beams · V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from study.models.translator import BOS, EOS, PAD, Encoded, Translator, select


@torch.no_grad()
def beam_search(
    model: Translator, source: Tensor, mask: Tensor, *, beam: int, length_penalty: float, limit: int
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
        limit: largest number of target tokens, EOS counted; never more than the model's own limit.
    """
    limit = min(limit, model.longest or limit)
    n, device = len(source), source.device
    encoded = model.encode(source, mask)._replace(terms=())
    encoded = select(encoded, torch.arange(n, device=device).repeat_interleave(beam))
    search = _Search(n, beam, length_penalty, limit, device)
    state = encoded.state
    token = torch.full((n * beam,), BOS, device=device)
    for step in range(1, limit + 1):
        logits, state = model.step(token, state, encoded)
        rows = search.advance(logits.log_softmax(-1), step)
        token, state = search.tokens(step), select(state, rows)
        kept = search.drop_done()
        if kept is not None:
            if not len(kept):
                break
            token, state, encoded = token[kept], select(state, kept), _rows(encoded, kept)
    return search.best()


def _rows(encoded: Encoded, rows: Tensor) -> Encoded:
    """The memories of some rows. The initial state is not needed any more."""
    return Encoded(select(encoded.memories, rows), None, ())


class _Search:
    """The hypotheses of the sentences that are not done, and the best finished one of each sentence."""

    def __init__(self, n: int, beam: int, length_penalty: float, limit: int, device: torch.device) -> None:
        self.beam, self.alpha, self.limit = beam, length_penalty, limit
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
        self.history = self.history.gather(1, beam[..., None].expand(-1, -1, self.limit))
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

    def best(self) -> list[list[int]]:
        """Token lists of the best hypotheses, finished ones first."""
        if len(self.sentence):
            nothing = self.best_score[self.sentence] == float("-inf")
            value = torch.where(nothing, self.score[:, 0], float("-inf"))
            self._keep(value, torch.zeros_like(self.sentence), torch.zeros_like(self.sentence)[:, None])
        return [[token for token in row if token != PAD] for row in self.best_tokens.tolist()]
