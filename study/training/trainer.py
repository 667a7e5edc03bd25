"""Lightning's trainer of a run: quiet, with checkpoints to resume from, an orderly end, and files of its progress."""

from __future__ import annotations

import json
import logging
import signal
import threading
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.strategies import DDPStrategy

from study import files
from study.config.experiment import Training
from study.processes import REQUESTS
from study.store import records
from study.tracking.tracker import Tracker
from study.tracking.view import MAPS
from study.training.alignment import attention_map
from study.training.diagnostics import brief
from study.training.ranks import Ranks


class StoppedError(Exception):
    """Training ends here because it was asked to; its checkpoint is saved."""


class Interruption(pl.Callback):
    """A request to end that training answers between two steps, not wherever a signal finds it.

    Within, the first SIGTERM, SIGHUP or SIGINT is only noted. `answer` gives it to the handler of before, once training
    has saved its checkpoint. A second SIGINT is given to it at once: the user does not want to wait. A signal that is
    ignored on entry stays ignored.

    Lightning's handler of SIGTERM would end training with status 0 between two of these checks, or wait for other ranks
    for ever. It is set before each stage, so the stage begins with taking the signals back.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():  # Python gives signals to no other
            found = {one: signal.getsignal(one) for one in (*REQUESTS, signal.SIGINT)}
            self._before = {one: handler for one, handler in found.items() if handler not in (signal.SIG_IGN, None)}
        self.take_signals()
        return self

    def take_signals(self) -> None:
        """Note signals from here on."""
        for one in self._before:
            signal.signal(one, self._note)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.take_signals()

    on_validation_start = on_train_start

    def __exit__(self, *_: object) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def answer(self) -> None:
        """Give the request to the handler of before, to be called after the context. Another rank's is a SIGTERM."""
        number = self.signal or signal.SIGTERM
        signal.raise_signal(number)
        raise SystemExit(128 + number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number


class Checkpoint(pl.Callback):
    """One file to resume from, replaced atomically after every validation, and after the step when asked to end.

    A step that a validation follows is not saved before it: a run resumed from there would take it for done, and its
    history would lack a point.
    """

    def __init__(self, path: Path, every: int) -> None:
        self.path, self.every = path, every

    def on_train_batch_end(self, trainer: pl.Trainer, task: Any, *_: Any) -> None:
        if task.ending and trainer.global_step % self.every:
            self._save(trainer)
            raise StoppedError

    def on_validation_end(self, trainer: pl.Trainer, task: Any) -> None:
        if trainer.state.fn == "fit":
            self._save(trainer)
            if task.ending:
                raise StoppedError

    def _save(self, trainer: pl.Trainer) -> None:
        if not trainer.is_global_zero:
            trainer.save_checkpoint(self.path)  # waits for rank 0 and writes nothing
            return
        with files.replacing(self.path, durable=False) as temporary:
            trainer.save_checkpoint(temporary)


class Journal(pl.Callback):
    """The files that a run writes while it trains, which W&B gets, too.

    `training.jsonl`, every `EVERY` steps: loss, learning rate, norm of the gradient and speed. `history.jsonl` and
    `maps.jsonl`: a line for every validation.

    Args:
        folder: of the run.
        steps: number of steps of the recipe.
        watch: called with a line of text at every validation.
        tracker: the run in W&B.
    """

    EVERY = 20

    def __init__(self, folder: Path, steps: int, watch: Callable[[str], object], tracker: Tracker) -> None:
        self.folder, self.steps, self.watch, self.tracker = folder, steps, watch, tracker
        self.reported = 0
        self.norm: torch.Tensor | None = None
        self.trained: tuple[int, float] | None = None

    def on_train_start(self, trainer: pl.Trainer, task: Any) -> None:
        self.reported = task.history[-1]["step"] if task.history else 0
        for path in filter(Path.exists, (self.folder / "training.jsonl", self.folder / MAPS)):
            points = [point for point in files.json_lines(path.read_bytes()) if point[0] <= trainer.global_step]
            kept = (json.dumps({"step": step, **values}, ensure_ascii=False) + "\n" for step, values in points)
            files.write(path, "".join(kept), durable=False)
        self._send(task)

    def on_before_optimizer_step(self, trainer: pl.Trainer, task: pl.LightningModule, *_: Any) -> None:
        """Measure the gradient norm before clipping. On a GPU the loss is read in this step too."""
        if trainer.global_step % self.EVERY == 0:
            self.norm = torch.nn.utils.get_total_norm([p.grad for p in task.parameters() if p.grad is not None])

    def on_train_batch_end(self, trainer: pl.Trainer, task: Any, *_: Any) -> None:
        if self.norm is None:
            return
        now, before = task.count(), self.trained
        values = {
            "train/loss": task.last_loss,
            "train/lr": trainer.optimizers[0].param_groups[0]["lr"],
            "train/gradient_norm": float(self.norm),
        }
        if before:
            values["train/tokens_per_second"] = (now[0] - before[0]) / max(now[1] - before[1], 1e-9)
        self.norm, self.trained = None, now
        files.append(self.folder / "training.jsonl", json.dumps({"step": trainer.global_step, **values}) + "\n")
        if not before and trainer.global_step % int(trainer.val_check_interval):  # else its validation sends it
            self._send(task)

    def on_validation_end(self, trainer: pl.Trainer, task: Any) -> None:
        point = task.history[-1]
        step = point["step"]
        if step == self.reported:
            return
        self.reported = step
        text = "".join(json.dumps(records.rounded(p), sort_keys=True) + "\n" for p in task.history)
        files.write(self.folder / "history.jsonl", text)
        shown = attention_map(task.model, task.data.valid, task.vocabulary, None)
        if shown is not None:
            files.append(self.folder / MAPS, json.dumps({"step": step, **shown}, ensure_ascii=False) + "\n")
        self._send(task)
        rate = task.tokens / max(task.train_seconds, 1e-9)
        left = f"{(self.steps - step) * task.train_seconds / step:.0f} s left" if step < self.steps else "tested next"
        self.watch(
            f"step {step}/{self.steps}  train loss {point['train_loss']:.3f}  valid loss {point['valid_loss']:.3f}  "
            f"BLEU {point['valid_bleu']:.2f}  exact {point['valid_exact']:.1f}%  {rate:,.0f} tok/s  {left}"
        )

    def _send(self, task: Any) -> None:
        """Send what W&B lacks, rounded as the record has it."""
        self.tracker.send(records.rounded(brief(task.gradients)))


def trainer(
    recipe: Training, device: torch.device, ranks: Ranks, callbacks: list[pl.Callback], folder: Path
) -> pl.Trainer:
    """Build a Lightning trainer for a number of steps on one device or several. It logs, saves and prints nothing.

    `folder` is that of the run: within a job of SLURM, Lightning would resume from any `hpc_ckpt_*` of the working
    directory. Ranks wait for each other without a limit, because a rank that ends ends the others.
    """
    for name in ("pytorch_lightning", "pytorch_lightning.utilities.rank_zero", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="pytorch_lightning|lightning_fabric")
    several = DDPStrategy(find_unused_parameters=True, timeout=timedelta(days=30))
    return pl.Trainer(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=ranks.count,
        strategy="auto" if ranks.count == 1 else several,
        plugins=[ranks],
        default_root_dir=folder,
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
        callbacks=callbacks,
    )
