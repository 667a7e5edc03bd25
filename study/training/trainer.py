"""Lightning's trainer as every run has it: quiet, and without what the study does itself."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence

import pytorch_lightning as pl
import torch

from study.config.experiment import Training
from study.training.ranks import Ranks


def trainer(
    recipe: Training,
    device: torch.device,
    ranks: Ranks,
    callbacks: Sequence[pl.Callback],
    install: Callable[[], None] = lambda: None,
) -> pl.Trainer:
    """Build a Lightning trainer for a number of steps on one device or several. It logs, saves and prints nothing.

    `install` sets the handlers of signals; see `Ranks.strategy`.
    """
    for name in ("pytorch_lightning", "pytorch_lightning.utilities.rank_zero", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="pytorch_lightning|lightning_fabric")
    return pl.Trainer(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=ranks.count,
        strategy=ranks.strategy(install),
        plugins=[ranks],
        precision="bf16-mixed" if recipe.precision == "bfloat16" else "32-true",
        max_steps=recipe.steps,
        max_epochs=-1,
        val_check_interval=min(recipe.validate_every, recipe.steps),
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
    )
