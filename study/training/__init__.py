"""One Experiment to one Record. `train` is the entry; a kind of run that differs in a part of it gives it `Hooks`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.config import Experiment
from study.records import Record

if TYPE_CHECKING:
    from study.training.run import Hooks, Run

__all__ = ["Hooks", "Run", "train"]


def train(experiment: Experiment, folder: Path, watch: Any = print, hooks: Hooks | None = None) -> Record:
    """Train, test and record one experiment in `folder`. What is done already is not done again.

    Args:
        experiment: what to run.
        folder: its own folder, named by the experiment's id.
        watch: called with a line of text now and then.
        hooks: the parts of another kind of run; None for training as it is.

    Raises:
        InputError: the data, the device or the folder cannot be used.
    """
    from study.training.run import run

    return run(experiment, folder, watch, hooks)


def __getattr__(name: str) -> Any:
    """Import what training needs, PyTorch Lightning and the W&B client, when it is asked for."""
    if name in __all__:
        from study.training import run

        return getattr(run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
