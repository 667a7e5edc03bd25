"""Places of runs in sweeps: the sweeps that declare a run, and its arm in each. W&B shows them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from study import files
from study.config.words import label_words
from study.errors import InputError
from study.sweep.spec import Cell, Spec
from study.tracking.view import PLACES, Place


def places(specs: Iterable[Spec]) -> dict[str, Place]:
    """Return the place of each run that sweeps declare, by identity. Sweeps are taken in the order of their names."""
    declared: dict[str, list[tuple[Spec, Cell]]] = {}
    for spec in sorted(specs, key=lambda spec: (spec.name, str(spec.path))):
        for cell in spec.runnable:
            declared.setdefault(cell.id or "", []).append((spec, cell))
    return {identity: _place(found) for identity, found in declared.items()}


def _place(found: list[tuple[Spec, Cell]]) -> Place:
    spec, cell = found[0]
    facet, arm = spec.facet(cell), spec.arm(cell)
    return Place(
        sweep=tuple(dict.fromkeys(one.name for one, _ in found)),
        tiers=tuple(dict.fromkeys(tag for one, _ in found for tag in one.tags)),
        question=spec.description,
        facet=_words(facet),
        arm=_words(arm),
        baseline=arm == spec.baseline(facet),
        arms={one.name: _words(f"{one.facet(at)} {one.arm(at)}") for one, at in reversed(found)},
    )


def _words(label: str) -> str:
    return " · ".join(label_words(label))


def write(spec: Spec, out: Path) -> None:
    """Write the places of a sweep's runs into the folder of runs, where live runs find them.

    Raises:
        InputError: the folder cannot be written.
    """
    known: dict[str, Any] = {}
    with suppress(InputError, AttributeError):
        known = dict(files.read_json(out / PLACES, below=out).items())
    found = known | {name: place.model_dump(mode="json") for name, place in places([spec]).items()}
    if found != known:
        try:
            files.write(out / PLACES, json.dumps(found, ensure_ascii=False, indent=0) + "\n", durable=False)
        except OSError as problem:
            raise files.unwritable(out, problem) from None
