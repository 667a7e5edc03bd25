import random

import numpy as np
import pytest
import sacrebleu

from study.corpora import Link, Pair
from study.scores import scoring

HYPOTHESES = ["Der Hund schläft .", "The old man sees the dog.", "a b c d e", ""]
REFERENCES = ["The dog sleeps.", "The old man saw the dog.", "a b c d e", "nothing"]


def test_bleu_and_chrf_are_sacrebleus_with_its_signature():
    draw = random.Random(1)
    words = ["the", "Dog", "sees,", "a", "cat.", "$3.5"]
    texts = [" ".join(draw.choices(words, k=draw.randrange(9))) for _ in range(200)]
    for hypotheses, references in ((HYPOTHESES, REFERENCES), (texts, texts[::-1]), ([""] * len(texts), texts)):
        bleu, chrf = scoring.bleu(hypotheses, references), scoring.chrf(hypotheses, references)
        assert bleu.value == sacrebleu.corpus_bleu(hypotheses, [references], force=True).score
        assert chrf.value == sacrebleu.corpus_chrf(hypotheses, [references]).score
    assert bleu.signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert chrf.signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


def test_exact_match_strips_the_ends_only():
    assert scoring.exact_match([" a b ", "a  b", "A b", "a b"], ["a b"] * 4).value == 50


def test_prefix_accuracy_by_hand():
    hypotheses = ["the cat sleeps.", "the dog sleeps.", "the dog sleeps. yes", "", ""]
    references = ["the dog sleeps."] * 4 + [""]
    assert scoring.prefix_accuracy(hypotheses, references).value == pytest.approx(100 * (1 / 4 + 1 + 1 + 0 + 1) / 5)


def test_word_accuracy_by_hand():
    hypotheses = ["17 31 9", "5", "1 2 3 4", ""]
    references = ["17 32 9 8", "6", "1 2", ""]
    assert scoring.word_accuracy(hypotheses, references).value == pytest.approx(100 * (2 + 0 + 2) / (4 + 1 + 2))
    assert scoring.word_accuracy([""], [""]).value == 100


def test_alignment_error_rate_by_hand():
    gold = [(Link(0, 0), Link(1, 2), Link(2, 1, sure=False)), (Link(0, 0),)]
    predicted = [{(0, 0), (2, 1), (3, 3)}, set()]
    # A∩S = {00}, A∩P = {00, 21}, |A| = 3, |S| = 2 + 1
    assert scoring.alignment_error_rate(predicted, gold).value == pytest.approx(1 - (1 + 2) / (3 + 3))
    perfect = [{(0, 0), (1, 2), (2, 1)}, {(0, 0)}]
    assert scoring.alignment_error_rate(perfect, gold).value == 0
    assert scoring.alignment_error_rate([set()], [()]).value == 0


def test_a_split_is_scored_whole_and_by_source_length():
    short = [Pair("eins, zwei drei vier.", "one two three four")] * 20
    long = [Pair(" ".join(["w"] * 9), "long one here now")] * 19
    pairs = short + long + [Pair("kurz", "short")]
    hypotheses = ["one two three four"] * 20 + ["wrong"] * 20
    scores = {(s.metric, s.subset): s for s in scoring.score_split(hypotheses, pairs, "test")}
    assert set(scores) == {(m, None) for m in ("bleu", "chrf", "exact", "prefix", "accuracy")} | {
        ("bleu", "length 4-7"),
        ("exact", "length 4-7"),
    }
    assert (scores["exact", None].value, scores["exact", None].n) == (50, 40)
    assert (scores["exact", "length 4-7"].value, scores["exact", "length 4-7"].n) == (100, 20)
    assert all(score.split == "test" and score.signature for score in scores.values())


