"""What a trial is given: its experiment as it runs here, and the environment that an agent of W&B would give it."""

from __future__ import annotations

import os
from pathlib import Path

from study.config import Experiment
from study.sweep.slots import Slot
from study.sweep.spec import Spec
from study.sweep.task import Task


def placed(task: Task, slot: Slot, out: Path) -> Experiment:
    """The experiment with what depends on this machine and this call, none of it part of the identity."""
    trainer = task.experiment.trainer
    here = trainer.model_copy(update={"threads": trainer.threads or slot.threads})
    return task.experiment.model_copy(update={"out": str(out), "trainer": here})


def environment(task: Task, slot: Slot, spec: Spec) -> dict[str, str]:
    """The agent's contract: what a trial of a W&B sweep finds in its environment."""
    data, model = task.experiment.data, task.experiment.model
    contract = {
        "WANDB_MODE": os.environ.get("WANDB_MODE", "offline"),
        "WANDB_SWEEP_ID": spec.sweep_id,
        "WANDB_RUN_ID": task.folder.name,
        "WANDB_RUN_GROUP": spec.name,
        "WANDB_JOB_TYPE": "trial",
        "WANDB_TAGS": f"{spec.name},{data.name},{model.family}",
        "WANDB_DIR": str(task.folder.resolve()),
    }
    return contract | ({"CUDA_VISIBLE_DEVICES": slot.gpu} if slot.gpu is not None else {})
