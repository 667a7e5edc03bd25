"""Beam search against greedy search, a plain beam in Python, and brute force."""

from itertools import product

import model_cases as cases
import pytest
import torch

from study.models.search import beam_search
from study.models.translator import BOS, EOS, PAD, Encoded, Translator

V, LIMIT = 7, 4
WORDS = [token for token in range(V) if token not in (PAD, BOS, EOS)]


class Scripted(Translator):
    """Logits read from a table [sentences, steps, V (last token), V]; a source is the number of its sentence."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def encode(self, source, mask):
        return Encoded((), (source[:, 0], torch.zeros_like(source[:, 0])), ())

    def step(self, token, state, encoded):
        sentence, t = state
        return self.table[sentence, t, token], (sentence, t + 1)


def script(sentences, steps=LIMIT, sharpness=2.0, ending=0.0):
    generator = torch.Generator().manual_seed(17)
    table = sharpness * torch.randn(sentences, steps, V, V, generator=generator, dtype=torch.float64)
    table[..., EOS] += ending
    return table


def search(table, rows, beam, alpha=1.0, limit=None):
    source = torch.tensor(rows)[:, None]
    return beam_search(
        Scripted(table), source, source >= 0, beam=beam, length_penalty=alpha, limit=limit or table.shape[1]
    )


def log_prob(table, tokens):
    """Log probability of one sentence's tokens, under its table [steps, V, V]."""
    before = (BOS, *tokens)
    return sum(float(table[t, before[t]].log_softmax(-1)[token]) for t, token in enumerate(tokens))


def plain_beam(table, beam, alpha):
    """One sentence, with lists and sorting."""
    log = table.log_softmax(-1).tolist()
    alive = [(0.0, ())]
    finished = []
    for t in range(len(log)):
        candidates = [
            (score + log[t][(BOS, *tokens)[t]][token], (*tokens, token))
            for score, tokens in alive
            for token in (*WORDS, EOS)
        ]
        candidates.sort(reverse=True)
        finished += [
            (score / (t + 1) ** alpha, tokens[:-1]) for score, tokens in candidates[:beam] if tokens[-1] == EOS
        ]
        alive = [(score, tokens) for score, tokens in candidates if tokens[-1] != EOS][:beam]
        if len(finished) >= beam:
            break
    return list(max(finished or alive)[1])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_beam_wider_than_all_sequences_is_brute_force(alpha):
    table = script(13)
    found = search(table, list(range(13)), beam=400, alpha=alpha)
    for sentence, hypothesis in zip(table, found, strict=True):
        every = [(*words, EOS) for n in range(LIMIT) for words in product(WORDS, repeat=n)]
        best = max(every, key=lambda tokens: log_prob(sentence, tokens) / len(tokens) ** alpha)
        assert hypothesis == list(best[:-1])


@pytest.mark.parametrize(("beam", "ending"), [(1, 0.0), (2, -2.0), (3, 3.0), (5, 0.0), (11, -2.0), (24, 3.0)])
def test_equals_a_plain_beam_whatever_the_batch(beam, ending):
    """The widths pass the 5 tokens that can follow; some sentences end at once, others at the limit."""
    n = 19
    table = script(n, steps=9, sharpness=1.5, ending=ending)
    together = search(table, list(range(n)), beam)
    assert together == [plain_beam(sentence, beam, 1.0) for sentence in table]
    assert len({len(hypothesis) for hypothesis in together}) > 1
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0)).tolist()
    assert search(table, order, beam) == [together[i] for i in order]
    assert [search(table, [i], beam)[0] for i in range(n)] == together
    lengths_matter = search(table, list(range(n)), beam, alpha=0.0) != search(table, list(range(n)), beam, alpha=3.0)
    assert beam > 1 or not lengths_matter, "why the configuration refuses a length penalty with one beam"


def test_a_hypothesis_that_never_ends_does_not_depend_on_its_batch():
    model = cases.model(cases.RECURRENT)
    with torch.no_grad():
        model.unembedding.bias[EOS] = -50.0
    source = cases.tokens(3, (7, 2, 5))
    together = beam_search(model, source, source != PAD, beam=2, length_penalty=1.0)
    assert [len(hypothesis) for hypothesis in together] == [2 * n + 10 for n in (7, 2, 5)]
    alone = [s[None, s != PAD] for s in source]
    assert together == [beam_search(model, s, s > 0, beam=2, length_penalty=1.0)[0] for s in alone]


@torch.no_grad()
@pytest.mark.parametrize(
    "family",
    [cases.RECURRENT | {"model.cell": "lstm"}, cases.RECURRENT | {"model.input_feeding": True}, cases.TRANSFORMER],
)
def test_one_beam_is_greedy_search_and_the_rest_score_as_forced(family):
    model = cases.model(family, {"model.layers": 2})
    model.unembedding.weight.mul_(4)
    source = cases.tokens(5, (7, 3, 5, 6, 2))
    mask = source != PAD
    limit = 13
    encoded = model.encode(source, mask)
    state, token = encoded.state, torch.full((5,), BOS)
    chosen = []
    for _ in range(limit):
        logits, state = model.step(token, state, encoded)
        logits[:, [PAD, BOS]] = float("-inf")
        token = logits.argmax(-1)
        chosen.append(token.tolist())
    greedy = [list(row[: row.index(EOS)] if EOS in row else row) for row in zip(*chosen, strict=True)]
    assert beam_search(model, source, mask, beam=1, length_penalty=0.7, limit=limit) == greedy
    wide = beam_search(model, source, mask, beam=6, length_penalty=0.0, limit=limit)
    better = [
        forced_log_prob(model, s, w, limit) - forced_log_prob(model, s, g, limit)
        for s, w, g in zip(source, wide, greedy, strict=True)
    ]
    assert max(better) > 0
    assert wide == [
        beam_search(model, s[None, s != PAD], s[None, s != PAD] > 0, beam=6, length_penalty=0.0, limit=limit)[0]
        for s in source
    ]


def forced_log_prob(model, source, tokens, limit):
    """log p of a hypothesis by teacher forcing, its EOS counted if it has one."""
    wanted = torch.tensor([*tokens, EOS][:limit])
    given = torch.tensor([BOS, *tokens][:limit])
    logits = cases.forced(model, source[None, source != PAD], given[None])[0]
    return float(logits.log_softmax(-1).gather(1, wanted[:, None]).sum())
