"""Rank correlations over the arms of a question: which arms take part, why others do not, and the finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from study.analysis import measures
from study.analysis.inference import Arm, Comparison, adjusted, correlated, inner
from study.analysis.measures import Measure
from study.claims import verdicts
from study.claims.kinds import Correlation
from study.claims.schema import Kind, Question
from study.claims.verdicts import Finding
from study.claims.weighing import Scene, name_of

BOTH = (1, -1)
"""A run without scores speaks neither for a correlation nor against it."""


@dataclass
class _Arms:
    """The arms that share what a question fixes: pairs of scores by seed, and what takes no part."""

    pairs: list[Sequence[tuple[float, float]]] = field(default_factory=list)
    holes: bool = False
    diverged: list[str] = field(default_factory=list)
    saturated: int = 0
    without: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What n counts, and what was left out."""
        left = ((self.saturated, "saturated arms left out"), (self.without, "arms without a value left out"))
        return ("n counts arms", *(f"{count} {what}" for count, what in left if count))


def correlations(kind: Kind, question: Question, scene: Scene, margin: float | None) -> list[Finding]:
    """Every correlation of a question, adjusted by Holm over all of them.

    An arm takes part if it is whole and its second score is not at an edge of its range. A diverged run takes its arm
    out, is said, and leaves no verdict but undecided.
    """
    asked = [contrast for contrast in question.contrasts if isinstance(contrast, Correlation)]
    found = [_arms(contrast, scene) for contrast in asked]
    plain = [
        Comparison(why="missing runs") if arms.holes else correlated(arms.pairs, contrast.level)
        for contrast, arms in zip(asked, found, strict=True)
    ]
    out = []
    for contrast, arms, comparison in zip(asked, found, adjusted(plain), strict=True):
        sign = verdicts.direction(contrast, contrast.between[1])
        word = verdicts.judged(kind, comparison, sign, margin, diverged=BOTH if arms.diverged else ())
        if kind == "equivalence" and arms.diverged and word == verdicts.CONTRADICTED:
            word = verdicts.UNDECIDED
        if comparison.why == "too few arms" and arms.saturated:
            word = verdicts.SATURATED
        out.append(
            Finding(
                name_of(contrast),
                word,
                comparison,
                len(arms.pairs),
                len(scene.sharing),
                margin,
                tuple(arms.diverged),
                arms.notes,
                inner(comparison.test) if comparison.test else None,
            )
        )
    return out


def _arms(contrast: Correlation, scene: Scene) -> _Arms:
    x, y = contrast.between
    limits, out = measures.bounds(y), _Arms()
    for arm in scene.sharing:
        first, second = (scene.read(arm, Measure(metric)) for metric in (x, y))
        if first.holes:
            out.holes = True
        elif first.diverged:
            out.diverged.append(f"{first.diverged} of {len(arm.cells)} runs of {arm.label} diverged")
        elif not first.values or not second.values:
            out.without += 1
        elif limits and verdicts.end(_mean(second), limits):
            out.saturated += 1
        else:
            out.pairs.append([(first.values[seed], second.values[seed]) for seed in sorted(first.values)])
    return out


def _mean(arm: Arm) -> float:
    return sum(arm.values.values()) / len(arm.values)
