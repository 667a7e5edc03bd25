"""Probes: small seeded tasks whose relevant positions are known, so that attention is scored against truth.

Raise the version of a section (`study/config/probes.py`) whenever the same section would give other pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from study.config.probes import AnyProbe, Copy, CopyFar, Graph, MultiLookup, OneSpace, Reverse, Sort
from study.corpora.corpus import Corpus, Pair
from study.corpora.grammar.draw import Draw
from study.corpora.probes.chance import Chance, chance, dose, within_reach
from study.corpora.probes.lookup import graph, multi_lookup, named, one_space
from study.corpora.probes.order import far, ordered
from study.corpora.probes.splits import checksum, splits

__all__ = ["Chance", "chance", "dose", "drawn_by", "generate", "named", "within_reach"]


def generate(data: AnyProbe) -> Corpus:
    """The corpus that a data section of a probe declares: the same for the same section, on any machine."""
    found = splits(data, data.name, drawn_by(data))
    files = {name: checksum(pairs) for name, pairs in found.items()}
    return Corpus(data.name, data.version, found, files=files, languages=("symbols", "symbols"))


def drawn_by(data: AnyProbe) -> Callable[[Draw], Pair]:
    """What draws one pair of a probe."""
    match data:
        case Copy() | Reverse() | Sort():
            return partial(ordered, data)
        case CopyFar():
            return partial(far, data)
        case Graph():
            return partial(graph, data, named(data))
        case MultiLookup():
            return partial(multi_lookup, data, named(data))
        case OneSpace():
            return partial(one_space, data)