def test_subsets_and_slopes_over_length_by_hand():
    """Sources of 4 and 6 words; references of one token and the end: .5 and 2.5 nats a token, so 1 more a word.

    All sources of the subset have 4 words, so it has no slope.
    """
    pairs = [Pair("eins, zwei drei vier.", "a")] * 20 + [Pair("w " * 6, "b")] * 20
    some, few = [True] * 20 + [False] * 20, [True] * 19 + [False] * 21
    text = scoring.score_split(["a"] * 15 + ["b"] * 25, pairs, "test", {"some": some, "few": few})
    assert {s.metric: (s.value, s.n) for s in text if s.subset == "some"} == {"bleu": (0, 20), "exact": (75, 20)}
    found = scoring.score_nll([1.0] * 20 + [5.0] * 20, pairs, "test", {"some": some, "few": few})
    assert {(s.metric, s.subset): (s.value, s.n) for s in found} == {
        ("nll_per_token_by_length", None): (1, 40),
        ("nll_per_token_by_length", "some"): (None, 20),
        ("nll", "some"): (1, 20),
    }
    assert all(s.value is None for s in scoring.score_nll(None, pairs, "test", {"some": some}))


def test_a_constant_loss_per_token_has_slope_0():
    """References of 2 to 6 tokens and their end, .7 nats each: longer sentences cost more, and no token does."""
    pairs = [Pair("w " * n, " ".join("abcdefg"[: n - 2])) for n in (4, 5, 8) for _ in range(20)]
    nll = [0.7 * (len(pair.target.split()) + 1) for pair in pairs]
    (score,) = scoring.score_nll(nll, pairs, "test")
    assert score.value == pytest.approx(0, abs=1e-12)
    assert max(nll) > 2 * min(nll)


def test_hypotheses_without_their_references_are_refused():
    for score in scoring.TEXT_SCORES.values():
        with pytest.raises(ValueError, match=r"1 hypotheses for 2 references|zip\(\)"):
            score(["a"], ["a", "b"])


def test_the_mean_at_a_temperature_by_hand():
    nll, members = [1.0] * 20 + [2.0] * 20, {"some": [True] * 20 + [False] * 20}
    found = scoring.score_calibrated(nll, 0.8, 40, "test", members)
    assert [(s.metric, s.subset, s.value, s.n) for s in found] == [
        ("nll_calibrated", None, 1.5, 40),
        ("nll_calibrated", "some", 1.0, 20),
    ]
    assert found[0].signature == "temperature:0.8|fitted:valid|version:1"
    assert scoring.score_calibrated(None, 0.8, 40, "test")[0].value is None


def test_counts_give_the_facts_of_bleu_and_exact_match():
    pairs = [Pair("x", reference) for reference in REFERENCES]
    rows = scoring.counts(HYPOTHESES, pairs)
    for metric in scoring.COUNTED:
        facts = scoring.MEASURES[metric].table(HYPOTHESES, REFERENCES)
        assert scoring.counted(metric, rows).tolist() == facts.tolist()


def test_linearised_scores_have_the_score_as_mean_and_its_derivative_as_spread():
    """Leaving out one sentence of n changes a score by (score − linearised_i) / (n − 1), to first order."""
    draw = random.Random(2)
    words = ["a", "b", "c", "d", "e", "f"]
    texts = [" ".join(draw.choices(words, k=draw.randrange(5, 30))) for _ in range(2000)]
    noisy = [" ".join(w for w in text.split() if draw.random() > 0.2) + " a b" for text in texts]
    for measure in scoring.MEASURES.values():
        table = measure.table(noisy, texts)
        linearised = measure.linearised(table)
        assert linearised.mean() == pytest.approx(measure.of(table), rel=1e-9, abs=1e-9)
        for i in range(20):
            change = measure.of(np.delete(table, i, axis=0)) - measure.of(table)
            assert change * (len(table) - 1) == pytest.approx(measure.of(table) - linearised[i], rel=0.02, abs=0.2)
    assert scoring.bleu.linearised(scoring.bleu.table(["a"], ["b"])) is None, "no n-gram is right"


def test_the_noise_of_word_accuracy_is_that_of_a_ratio():
    """Sentences of 2 and of 10 words, all half right: the score is 50 whatever is drawn, so there is no noise."""
    references = ["a b"] * 30 + ["a b c d e f g h i j"] * 30
    hypotheses = ["a x"] * 30 + ["a b c d e x x x x x"] * 30
    values = scoring.word_accuracy.linearised(scoring.word_accuracy.table(hypotheses, references))
    assert values == pytest.approx(50)
