"""Estimate of the time that runs will take, from the records of similar runs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from study.config import Experiment
from study.config.overrides import flat
from study.store.folder import Store

ALIKE = ["data.name", "model.family", "model.width", "model.layers", "pruning.question"]
"""Fields that decide the pace of a run. Runs with the same values are similar."""
WORK = ["training.steps", "training.batch_tokens"]
"""Fields whose product is proportional to the time."""


def estimated(experiments: Iterable[Experiment], *folders: Path) -> list[float | None]:
    """Return the seconds that each run takes alone; None where no similar run has finished.

    Args:
        experiments: the runs.
        folders: folders of finished runs, or published results. For a kind of runs the first that has it counts.
    """
    experiments = list(experiments)
    if not experiments:
        return []  # and read no table
    columns, pace = ["status", "wall_seconds", *ALIKE, *WORK], dict[tuple[Any, ...], float]()
    for folder in filter(Path.is_dir, folders):
        store = Store(folder)
        frame = store.runs.reindex(columns=columns)
        frame = frame[(frame["status"] == "finished") & (frame["wall_seconds"] > 0) & frame[WORK[0]].notna()]
        pruned = frame[ALIKE[-1]].astype(object).fillna("")
        frame = frame.assign(pace=frame["wall_seconds"] / frame[WORK].astype(float).prod(axis=1), **{ALIKE[-1]: pruned})
        pace = {**frame.groupby(ALIKE)["pace"].mean(), **pace}
    rows = (dict(flat(experiment.model_dump(mode="json"))) for experiment in experiments)
    seconds = []
    for row in rows:
        each = pace.get(tuple(row.get(name) or "" for name in ALIKE))
        seconds.append(None if each is None else each * row[WORK[0]] * row[WORK[1]])
    return seconds


def in_words(seconds: Sequence[float | None], at_once: int, cores: float, gpus: float = 0) -> str:
    """Return one line: the time of runs, so many at once, and the hours of cores, or of GPUs, that they take.

    Args:
        seconds: the time of each run; runs of unknown time count as the mean of the others.
        at_once: runs at a time.
        cores: cores of a run.
        gpus: GPUs of a run, such as 0.25.
    """
    estimates = [took for took in seconds if took is not None]
    if not estimates:
        return "time: not known, because no run of this corpus, family and size has finished"
    total, parallel = mean(estimates) * len(seconds), max(1, min(at_once, len(seconds)))
    whole = max(total / parallel, *estimates)
    amount = f"{total * gpus / 3600:.1f} GPU-hours" if gpus else f"{total * cores / 3600:.1f} core-hours"
    return f"time: about {clock(whole)} with {parallel} at a time, {amount}, by similar runs"


def clock(seconds: float) -> str:
    """`42 s`, `3 min 05 s`, `2 h 10 min`."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{rest} s"
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
