"""All clause frames by use and length, so that a sentence of a given length is drawn directly."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Literal, NamedTuple

from study.corpora.grammar.tree import Frame, Kind

LONGEST = {"main": 10, "subordinate": 10, "relative": 7}
"""Largest number of words of a single clause, with its conjunction or relative pronoun."""


class Use(NamedTuple):
    """Use of a frame."""

    kind: Kind
    reporting: bool = False
    """True if a complement clause follows."""
    pronoun: bool = False


def length(frame: Frame, kind: Kind) -> int:
    """Return the number of German words, with the conjunction of a subordinate clause."""
    verbal = 1 + frame.perfect + frame.separated + frame.negated + frame.adverb
    place = frame.place + 1 if frame.place else 0
    return frame.subject + frame.object + place + verbal + (frame.valency == "copula") + (kind == "subordinate")


def _candidates(kind: Kind) -> Iterator[Frame]:
    """Yield all combinations, whether or not they make a clause."""
    valencies: list[Literal["intransitive", "transitive", "reporting", "copula"]]
    valencies = ["intransitive", "transitive", "reporting", "copula"]
    gaps: list[Literal["", "subject", "object"]] = ["subject", "object"] if kind == "relative" else [""]
    flags = [False, True]
    for valency, perfect, separated, negated, adverb, subject, complement, place, gap in product(
        valencies, flags, flags, flags, flags, (1, 2, 3), (0, 1, 2, 3), (0, 2, 3), gaps
    ):
        yield Frame(valency, perfect, separated, negated, adverb, subject, complement, place, gap)


def _well_formed(frame: Frame, kind: Kind) -> bool:
    """Return True if the parts of a frame fit together."""
    fits = [
        (frame.object > 0) == (frame.valency == "transitive"),
        not (frame.separated and (frame.perfect or kind != "main" or frame.valency in ("reporting", "copula"))),
        not (frame.negated and frame.adverb),
        frame.valency != "copula" or not (frame.perfect or frame.adverb or frame.place),
        frame.valency != "reporting" or not frame.place,
        frame.gap != "subject" or frame.subject == 1,
        frame.gap != "object" or frame.object == 1,
        (frame.subject == 1) + (frame.object == 1) <= 1 + bool(frame.gap),
    ]
    return all(fits)


def _use(frame: Frame, kind: Kind) -> Use:
    pronouns = (frame.subject == 1) + (frame.object == 1) - bool(frame.gap)
    return Use(kind, frame.valency == "reporting", pronouns > 0)


@cache
def _inventory(kind: Kind) -> dict[Use, dict[int, dict[bool, list[Frame]]]]:
    frames_of: dict[Use, dict[int, dict[bool, list[Frame]]]] = {}
    for frame in _candidates(kind):
        words = length(frame, kind)
        if words <= LONGEST[kind] and _well_formed(frame, kind):
            groups = frames_of.setdefault(_use(frame, kind), {}).setdefault(words, {})
            groups.setdefault(frame.valency == "transitive", []).append(frame)
    return frames_of


@cache
def frames(use: Use) -> dict[int, list[list[Frame]]]:
    """Return the frames for a use, by length, those with and without an object apart, so that both are drawn alike."""
    frames_of = _inventory(use.kind).get(use, {})
    return {words: list(frames_of[words].values()) for words in sorted(frames_of)}
