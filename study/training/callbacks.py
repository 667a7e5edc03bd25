"""What happens beside training: a checkpoint to resume from, and a file for who watches."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl


class Checkpoint(pl.Callback):
    """One file to resume from, replaced atomically after every validation."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_validation_end(self, trainer: pl.Trainer, task: pl.LightningModule) -> None:
        if trainer.state.fn == "fit":
            temporary = self.path.with_suffix(".tmp")
            trainer.save_checkpoint(temporary)
            if trainer.is_global_zero:  # the others were there to wait for it
                os.replace(temporary, self.path)


class Progress(pl.Callback):
    """`{"step": …, "steps": …}`, about once a second."""

    def __init__(self, path: Path, steps: int) -> None:
        self.path, self.steps, self.written = path, steps, 0.0

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        now = time.monotonic()
        if now - self.written > 1 and trainer.is_global_zero:
            self.written = now
            temporary = self.path.with_suffix(".tmp")
            temporary.write_text(json.dumps({"step": trainer.global_step, "steps": self.steps}))
            os.replace(temporary, self.path)
