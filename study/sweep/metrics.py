"""Which scores a run has, by corpus, and which way each is better: what a sweep's metric may name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from study.errors import InputError

PROBE = ("valid", "test")
"""The scored splits of a probe."""
SPLITS = {
    "grammar": (*PROBE, "long", "deep", "pronoun"),
    "multi30k": ("valid", "test_2016_flickr", "test_2017_flickr"),
}
"""Those of the other corpora."""

GOALS = {
    **dict.fromkeys(("bleu", "chrf", "exact", "prefix", "accuracy", "contrast"), "maximize"),
    **dict.fromkeys(("nll", "perplexity"), "minimize"),
    **dict.fromkeys(("aer", "aer_best_head", "aer_floor", "onset"), "minimize"),
    **dict.fromkeys(("free", "area"), "maximize"),
    **dict.fromkeys(("cliff", "needed", "harmful"), "minimize"),
    **dict.fromkeys(("gold_mass", "attends_mass", "attends_argmax", "attends_head"), "maximize"),
}
"""Every score, and whether it is better large or small."""
ONLY = {"contrast": "pronoun", "onset": "valid"}
"""Scores of one split alone."""
ALIGNED = ("aer", "aer_best_head", "aer_floor", "gold_mass", "onset")
"""Scores against gold alignments, which Multi30k lacks."""
ATTENDS = ("attends_mass", "attends_argmax", "attends_head")
"""Scores against gold self-attention, which these corpora have."""
PRUNED = ("free", "area", "cliff", "needed", "harmful")
"""Scores of a pruning, on the first test split."""
LOOKUPS = ("graph", "multi_lookup", "one_space")

LENGTHS = tuple(f"length {part}" for part in ("4-7", "8-10", "11-13", "14-16", "17-20", "21-26", "27-32", "33-60"))
"""Subsets of a split, by source length."""
BY_LENGTH = ("bleu", "exact")
"""The scores that they have."""
KEPT = tuple(f"kept {tenth / 10:.1f}" for tenth in range(11))
"""Subsets of a model's heads, by their share: points of a pruning's curve."""
BY_SHARE = ("bleu", "exact", "nll")
"""The scores that they have."""


def names(corpus: str) -> list[str]:
    """Every `split/score` of a run on a corpus."""
    return [f"{split}/{score}" for split in SPLITS.get(corpus, PROBE) for score in GOALS if _has(corpus, split, score)]


def _has(corpus: str, split: str, score: str) -> bool:
    if ONLY.get(score, split) != split or (score in PRUNED and split != SPLITS.get(corpus, PROBE)[1]):
        return False
    if score in ATTENDS:
        return corpus in LOOKUPS
    return score not in ALIGNED or corpus != "multi30k"


def check(name: str, goal: str | None, corpora: Iterable[str]) -> str:
    """The goal of the metric `name`, `split/score` or `split/score/subset`, of runs on all these corpora.

    Raises:
        InputError: runs on one of them lack it, or the goal given is the other one.
    """
    split, score, *subset = name.split("/", 2)
    for corpus in dict.fromkeys(corpora):
        if f"{split}/{score}" not in (known := names(corpus)):
            raise InputError(f"metric.name: runs on {corpus} have no {split}/{score}{_instead(name, known)}")
    by_share = bool(subset) and subset[0] in KEPT and score in BY_SHARE
    if subset and score not in BY_LENGTH and not by_share:
        raise InputError(f"metric.name: {score} has no subsets; {' and '.join(BY_LENGTH)} have some, by source length")
    if subset and subset[0] not in LENGTHS and not by_share:
        raise InputError(f"metric.name: there is no subset {subset[0]!r}; the subsets are {', '.join(LENGTHS)}")
    if goal not in (None, GOALS[score]):
        raise InputError(
            f"metric.goal: {score} is there to {GOALS[score]}, not to {goal}; mend the goal or leave it out"
        )
    return GOALS[score]


def _instead(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    splits, scores = (dict.fromkeys(one.split("/")[part] for one in known) for part in (0, 1))
    named = [f"{score} (of {ONLY[score]} alone)" if score in ONLY else score for score in scores]
    mend = f" (did you mean {close[0]}?)" if close else ""
    return f"{mend}; the splits are {', '.join(splits)}, the scores {', '.join(named)}"
