"""Estimate of the time that runs will take, from the records of similar runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from study.config.overrides import flat
from study.store import RUNS, Store
from study.sweep.display import clock
from study.sweep.spec import Cell

ALIKE = ("data.name", "data.tokens", "model.family", "model.width", "model.layers")
"""Fields that decide the pace of a run. Runs with the same values are similar."""
PACE = ("training.steps", "training.batch_tokens")
"""Fields whose product is proportional to the training time."""
KNOWN = ("status", "train_seconds", "wall_seconds", "peak_memory_bytes", "device", *ALIKE, *PACE)
"""Columns that are read of each run."""


def estimate(cells: Sequence[Cell], out: Path, slots: int, published: Store | None = None) -> str:
    """Return one line: the time of these runs on so many slots together, and the basis of the estimate.

    Args:
        cells: the runs.
        out: folder of the runs; its finished runs are the basis.
        slots: runs at a time.
        published: runs that are the basis if the folder has no similar run.
    """
    rows, known, place = _basis(cells, out, published)
    seconds = [took for took in _seconds(rows, known) if took is not None]
    if not rows:
        return "time: none, nothing is to run"
    if not seconds:
        return f"time: not known, because no run of this corpus, family and size has finished in {out}"
    basis = sum(len(known[kind]) for kind in {_values(row, ALIKE) for row in rows} & known.keys())
    parallel = max(1, min(slots, len(rows)))
    total = mean(seconds) * len(rows) / parallel
    guessed = len(rows) - len(seconds)
    also = f"; {guessed} of other corpora, families or sizes are assumed to be similar" if guessed else ""
    return (
        f"time: about {clock(max(total, *seconds))} with {parallel} at a time, from {basis} finished "
        f"run{'s' if basis > 1 else ''} of the same corpus, family and size in {place}{also}"
    )


def seconds_each(cells: Sequence[Cell], out: Path, published: Store | None = None) -> list[float | None]:
    """Return the time that each run takes alone; None where no similar run has finished. Arguments as of `estimate`."""
    rows, known, _ = _basis(cells, out, published)
    return list(_seconds(rows, known))


def memory_need(cells: Sequence[Cell], out: Path, gpus: Collection[str]) -> int | None:
    """Return the bytes that torch had allocated at most in a run similar to one of these; None where none is known.

    Args:
        cells: the runs.
        out: folder of the runs; its finished runs are the basis.
        gpus: names of GPUs; only runs on those count.
    """
    kind = (*ALIKE, "training.batch_tokens")
    wanted = {_values(row, kind) for row in _rows(cells)}
    peaks = [
        row["peak_memory_bytes"] for row in _runs(Store(out)) if row["device"] in gpus and _values(row, kind) in wanted
    ]
    return max((int(peak) for peak in peaks if peak), default=None)


Known = dict[tuple[Any, ...], list[tuple[float, float, float]]]


def _basis(cells: Sequence[Cell], out: Path, published: Store | None) -> tuple[list[dict[str, Any]], Known, str]:
    """Return the experiments as rows, the times of similar runs, and where these are from."""
    place, known, rows = str(out), _known(_runs(Store(out))), _rows(cells)
    if published is not None and not {_values(row, ALIKE) for row in rows} & known.keys():
        others = _known(_runs(published))
        if others:
            place, known = "results (made on another machine)", others
    return rows, known, place


def _rows(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """Return the fields of the experiments by dotted name."""
    return [dict(flat(cell.experiment.model_dump(mode="json"))) for cell in cells if cell.experiment]


def _seconds(rows: Iterable[dict[str, Any]], known: Known) -> Iterator[float | None]:
    for row in rows:
        alike = known.get(_values(row, ALIKE))
        yield _expected(row, alike) if alike else None


def _runs(store: Store) -> list[dict[str, Any]]:
    """Return the rows of all runs that can be read; those of this sweep were read before."""
    found = store.frame(RUNS, KNOWN) if store.published else store.runs.reindex(columns=list(KNOWN))
    return [dict(zip(KNOWN, row, strict=True)) for row in found.astype(object).where(found.notna(), None).values]


def _known(rows: Iterable[dict[str, Any]]) -> Known:
    """Return the values of `ALIKE` ↦ for each finished run (pace, seconds in training, all other seconds)."""
    known: Known = {}
    for row in rows:
        trained, pace = row["train_seconds"], _pace(row)
        if row["status"] == "finished" and trained is not None and pace:
            other = max(row["wall_seconds"] - trained, 0.0)
            known.setdefault(_values(row, ALIKE), []).append((pace, trained, other))
    return known


def _expected(row: dict[str, Any], alike: Iterable[tuple[float, float, float]]) -> float:
    pace = _pace(row)
    return mean(trained * pace / theirs + other for theirs, trained, other in alike)


def _pace(row: dict[str, Any]) -> float:
    steps, tokens = _values(row, PACE)
    return float(steps * tokens) if isinstance(steps, int | float) and isinstance(tokens, int | float) else 0.0


def _values(row: dict[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(v if isinstance(v := row.get(name), int | float) else str(v) for name in names)
