"""Convert trees to tokens: both sides of a constituent are built at once, and then each side gets its own order.

Links are sure, but for those of auxiliaries of the perfect, inserted do, separated prefixes and English particles:
these are possible.
"""

from collections.abc import Iterable

from study.corpora.grammar import morphology
from study.corpora.grammar.alignment import EMPTY, Source, Span, Target, joined, translated, word
from study.corpora.grammar.morphology import Case
from study.corpora.grammar.tree import Clause, Phrase, order

_CASES: dict[str, Case] = {"subject": "nominative", "object": "accusative", "place": "dative"}
_COORDINATORS = {"und": "and", "aber": "but"}


def sentence(units: Iterable[Clause], coordinators: Iterable[str] = ()) -> Span:
    """Return a sentence of one or more coordinated main clauses."""
    first, *rest = units
    spans = [clause(first)]
    for coordinator, unit in zip(coordinators, rest, strict=True):
        comma = word(",", ",") if coordinator == "aber" else Span([], [Target(",")])
        spans += [comma, word(coordinator, _COORDINATORS[coordinator]), clause(unit)]
    return joined([*spans, word(".", ".")])


def clause(tree: Clause) -> Span:
    """Return a clause of any kind with all that it contains."""
    parts = _constituents(tree)
    return Span(
        [token for name in order(tree) for token in parts.get(name, EMPTY).source],
        [token for name in _english_order(tree) for token in parts.get(name, EMPTY).target],
    )


def _constituents(tree: Clause) -> dict[str, Span]:
    parts = {}
    for slot, case in _CASES.items():
        phrase = tree.phrase(slot)
        if phrase and slot == tree.frame.gap:
            parts["relative"] = _relative_pronoun(phrase, case)
        elif phrase:
            parts[slot] = noun_phrase(phrase, case)
    if tree.place and tree.preposition:
        comma = Span([], [Target(",")] if tree.kind == "main" and tree.front == "place" else [])
        parts["place"] = joined([word(tree.preposition.de, tree.preposition.en), parts["place"], comma])
    if tree.adverb:
        parts["adverb"] = word(tree.adverb.de, tree.adverb.en)
    if tree.predicate:
        parts["predicate"] = word(tree.predicate.de, tree.predicate.en)
    if tree.conjunction:
        parts["conjunction"] = word(tree.conjunction.de, tree.conjunction.en)
    if tree.before:
        parts["before"] = joined([clause(tree.before), word(",", ",")])
    if tree.after:
        parts["after"] = _between_commas(clause(tree.after))
    parts.update(_verbal(tree))
    return parts


def _english_order(tree: Clause) -> list[str]:
    """Subject, verb, object, whatever the German order; a fronted adverbial stays in front."""
    pronoun = tree.object is not None and tree.object.antecedent is not None
    split = pronoun and tree.verb is not None and "|" in tree.verb.en
    complement = ["object", "particle"] if split else ["particle", "object"]
    front = [tree.front] if tree.front in ("adverb", "place") and tree.kind == "main" and not tree.before else []
    early = tree.adverb is not None and tree.adverb.early
    rest = ["subject", "verb", *complement, "predicate", "place"]
    rest.insert(1 if early else len(rest), "adverb")
    gap = tree.frame.gap
    middle = [name for name in rest if name not in front and name != gap]
    return ["before", "conjunction", "relative", *front, *middle, "after"]


def _between_commas(span: Span) -> Span:
    return Span([Source(","), *span.source, Source(",")], span.target)


def noun_phrase(phrase: Phrase, case: Case) -> Span:
    """Return a determiner with adjective, noun and relative clause, or a pronoun."""
    if phrase.antecedent:
        english = morphology.english_pronoun(phrase.antecedent.noun, case)
        return word(morphology.PRONOUNS[case][phrase.gender], english)
    gender, plural, determiner = phrase.gender, phrase.plural, phrase.determiner
    article = Source(morphology.determiner(determiner, gender, case, plural))
    noun = Source(morphology.noun(phrase.noun, case, plural), f"<{gender}>" if phrase.referent else "")
    source, target = [article], translated(morphology.english_noun(phrase.noun, plural), noun)
    if phrase.adjective:
        adjective = Source(morphology.adjective(phrase.adjective.de, determiner.de, gender, case, plural))
        source.append(adjective)
        target = translated(phrase.adjective.en.split(), adjective) + target
    english = determiner.en_plural if plural else determiner.en
    if english == "a" and target[0].text[0] in "aeiou":
        english = "an"
    span = Span([*source, noun], translated([english], article) + target)
    return joined([span, _between_commas(clause(phrase.relative))]) if phrase.relative else span


def _relative_pronoun(head: Phrase, case: Case) -> Span:
    english = {"nominative": "who"}.get(case, "whom") if head.noun.human else "that"
    return word(morphology.relative(head.gender, case, head.plural), english)


def _verbal(tree: Clause) -> dict[str, Span]:
    """Return the finite verb and the rest of the verbal group; `verb` and `particle` on the English side."""
    plural = tree.subject.plural
    no = word("nicht", "not") if tree.frame.negated else EMPTY
    if tree.verb is None:
        copula = word(*(("sind", "are") if plural else ("ist", "is")))
        return {"finite": copula, "negation": no, "verb": Span([], copula.target + no.target)}
    verb = tree.verb
    helpers: tuple[Source, ...] = ()
    if tree.frame.perfect:
        finite = Source(morphology.AUXILIARIES[verb.aux][plural])
        rest = [Source(morphology.participle(verb))]
        core, helpers = rest[0], (finite,)
    elif verb.prefix and tree.kind == "main":
        finite, rest = Source(morphology.finite(verb, plural)), [Source(verb.prefix)]
        core, helpers = finite, (rest[0],)
    else:
        finite, rest = Source(verb.prefix + morphology.finite(verb, plural)), []
        core = finite
    english = _english_verb(tree, core, helpers, no)
    particle = [Target(text, tuple((t, False) for t in (core, *helpers))) for text in morphology.english_particle(verb)]
    return {
        "finite": Span([finite], []),
        "rest": Span(rest, []),
        "negation": Span(no.source, []),
        "verb": Span([], english),
        "particle": Span([], particle),
    }


def _english_verb(tree: Clause, core: Source, helpers: tuple[Source, ...], no: Span) -> list[Target]:
    """The perfect becomes the simple past; negation inserts do."""
    assert tree.verb is not None
    if not tree.frame.negated:
        form = "past" if tree.frame.perfect else "base" if tree.subject.plural else "s"
        return translated([morphology.english_verb(tree.verb, form)], core, *helpers)
    do = "did" if tree.frame.perfect else "do" if tree.subject.plural else "does"
    inserted = Target(do, tuple((token, False) for token in (core, *helpers)))
    return [inserted, *no.target, *translated([morphology.english_verb(tree.verb, "base")], core, *helpers)]
