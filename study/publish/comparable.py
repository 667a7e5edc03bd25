"""Do runs compare? What every run of a comparison shares, and what differs all the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from study.records import Record

DECIDING = ("torch", "numpy", "sacrebleu", "sentencepiece")
"""Packages that decide numbers."""


def comparable(sweep: str, cells: Iterable[tuple[str, str, Record]]) -> Iterator[str]:
    """Yield one line for each difference between runs that are compared, given as (facet, place, record).

    In a facet: data, subwords, devices, threads, precision, and the packages that decide numbers. In the sweep: the
    signature of a score, which holds sacreBLEU's version.
    """
    first: dict[tuple[str, str], tuple[Any, str]] = {}
    for facet, place, record in cells:
        facts = {(facet, name): value for name, value in _facts(record).items()}
        for score in record.scores:
            if score.hypotheses is not None:
                facts["", f"scores.{score.metric}.signature"] = score.signature
        for key, value in facts.items():
            usual, where = first.setdefault(key, (value, place))
            if value != usual:
                yield (
                    f"{place}: {key[1]}: {value}, and {where} has {usual}; {sweep} compares them: run one of them again"
                )


def _facts(record: Record) -> dict[str, Any]:
    """Collect the facts that all runs of a comparison must share."""
    facts: dict[str, Any] = {}
    if data := record.data:
        facts |= {"data.version": data.version, "data.subwords": data.subwords}
        facts |= {f"data.files.{name}": digest for name, digest in data.files.items()}
    if made := record.provenance:
        facts |= {f"provenance.packages.{name}": made.packages.get(name) for name in DECIDING}
        facts["provenance.precision"] = made.precision
        for name in ("device", "device_count", "threads"):
            values = made.of_calls(name)
            if values != [None]:  # older records do not say with how many threads
                facts[f"provenance.{name}"] = ", then ".join(map(str, values))
    return facts
