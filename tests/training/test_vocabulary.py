"""Tokens: lossless, aligned with words, learned once."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from study.config import Grammar
from study.corpora import Corpus, Pair, words
from study.errors import InputError
from study.models.translator import EOS, UNK
from study.training.vocabulary import Subwords, Words, factor_tokens, restore, vocabulary_for

TEXTS = [
    "Der Mann sieht die Haustür, weil er groß ist.",
    "Zwei Männer überqueren die Straße: ein Fußballplatz!",
    "A man sees the front door because he is tall.",
]
SUBWORDS = Subwords.learn(TEXTS * 3, 330)
WORDS = Words.learn(TEXTS)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="▁"), max_size=30))
@example("  Die  Haustür ist — groß. ")
@example("火, 🙂 und Ärger\u00a0über Öl")
@example("")
def test_subwords_are_lossless_and_every_token_has_its_word(text):
    (ids,) = SUBWORDS.encode([text])
    assert SUBWORDS.decode(ids) == text
    assert UNK not in ids
    found = SUBWORDS.words(text)
    assert len(found) == len(ids)
    assert found == sorted(found)
    if words(text):
        assert set(found) <= set(range(len(words(text))))
        assert max(found) == len(words(text)) - 1


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("„Hallo“, sagte er.", ["„", "Hallo", "“", ",", "sagte", "er", "."]),
        ("  zwei  Männer — 火 🙂", ["zwei", "Männer", "—", "火", "🙂"]),
        ("Haustürschlüssel 3,5 %", ["Haustürschlüssel", "3", ",", "5", "%"]),
    ],
)
def test_the_tokens_of_each_word_spell_it(text, wanted):
    """Compounds of several tokens, punctuation without a space, characters of several bytes."""
    (ids,) = SUBWORDS.encode([text])
    by_word = [[] for _ in wanted]
    for token, word in zip(ids, SUBWORDS.words(text), strict=True):
        by_word[word].append(token)
    assert [SUBWORDS.decode(tokens).strip() for tokens in by_word] == wanted


def test_words_by_hand():
    (ids,) = WORDS.encode(["Der Mann ist groß, weil Xylophone er."])
    assert WORDS.tokens(ids) == ["Der", "Mann", "ist", "groß", ",", "weil", "<unk>", "er", "."]
    assert WORDS.decode(ids) == "Der Mann ist groß, weil ⁇ er."
    assert WORDS.words("Der Mann ist groß, weil") == [0, 1, 2, 3, 4, 5]
    assert [WORDS.decode(tokens) for tokens in WORDS.encode(TEXTS)] == TEXTS


@pytest.mark.parametrize("vocabulary", [WORDS, SUBWORDS], ids=["words", "subwords"])
def test_a_vocabulary_is_restored_from_its_state(vocabulary):
    again = restore("words" if vocabulary is WORDS else "subwords", vocabulary.state)
    assert again.encode(TEXTS) == vocabulary.encode(TEXTS)
    assert (len(again), again.state) == (len(vocabulary), vocabulary.state)
    assert vocabulary.tokens([EOS]) == ["</s>"]


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    splits = {"train": [Pair(*TEXTS[1:])], "valid": [Pair("nur hier", "only here")]}
    return Corpus("grammar", 1, splits)


DATA = Grammar(tokens="subwords", vocabulary=300)


def test_a_subword_model_is_learned_once(corpus, monkeypatch):
    first = vocabulary_for(DATA, corpus)
    assert len(first) == 300
    monkeypatch.setattr(Subwords, "learn", lambda *_: pytest.fail("it was learned again"))
    assert vocabulary_for(DATA, corpus).state == first.state
    longer = Corpus("grammar", 1, {"train": [*corpus.splits["train"], Pair("Neu", "New")]})
    for data, other in ((DATA, longer), (Grammar(tokens="subwords", vocabulary=301), corpus)):
        with pytest.raises(pytest.fail.Exception):
            vocabulary_for(data, other)


@pytest.mark.parametrize("size", [20, 5000])
def test_a_size_that_cannot_be_is_refused(corpus, size):
    with pytest.raises(InputError, match=rf"data\.vocabulary: expected another size, got {size}"):
        vocabulary_for(Grammar(tokens="subwords", vocabulary=size), corpus)


def test_factors_by_hand():
    """Tokens b1 and a0 stand for names, a1 and b0 for labels; without b0 nothing stands for label 0."""
    factors = lambda word: (word[0], word[1]) if word[:1] in ("a", "b") else None  # noqa: E731
    found = Words.learn(["b1 b1 b1 a0 a0 a1 b0"])
    first = len(found) - 4
    name, label = factor_tokens(found, factors)
    tokens = found.tokens(list(range(first, first + 4)))
    assert all(tokens[name[first + i] - first][0] == token[0] for i, token in enumerate(tokens))
    assert all(tokens[label[first + i] - first][1] == token[1] for i, token in enumerate(tokens))
    assert not set(name[first:]) & set(label[first:])
    with pytest.raises(InputError, match=r"model\.factors: .*label '0'.* Raise data\.nodes\."):
        factor_tokens(Words.learn(["b1 b1 b1 a0 a0 a1"]), factors)
