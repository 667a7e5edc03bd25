"""How long runs will take, from the records of runs like them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from study import records
from study.errors import InputError
from study.sweep.display import clock
from study.sweep.spec import Cell

ALIKE = ("data.name", "data.tokens", "model.family", "model.width", "model.layers")
"""Runs that agree in these are taken to train at one pace and to be tested in one time."""
PACE = ("training.steps", "training.batch_tokens")
"""The time in training goes with the product of these."""


def estimate(cells: Sequence[Cell], out: Path, slots: int) -> str:
    """One line: how long these runs take on so many slots together, and what that is taken from."""
    known = _known(out)
    trees = [cell.experiment.model_dump(mode="json") for cell in cells if cell.experiment]
    seconds = [_expected(tree, known[kind]) for tree in trees if (kind := _values(tree, ALIKE)) in known]
    if not trees:
        return "time: none, nothing is to run"
    if not seconds:
        return f"time: no basis for a guess, no run of this corpus, family and size has finished in {out}"
    basis = sum(len(known[kind]) for kind in {_values(tree, ALIKE) for tree in trees} & known.keys())
    parallel = max(1, min(slots, len(trees)))
    total = mean(seconds) * len(trees) / parallel
    guessed = len(trees) - len(seconds)
    also = f"; {guessed} of other corpora, families or sizes are taken to be like them" if guessed else ""
    return (
        f"time: about {clock(max(total, *seconds))} with {parallel} at a time, judged by {basis} finished "
        f"run{'s' if basis > 1 else ''} of the same corpus, family and size in {out}{also}"
    )


def _known(out: Path) -> dict[tuple[Any, ...], list[tuple[float, float, float]]]:
    """What runs are alike in ↦ for each finished one (pace, seconds in training, all other seconds)."""
    known: dict[tuple[Any, ...], list[tuple[float, float, float]]] = {}
    for path in sorted(out.glob("*/record.json")):
        try:
            record = records.read(path)
        except InputError:  # of another sweep; a damaged one of this sweep has been refused already
            continue
        took, pace = record.resources, _pace(record.config)
        if record.status == "finished" and took is not None and pace:
            other = max(took.wall_seconds - took.train_seconds, 0.0)
            known.setdefault(_values(record.config, ALIKE), []).append((pace, took.train_seconds, other))
    return known


def _expected(tree: dict[str, Any], alike: Iterable[tuple[float, float, float]]) -> float:
    pace = _pace(tree)
    return mean(trained * pace / theirs + other for theirs, trained, other in alike)


def _pace(tree: dict[str, Any]) -> float:
    steps, tokens = _values(tree, PACE)
    return float(steps * tokens) if isinstance(steps, int) and isinstance(tokens, int) else 0.0


def _values(tree: dict[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    sections = (name.split(".") for name in names)
    return tuple(str(value) if not isinstance(value := _get(tree, *parts), int) else value for parts in sections)


def _get(tree: dict[str, Any], section: str, name: str) -> Any:
    inside = tree.get(section)
    return inside.get(name) if isinstance(inside, dict) else None
