"""What happens beside training: a checkpoint to resume from, an end that can wait for it, a file for who watches."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.utilities.exceptions import SIGTERMException


class Checkpoint(pl.Callback):
    """One file to resume from, replaced atomically after every validation, and after the step when `asked` to end."""

    def __init__(self, path: Path, asked: threading.Event) -> None:
        self.path, self.asked = path, asked

    def on_validation_end(self, trainer: pl.Trainer, task: pl.LightningModule) -> None:
        if trainer.state.fn == "fit":
            self._save(trainer)

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if self.asked.is_set():
            self._save(trainer)
            raise SIGTERMException

    def _save(self, trainer: pl.Trainer) -> None:
        temporary = self.path.with_suffix(".tmp")
        trainer.save_checkpoint(temporary)
        if trainer.is_global_zero:  # the others were there to wait for it
            os.replace(temporary, self.path)


@contextlib.contextmanager
def ending_after_a_step() -> Iterator[threading.Event]:
    """SIGTERM waits here for the end of a step and its checkpoint; then the handler of before gets it."""
    asked = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: asked.set())
    try:
        with contextlib.suppress(SIGTERMException):
            yield asked
    finally:
        signal.signal(signal.SIGTERM, before)
    if asked.is_set():
        signal.raise_signal(signal.SIGTERM)


class Progress(pl.Callback):
    """`{"step": …, "steps": …, "from": …}`, about once a second; `from` is the step that this call began at."""

    def __init__(self, path: Path, steps: int) -> None:
        self.path, self.steps, self.written = path, steps, 0.0
        self.began_at = 0

    def on_train_start(self, trainer: pl.Trainer, *_: Any) -> None:
        self.began_at = trainer.global_step

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        now = time.monotonic()
        if now - self.written > 1 and trainer.is_global_zero:
            self.written = now
            self.write(trainer.global_step)

    def write(self, step: int) -> None:
        """Say that so many steps are made."""
        temporary = self.path.with_suffix(".tmp")  # for who watches now, so not worth a wait for the disk
        temporary.write_text(json.dumps({"step": step, "steps": self.steps, "from": self.began_at}))
        os.replace(temporary, self.path)
