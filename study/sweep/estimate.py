"""Estimate of the time that runs will take, from the records of similar runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import mean
from typing import Any

from study import records
from study.errors import InputError
from study.records import Record
from study.sweep.display import clock
from study.sweep.spec import Cell

ALIKE = ("data.name", "data.tokens", "model.family", "model.width", "model.layers")
"""Fields that decide the pace of a run. Runs with the same values are similar."""
PACE = ("training.steps", "training.batch_tokens")
"""Fields whose product is proportional to the training time."""


def estimate(cells: Sequence[Cell], out: Path, slots: int, published: Iterable[Record] = ()) -> str:
    """Return one line: the time of these runs on so many slots together, and the basis of the estimate.

    Args:
        cells: the runs.
        out: folder of the runs; its finished runs are the basis.
        slots: runs at a time.
        published: records that are the basis if the folder has no similar run.
    """
    trees, known, place = _basis(cells, out, published)
    seconds = [took for took in _seconds(trees, known) if took is not None]
    if not trees:
        return "time: none, nothing is to run"
    if not seconds:
        return f"time: not known, because no run of this corpus, family and size has finished in {out}"
    basis = sum(len(known[kind]) for kind in {_values(tree, ALIKE) for tree in trees} & known.keys())
    parallel = max(1, min(slots, len(trees)))
    total = mean(seconds) * len(trees) / parallel
    guessed = len(trees) - len(seconds)
    also = f"; {guessed} of other corpora, families or sizes are assumed to be similar" if guessed else ""
    return (
        f"time: about {clock(max(total, *seconds))} with {parallel} at a time, from {basis} finished "
        f"run{'s' if basis > 1 else ''} of the same corpus, family and size in {place}{also}"
    )


def seconds_each(cells: Sequence[Cell], out: Path, published: Iterable[Record] = ()) -> list[float | None]:
    """Return the time that each run takes alone; None where no similar run has finished. Arguments as of `estimate`."""
    trees, known, _ = _basis(cells, out, published)
    return list(_seconds(trees, known))


def memory_need(cells: Sequence[Cell], out: Path, gpus: Collection[str]) -> int | None:
    """Return the bytes that torch had allocated at most in a run similar to one of these; None where none is known.

    Args:
        cells: the runs.
        out: folder of the runs; its finished runs are the basis.
        gpus: names of GPUs; only runs on those count.
    """
    kind = (*ALIKE, "training.batch_tokens")
    wanted = {_values(cell.experiment.model_dump(mode="json"), kind) for cell in cells if cell.experiment}
    measured = [
        record.resources.peak_memory_bytes
        for record in _readable(out)
        if record.resources is not None
        and record.provenance is not None
        and record.provenance.device in gpus
        and _values(record.config, kind) in wanted
    ]
    return max((peak for peak in measured if peak), default=None)


Known = dict[tuple[Any, ...], list[tuple[float, float, float]]]


def _basis(cells: Sequence[Cell], out: Path, published: Iterable[Record]) -> tuple[list[dict[str, Any]], Known, str]:
    """Return the experiments as trees, the times of similar runs, and where these are from."""
    place, known = str(out), _known(_readable(out))
    trees = [cell.experiment.model_dump(mode="json") for cell in cells if cell.experiment]
    if not {_values(tree, ALIKE) for tree in trees} & known.keys() and (others := _known(published)):
        place, known = "results (made on another machine)", others
    return trees, known, place


def _seconds(trees: Iterable[dict[str, Any]], known: Known) -> Iterator[float | None]:
    for tree in trees:
        alike = known.get(_values(tree, ALIKE))
        yield _expected(tree, alike) if alike else None


def _readable(out: Path) -> Iterator[Record]:
    """The records of a folder; those of another sweep may be damaged, those of this one were read before."""
    for path in sorted(out.glob("*/record.json")):
        with suppress(InputError):
            yield records.read(path)


def _known(made: Iterable[Record]) -> Known:
    """Values of `ALIKE` ↦ for each finished run (pace, seconds in training, all other seconds)."""
    known: Known = {}
    for record in made:
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
