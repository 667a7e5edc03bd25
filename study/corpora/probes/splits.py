"""Splits of a probe: one stream of random pairs, each of which belongs to one pool by the hash of its source.

So no split can hold a source of another, whatever their sizes, and `valid` and `test` do not depend on `train_pairs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from study.config.probes import Probe
from study.corpora.corpus import Link, Pair
from study.corpora.grammar.draw import Draw, digest
from study.errors import InputError

VALID = 300
PATIENCE = 30
"""Draws per pair before the probe is taken to have too few different sources."""


def splits(data: Probe, kind: str, draw_pair: Callable[[Draw], Pair]) -> dict[str, list[Pair]]:
    """`train`, `valid` and `test`, each source once.

    Raises:
        InputError: the section leaves too few different sources.
    """
    sizes = {"train": data.train_pairs, "valid": VALID, "test": data.test_pairs}
    found: dict[str, list[Pair]] = {name: [] for name in sizes}
    draw, seen = Draw("probe", kind, data.seed), set[str]()
    for _ in range(PATIENCE * sum(sizes.values())):
        pair = draw_pair(draw)
        pool = _pool(data.seed, pair.source)
        if len(found[pool]) < sizes[pool] and pair.source not in seen:
            seen.add(pair.source)
            found[pool].append(pair)
            if all(len(found[name]) == size for name, size in sizes.items()):
                return found
    short = ", ".join(f"{name} {len(found[name])} of {size}" for name, size in sizes.items())
    raise InputError(f"data: this {kind} has too few different sources ({short}); ask for fewer pairs or a larger task")


def _pool(seed: int, source: str) -> str:
    """Of all possible sources 10% are for validation and 20% for test."""
    share = int(digest("pool", seed, source)[:8], 16) / 2**32
    return "valid" if share < 0.1 else "test" if share < 0.3 else "train"


def checksum(pairs: Iterable[Pair]) -> str:
    """SHA-256 of the text of a split with its alignment and, where it is known, who attends to whom in the source."""
    return digest(*(f"{p.source}\t{p.target}\t{_links(p.alignment)}\t{_links(p.attends)}" for p in pairs))


def _links(links: tuple[Link, ...] | None) -> str:
    return " ".join(f"{source}{'-' if sure else '?'}{target}" for source, target, sure in links or ())


def shuffled(draw: Draw, count: int) -> list[int]:
    """0 … count - 1 in random order, all orders equally likely."""
    order = list(range(count))
    for i in range(count - 1, 0, -1):
        j = draw.below(i + 1)
        order[i], order[j] = order[j], order[i]
    return order
