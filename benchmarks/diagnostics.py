"""Cost of a run's diagnostics beside its training: a table of `attention.py`."""

from __future__ import annotations

from measure import Table, Work, relative_times
from mechanisms import FAMILIES, update

from study.config import experiment_from
from study.training.alignment import validation_error
from study.training.batches import Batch
from study.training.diagnostics import diagnose, gradients, observe
from study.training.task import Task

GRADIENTS = 3
"""Passes for the gradient at the source in a run: at its start, middle and end."""


def diagnostics(rounds: int) -> Table:
    """A validation's diagnosis against the updates between two validations, at the size of a minute's run."""
    rows = []
    for family in FAMILIES:
        task, batches = prepared(family)
        times = relative_times({"update": update(task.model, batches), **parts(task)}, rounds)
        every, steps = task.recipe.validate_every, task.recipe.steps
        share = (times["diagnosis"][1] + times["gradient"][1] * GRADIENTS * every / steps) / every
        rows.append([family, times["update"][0], *times["diagnosis"], *times["gradient"], 100 * share])
    return Table(
        "diagnostics",
        "What the diagnostics cost",
        f"One update on a batch of the grammar corpus at width 64, as `study train` makes it by default "
        f"({task.recipe.batch_tokens:,} tokens); one validation's diagnosis of every site, layer and head on "
        f"{len(task.diagnosed)} sentences, alignment error included; one pass for the gradient at the source. Ratios "
        f"to the update. The share is of the {every} updates between two validations: one diagnosis, and of the "
        f"{GRADIENTS} gradient passes what falls on an interval in a run of {steps:,} updates. The heat map that W&B "
        "shows is not counted, nor validation itself.",
        ("family", "update, ms", "diagnosis, ms", "diagnosis ×", "gradient, ms", "gradient ×", "share of training, %"),
        rows,
    )


def prepared(family: str, pairs: int = 2000) -> tuple[Task, list[Batch]]:
    """A task at the size of a minute's run, and a few of its training batches."""
    size = {"model.family": family, "model.width": 64, "data.train_pairs": pairs, "data.test_pairs": 100}
    experiment = experiment_from(size)
    task = Task(experiment)
    return task, list(task.data.steps(0, 4))


def parts(task: Task) -> dict[str, Work]:
    """Diagnostics of every validation and of a few."""

    def diagnosis() -> None:
        calls = observe(task.model, task.fixed)
        diagnose(calls, task.fixed, task.truth)
        validation_error(calls, task.fixed, task.diagnosed, task.vocabulary)

    return {"diagnosis": diagnosis, "gradient": lambda: gradients(task.model, task.fixed, task.truth)}
