"""Estimate of the time and the memory that runs will take, from the records of similar runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from study.config import Experiment
from study.config.overrides import flat
from study.store import RUNS, Store

ALIKE = ("data.name", "model.family", "model.width", "model.layers")
"""Fields that decide the pace of a run. Runs with the same values are similar."""
PACE = ("training.steps", "training.batch_tokens")
"""Fields whose product is proportional to the time."""
KNOWN = ("status", "wall_seconds", "peak_memory_bytes", "device", *ALIKE, *PACE)
"""Columns that are read of each run."""


class Past:
    """Finished runs by their kind, from a folder of runs and, for kinds that it lacks, from the published results."""

    def __init__(self, out: Path, published: Path | None = None) -> None:
        self.kinds: dict[tuple[Any, ...], list[dict[Any, Any]]] = {}
        for folder in (published, out):
            if folder is not None and folder.is_dir():
                store, found = Store(folder), dict[tuple[Any, ...], list[dict[Any, Any]]]()
                frame = store.frame(RUNS, KNOWN) if store.published else store.runs.reindex(columns=list(KNOWN))
                frame = frame[(frame["status"] == "finished") & (frame["wall_seconds"] > 0) & frame[PACE[0]].notna()]
                for row in frame.to_dict("records"):
                    found.setdefault(_kind(row), []).append(row)
                self.kinds |= found

    def seconds(self, experiments: Iterable[Experiment]) -> list[float | None]:
        """Return the time that each run takes alone; None where no similar run has finished."""
        found: list[float | None] = []
        for row in map(_row, experiments):
            pace = [one["wall_seconds"] / _work(one) for one in self.kinds.get(_kind(row), ())]
            found.append(mean(pace) * _work(row) if pace else None)
        return found

    def memory(self, experiments: Iterable[Experiment], gpus: Collection[str]) -> int:
        """Return the bytes that a similar run had allocated at most on GPUs of these names; 0 if none was measured."""
        kinds = {_kind(_row(experiment)) for experiment in experiments}
        alike = [one for kind in kinds for one in self.kinds.get(kind, ()) if one["device"] in gpus]
        return int(max((one["peak_memory_bytes"] for one in alike), default=0))


def _row(experiment: Experiment) -> dict[Any, Any]:
    return dict(flat(experiment.model_dump(mode="json")))


def _kind(row: dict[Any, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ALIKE)


def _work(row: dict[Any, Any]) -> float:
    return float(row[PACE[0]] * row[PACE[1]])


def typical(seconds: Sequence[float | None]) -> float:
    """Return the mean of the times that are known; 0 if none is."""
    known = [took for took in seconds if took is not None]
    return mean(known) if known else 0.0


def told(seconds: Sequence[float | None], at_once: int, cores: float, gpus: float = 0) -> str:
    """Return one line: the time of runs, so many at once, and the hours of cores, or of GPUs, that they take.

    Args:
        seconds: the time of each run; runs of unknown time count as the mean of the others.
        at_once: runs at a time.
        cores: cores of a run.
        gpus: GPUs of a run, such as 0.25.
    """
    total = typical(seconds) * len(seconds)
    if not total:
        return "time: not known, because no run of this corpus, family and size has finished"
    parallel = max(1, min(at_once, len(seconds)))
    whole = max(total / parallel, *(took or 0 for took in seconds))
    amount = f"{total * gpus / 3600:.1f} GPU-hours" if gpus else f"{total * cores / 3600:.1f} core-hours"
    return f"time: about {clock(whole)} with {parallel} at a time, {amount}, by similar runs"


def clock(seconds: float) -> str:
    """`42 s`, `3 min 05 s`, `2 h 10 min`."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{rest} s"
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
