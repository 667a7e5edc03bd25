"""Fast scores are the slow ones: sacreBLEU's and `scoring`'s own, on real sentences and on hostile ones."""

import os
import random

import pytest
from sacrebleu.metrics.bleu import BLEU

from study import records, scoring
from study.config import Grammar, Multi30k
from study.corpora import Pair, load
from study.publish.counts import NgramCounts, Rescorer, Statistics, references, tokens

PAIRS = load(Grammar(train_pairs=2, test_pairs=120)).splits["test"]

HAN = "".join(map(chr, range(0x4E00, 0x9000)))
"""An alphabet of many letters."""


def translations(pairs, seed=0):
    """A third right, the others with a word lost, doubled or strange, or nothing at all."""
    draw = random.Random(seed)
    out = []
    for pair in pairs:
        words = pair.target.split()
        match draw.randrange(9):
            case 0:
                words.pop(draw.randrange(len(words)))
            case 1:
                words *= 2
            case 2:
                words[0] = "Ω𝔄 é"
            case 3:
                words = []
            case 4 | 5:
                draw.shuffle(words)
        out.append(" ".join(words))
    return out


@pytest.mark.parametrize("hypotheses", [translations(PAIRS), [p.target for p in PAIRS], [""] * len(PAIRS)])
def test_a_split_is_scored_as_scoring_does(hypotheses):
    slow = scoring.score_split(hypotheses, PAIRS, "test")
    fast, statistics = Rescorer(PAIRS).score(hypotheses, "test")
    rounded = [score.model_copy(update={"value": records.rounded(score.value)}) for score in slow]
    assert len(slow) > 8
    assert sorted(map(str, fast)) == sorted(map(str, rounded))
    stored = Statistics.loads(statistics.dumps())
    assert (stored.rows == statistics.rows).all()
    assert stored.scores("test") == [score for score in fast if score.metric in ("bleu", "exact")]


def test_the_statistics_are_sacrebleus():
    hypotheses = translations(PAIRS)
    _, statistics = Rescorer(PAIRS).score(hypotheses, "test")
    bleu = BLEU(effective_order=True)
    theirs = [bleu.sentence_score(text, [pair.target]) for text, pair in zip(hypotheses, PAIRS, strict=True)]
    assert statistics.sacrebleu().tolist() == [[s.sys_len, s.ref_len, *s.counts, *s.totals] for s in theirs]
    assert statistics.rows[:, 2].tolist() == [tokens(text) for text in hypotheses]


@pytest.mark.parametrize("letters", ["ab", "abcdefg \u00a0\0é", HAN])
def test_chrf_is_sacrebleus(letters):
    draw = random.Random(len(letters))
    texts = ["".join(draw.choices(letters, k=draw.randrange(90))) for _ in range(60)]
    references, hypotheses = texts[:30], [*texts[30:50], *texts[20:30]]
    rescorer = Rescorer([Pair("ein Satz", reference) for reference in references])
    for some in (hypotheses, references, hypotheses, [""] * 30):  # translations seen before and new ones
        chrf = {s.metric: s.value for s in rescorer.score(some, "test")[0]}["chrf"]
        assert chrf == records.rounded(scoring.chrf(some, references).value)


def test_ngrams_are_counted_by_sentence_and_clipped():
    """`a b a b` for `a b a`: 3 of 4 words, 2 of 3 bigrams (`a b` once), 1 trigram. No bigram spans two sentences."""
    counts = NgramCounts([["a", "b", "a"], ["c"]], 3)
    assert counts.matches([["a", "b", "a", "b"], ["c", "a"]], [0, 1]).tolist() == [[3, 2, 1], [1, 0, 0]]
    assert counts.matches([["c", "c", "x", "a"]], [1]).tolist() == [[1, 0, 0]]
    assert counts.matches([[]], [0]).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("text", ["", "a\tb\n1\t2\n", "source_words\n3\n"])
def test_what_is_no_file_of_statistics_is_refused(text):
    with pytest.raises(ValueError, match=r".*"):
        Statistics.loads(text)


def test_the_number_of_lines_must_fit():
    with pytest.raises(ValueError, match="expected 120 lines, one per sentence, got 3"):
        Rescorer(PAIRS).score(["a"] * 3, "test")


def test_references_are_read_where_they_are_and_never_downloaded(monkeypatch):
    given = os.environ.get("STUDY_MULTI30K")
    monkeypatch.delenv("STUDY_MULTI30K", raising=False)
    assert references(Multi30k()) is None
    assert references(Grammar(train_pairs=2, test_pairs=120)).splits["test"] == PAIRS
    if given:
        monkeypatch.setenv("STUDY_MULTI30K", given)
        pairs = references(Multi30k()).splits["test_2016_flickr"]
        hypotheses = translations(pairs)
        fast, _ = Rescorer(pairs).score(hypotheses, "test")
        assert {s.metric: s.value for s in fast if s.subset is None} == {
            metric: records.rounded(score(hypotheses, [pair.target for pair in pairs]).value)
            for metric, score in scoring.METRICS.items()
        }
