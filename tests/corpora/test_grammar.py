"""The embedded grammar: what a reader may rely on, checked on the corpus itself and on sentences built by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from study.config import Grammar
from study.corpora import Pair, cache, load, words
from study.corpora.grammar import generate, generator
from study.corpora.grammar.alignment import assemble
from study.corpora.grammar.draw import digest
from study.corpora.grammar.lexicon import Adverb, Conjunction, Word, lexicon
from study.corpora.grammar.morphology import adjective, determiner, noun, without_pronouns
from study.corpora.grammar.syntax import sentence
from study.corpora.grammar.tree import Clause, Frame, Phrase

GOLDEN = "90dd5e8c4b822bdd"
"""Hash of all splits. Other sentences for the same section need another Grammar.version.

Sentences of the small lexicon are compared with those of published runs, in `tests/publish/test_verify.py`.
"""
PRONOUNS = {"er": "m", "ihn": "m", "sie": "f", "es": "n"}
ENGLISH_PRONOUNS = {"he", "him", "she", "her", "it"}


@pytest.fixture(scope="module")
def corpus():
    return load(Grammar(lexicon="large", train_pairs=300))  # made once for all processes


def tokens(text):
    return [word for word, _, _ in words(text)]


def everything(corpus):
    return [pair for split in corpus.splits.values() for pair in split]


def noun_forms(entries):
    """Every surface form of every noun, with whether it is a plural."""
    forms = {}
    for entry in entries.nouns:
        for plural in (False, True):
            for case in ("nominative", "accusative", "dative")[: 2 if plural else 3]:
                readings = forms.setdefault(noun(entry, case, plural), [])
                if (entry, plural) not in readings:
                    readings.append((entry, plural))
    return forms


# The corpus as a whole


def test_the_generator_is_a_function_of_its_section_and_its_version(corpus, monkeypatch):
    """No split depends on the size of another, or on its own but for the end."""
    monkeypatch.setattr(generator, "VALID", 8)
    other = generate(Grammar(lexicon="large", train_pairs=310, test_pairs=8))
    assert other.splits["train"][:300] == corpus.splits["train"]
    assert all(
        other.splits[name] == corpus.splits[name][: len(other.splits[name])] for name in ("valid", *corpus.tests)
    )
    assert other.contrasts == corpus.contrasts[: len(other.contrasts)] != []
    another = generate(Grammar(lexicon="large", train_pairs=4, test_pairs=8, seed=1))
    assert another.splits["test"] != other.splits["test"]


def test_splits_have_their_sizes_and_share_no_sentence(corpus):
    assert digest(*corpus.files.values())[:16] == GOLDEN
    sizes = {name: len(split) for name, split in corpus.splits.items()}
    assert sizes == {"train": 300, "valid": 500, "test": 1000, "long": 500, "deep": 500, "pronoun": 500}
    assert corpus.tests == ["test", "long", "deep", "pronoun"]
    sources = [pair.source for pair in everything(corpus)]
    assert len(set(sources)) == len(sources)


def test_every_word_is_linked_within_bounds_and_written_as_text(corpus):
    for pair in everything(corpus):
        source, target = tokens(pair.source), tokens(pair.target)
        assert len({(i, j) for i, j, _ in pair.alignment}) == len(pair.alignment)
        assert {i for i, word in enumerate(source) if word != ","} <= {i for i, _, _ in pair.alignment}
        assert {j for j, word in enumerate(target) if word != ","} <= {j for _, j, _ in pair.alignment}
        assert all(0 <= i < len(source) and 0 <= j < len(target) for i, j, _ in pair.alignment)
        for text in (pair.source, pair.target):
            assert text[0].isupper()
            assert text.endswith(".")
            assert not any(fault in text for fault in ("  ", " ,", ",,", ",.", " ."))


# Pronouns


def test_a_pronoun_has_one_antecedent_and_another_noun_between(corpus):
    forms = noun_forms(lexicon("large"))
    seen = 0
    for pair in everything(corpus):
        source = tokens(pair.source)
        at = [i for i, word in enumerate(source) if word.lower() in PRONOUNS]
        if not at:
            continue
        seen += 1
        assert len(at) == 1
        gender = PRONOUNS[source[at[0]].lower()]
        nouns = {i: {entry.gender for entry, _ in forms[word]} for i, word in enumerate(source) if word in forms}
        assert gender != "f" or not any(all(plural for _, plural in forms[source[i]]) for i in nouns)
        compatible = [i for i, genders in nouns.items() if gender in genders]
        assert len(compatible) == 1, pair
        low, high = sorted((compatible[0], at[0]))
        assert any(low < i < high for i in nouns), pair
        human = forms[source[compatible[0]]][0][0].human
        english = [word.lower() for word in tokens(pair.target) if word.lower() in ENGLISH_PRONOUNS]
        assert len(english) == 1
        assert (english[0] == "it") != human
    assert seen > 500


def test_sentences_without_pronouns_by_hand(corpus):
    texts = {
        "Der Herr kauft das Essen.": True,  # er and es stand inside words
        "Er kauft das Essen.": False,
        "Die Frau sucht den Schlüssel, weil er gefallen ist.": False,
        "Der Mann kennt die Tante, und der Onkel sieht sie.": False,
        "Weil es klein ist, sieht die Frau ihn.": False,
        "Der Mann, der ihren Brief liest, schläft.": True,
    }
    assert without_pronouns([Pair(text, "") for text in texts]) == list(texts.values())
    assert not any(without_pronouns(corpus.splits["pronoun"]))
    for pair, without in zip(corpus.splits["test"], without_pronouns(corpus.splits["test"]), strict=True):
        assert without == ENGLISH_PRONOUNS.isdisjoint(word.lower() for word in tokens(pair.target))


def test_minimal_pairs_differ_in_the_antecedent_alone(corpus):
    entries = {entry.de: entry for entry in lexicon("large").nouns}
    entries |= {noun(entry, "accusative", False): entry for entry in lexicon("large").nouns}
    assert [contrast.source for contrast in corpus.contrasts] == [pair.source for pair in corpus.splits["pronoun"]]
    assert [contrast.right for contrast in corpus.contrasts] == [pair.target for pair in corpus.splits["pronoun"]]
    for one, other in zip(corpus.contrasts[::2], corpus.contrasts[1::2], strict=True):
        assert one.pair == other.pair
        changed = [(a, b) for a, b in zip(tokens(one.source), tokens(other.source), strict=True) if a != b]
        assert len(changed) == 1
        human, thing = (entries[word] for word in changed[0])
        assert human.human
        assert not thing.human
        assert human.gender == thing.gender
        for half in (one, other):
            swapped = [(a, b) for a, b in zip(tokens(half.right), tokens(half.wrong), strict=True) if a != b]
            assert len(swapped) == 1
            assert "it" in {word.lower() for word in swapped[0]}
    assert len({contrast.pair for contrast in corpus.contrasts}) == 250
    assert sum(tokens(pair.source)[1] in PRONOUNS for pair in corpus.splits["pronoun"]) >= 10, "before the antecedent"


# Grammar


AGREEMENT = """
der: m nominative der alte, m accusative den alten, m dative dem alten, f nominative die alte, f accusative die alte
der: f dative der alten, n accusative das alte, n dative dem alten, m plural die alten
ein: m nominative ein alter, m accusative einen alten, f nominative eine alte, f dative einer alten
ein: n nominative ein altes, n accusative ein altes, n dative einem alten
dieser: n nominative dieses alte
jeder: m accusative jeden alten
"""


def test_agreement_in_gender_number_and_case():
    for line in AGREEMENT.strip().splitlines():
        article, _, cells = line.partition(": ")
        entry = next(d for d in lexicon("large").determiners if d.de == article)
        for cell in cells.split(", "):
            gender, case, *expected = cell.split()
            form = (gender, "nominative" if case == "plural" else case, case == "plural")
            assert [determiner(entry, *form), adjective("alt", article, *form)] == expected, cell


# Sentences built by hand


def phrase(entries, german, article="der", **features):
    made = Phrase()
    made.noun = next(entry for entry in entries.nouns if entry.de == german)
    made.determiner = next(entry for entry in entries.determiners if entry.de == article)
    for name, value in features.items():
        setattr(made, name, value)
    return made


def verb(entries, infinitive):
    every = (*entries.intransitive, *entries.transitive, *entries.reporting)
    return next(entry for entry in every if entry.prefix + entry.de == infinitive)


def links(pair):
    """Readable links: sure "a-b", possible "a?b", with the position of a repeated word left out."""
    source, target = tokens(pair.source), tokens(pair.target)
    return {f"{source[i]}{'-' if sure else '?'}{target[j]}" for i, j, sure in pair.alignment or ()}


def test_separated_prefix_perfect_relative_and_compound_by_hand():
    entries = lexicon("small")
    door = phrase(entries, "Haustür")
    door.relative = Clause(
        "relative", Frame("intransitive", perfect=True, gap="subject"), door, verb=verb(entries, "umfallen")
    )
    main = Clause(
        "main", Frame("transitive", separated=True), phrase(entries, "Lehrer"), door, verb=verb(entries, "ansehen")
    )
    pair, _ = assemble(sentence([main]))
    assert pair.source == "Der Lehrer sieht die Haustür, die umgefallen ist, an."
    assert pair.target == "The teacher looks at the front door that tipped over."
    assert links(pair) == {
        *("Der-The", "Lehrer-teacher", "sieht-looks", "sieht?at", "an?looks", "an?at", "die-the", "Haustür-front"),
        *("Haustür-door", "die-that", "umgefallen-tipped", "umgefallen?over", "ist?tipped", "ist?over", ".-."),
    }


def test_inversion_negation_and_pronoun_by_hand():
    entries = lexicon("small")
    key = phrase(entries, "Schlüssel", "ein", adjective=Word("alt", "old"))
    it = Phrase(antecedent=key)
    inner = Clause("subordinate", Frame("intransitive", perfect=True), it, verb=verb(entries, "fallen"))
    inner.conjunction = Conjunction("weil", "because")
    main = Clause("main", Frame("transitive", adverb=True), phrase(entries, "Frau"), key, verb=verb(entries, "suchen"))
    main.adverb, main.front, main.after = Adverb("heute", "today"), "adverb", inner
    pair, _ = assemble(sentence([main]))
    assert pair.source == "Heute sucht die Frau einen alten Schlüssel, weil er gefallen ist."
    assert pair.target == "Today the woman seeks an old key because it fell."
    assert [(i, j) for i, j, sure in pair.alignment or () if sure] == [
        *((0, 0), (1, 3), (2, 1), (3, 2), (4, 4), (5, 5), (6, 6), (8, 7), (9, 8), (10, 9), (12, 10)),
    ]
    assert [(i, j) for i, j, sure in pair.alignment or () if not sure] == [(11, 9)]


def test_object_first_and_inserted_do_by_hand():
    entries = lexicon("small")
    frame = Frame("transitive", perfect=True, negated=True)
    main = Clause("main", frame, phrase(entries, "Tante"), phrase(entries, "Mann"), verb=verb(entries, "finden"))
    main.front = "object"
    before = Clause(
        "subordinate", Frame("copula"), phrase(entries, "Lampe", plural=True), predicate=Word("nass", "wet")
    )
    before.conjunction = Conjunction("obwohl", "although")
    pair, _ = assemble(sentence([main]))
    assert (pair.source, pair.target) == ("Den Mann hat die Tante nicht gefunden.", "The aunt did not find the man.")
    assert links(pair) >= {"hat?did", "gefunden?did", "nicht-not", "gefunden-find", "hat?find", "Den-the", "die-The"}
    main.before = before
    pair, _ = assemble(sentence([main]))
    assert pair.source == "Obwohl die Lampen nass sind, hat die Tante den Mann nicht gefunden."
    assert pair.target == "Although the lamps are wet, the aunt did not find the man."


def test_a_cache_that_was_changed_is_generated_again(corpus, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    data, made = Grammar(train_pairs=300), []
    few = replace(corpus, splits={"test": corpus.splits["test"][:5]}, contrasts=corpus.contrasts[:2])
    monkeypatch.setattr(generator, "generate", lambda data: (made.append(data), few)[1])
    assert load(data) == few
    (path,) = (tmp_path / "attention-ablation" / "grammar").iterdir()
    kept = path.read_text()
    damaged = (kept.replace('"wrong"', "", 1)[:-9], "[" * 10**5, '{"splits": []}', "", kept[:-1] + " ")
    for content in damaged:
        path.write_text(content)
        assert load(data) == few
        assert path.read_text() == kept
    assert load(data) == few
    assert made == [data] * (1 + len(damaged)), "a whole one is read"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert cache.folder().name == "attention-ablation"
