"""Adapt experiments to this machine, and build the environment of trials and W&B agents."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from study.config import Experiment
from study.config.experiment import threads_for
from study.sweep.slots import Slot
from study.sweep.spec import Spec
from study.sweep.task import Task


def placed(task: Task, slot: Slot, out: Path) -> Experiment:
    """The experiment with what depends on this machine and this call, none of it part of the identity."""
    trainer = task.experiment.trainer
    threads = threads_for(task.experiment.model.width, trainer.threads, slot.gpu is not None) or slot.threads
    here = trainer.model_copy(update={"threads": threads})
    return task.experiment.model_copy(update={"out": str(out), "trainer": here})


def environment(task: Task, slot: Slot, spec: Spec, sweep: Mapping[str, str]) -> dict[str, str]:
    """Return the W&B environment of a trial: as an agent sets it, but without a sweep that no server has.

    `sweep` names the one that a server has made, with its project and entity. A run that names another one is refused
    (404), online and when it is sent later.
    """
    data, model = task.experiment.data, task.experiment.model
    contract = {
        "WANDB_MODE": os.environ.get("WANDB_MODE", "offline"),
        **sweep,
        "WANDB_RUN_ID": task.folder.name,
        "WANDB_RUN_GROUP": spec.name,
        "WANDB_TAGS": f"{spec.name},{data.name},{model.family}",
        "WANDB_DIR": str(task.folder.resolve()),
    }
    return contract | ({"CUDA_VISIBLE_DEVICES": slot.gpu} if slot.gpu is not None else {})


def agent_environment(spec: Spec, out: Path, slot: Slot) -> dict[str, str]:
    """An agent's environment, which its trials inherit."""
    names = ("WANDB_SERVICE", "WANDB_RUN_ID", "WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH")
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    told = {
        "WANDB_AGENT_DISABLE_FLAPPING": "true",
        "WANDB_AGENT_MAX_INITIAL_FAILURES": str(len(spec.cells) + 1),  # five failures would end it with status 0
        "WANDB_DIR": str((out / "agents").resolve()),
        "WANDB_RUN_GROUP": spec.name,
        "WANDB_TAGS": spec.name,
        "STUDY_RUNS": str(out.resolve()),
        "OMP_NUM_THREADS": str(slot.threads),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",  # ${interpreter} is `python`
    }
    return inherited | told | ({"CUDA_VISIBLE_DEVICES": slot.gpu} if slot.gpu is not None else {})
