"""Tokens with their alignment links: links are built with the sentence, never inferred from it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from study.corpora.corpus import Link, Pair


@dataclass(slots=True, eq=False)
class Source:
    """A German word or mark."""

    text: str
    masked: str = ""
    """Replacement in the key of its sentence; empty for the text itself."""


@dataclass(slots=True, eq=False)
class Target:
    """An English word or mark, and the German tokens that it translates, each sure or possible."""

    text: str
    links: tuple[tuple[Source, bool], ...] = ()


class Span(NamedTuple):
    """A constituent on both sides, each in its own order."""

    source: list[Source]
    target: list[Target]


EMPTY = Span([], [])


def word(source: str, target: str) -> Span:
    """Return a German word and its translation of one or more words, all surely linked."""
    token = Source(source)
    return Span([token], translated(target.split(), token))


def translated(target: Iterable[str], sure: Source, *possible: Source) -> list[Target]:
    """English words, linked surely to one German token and possibly to others."""
    links = ((sure, True), *((token, False) for token in possible))
    return [Target(text, links) for text in target]


def joined(spans: Iterable[Span]) -> Span:
    """Constituents in a row."""
    source = []
    target = []
    for span in spans:
        source += span.source
        target += span.target
    return Span(source, target)


def _tidy(tokens: Sequence[Source | Target]) -> list[int]:
    """Return the places of the tokens that stay: of several marks in a row, the last."""
    return [
        i
        for i, token in enumerate(tokens)
        if token.text != "," or (i + 1 < len(tokens) and tokens[i + 1].text not in (",", "."))
    ]


def _text(tokens: Iterable[str]) -> str:
    text = " ".join(tokens).replace(" ,", ",").replace(" .", ".")
    return text[0].upper() + text[1:]


def assemble(span: Span) -> tuple[Pair, str]:
    """Return the pair as text with its gold alignment, and its key: the source with masked words replaced."""
    source = [span.source[i] for i in _tidy(span.source)]
    target = [span.target[i] for i in _tidy(span.target)]
    place = {id(token): i for i, token in enumerate(source)}
    links = [
        Link(place[id(token)], j, sure)
        for j, english in enumerate(target)
        for token, sure in english.links
        if id(token) in place
    ]
    pair = Pair(_text(t.text for t in source), _text(t.text for t in target), tuple(sorted(links)))
    return pair, " ".join(t.masked or t.text for t in source)
