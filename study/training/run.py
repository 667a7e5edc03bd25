"""One Experiment to one Record: build, fit (from a checkpoint, if one is there), evaluate, write.

The folder of a run holds, in the order in which they come to be: `progress.json` (for who watches), `training.jsonl`
(one line every 20 steps), `history.jsonl` and `maps.jsonl` (one line a validation), `checkpoint.ckpt` (to resume from),
`<split>.hyp.txt`, `<split>.nll.txt` (NLL of each sentence, in nats), `attention.json`, `model.pt` (for `study
translate`) and, last and atomically, `record.json`.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from study import files, records, scoring
from study.config import Experiment, config_hash, experiment_id, plugins, recorded, scientific
from study.config.experiment import threads_for
from study.errors import InputError
from study.models import Translator
from study.models.cost import cost
from study.records import CHECKPOINT, STOPPED, ModelFacts, Record, Resources, Score, Selection
from study.tracking.tracker import Tracker
from study.tracking.view import MAPS, validation
from study.training import ranks
from study.training.alignment import attention_map, onset
from study.training.batches import sizes_of
from study.training.checkpoint import Kept, check_resumable, save_model
from study.training.diagnostics import brief, for_record, short
from study.training.evaluate import Evaluation
from study.training.machine import continued, data_facts, device_for, keep_memory, peak_memory, provenance
from study.training.task import DataModule, DivergedError, Task, initial_model
from study.training.trainer import Checkpoint, Curves, Interruption, Progress, StoppedError, trainer


def run(experiment: Experiment, folder: Path, watch: Any = print, hooks: Hooks | None = None) -> Record:
    """Train, test and record one experiment in `folder`. What is done already is not done again.

    Args:
        experiment: what to run.
        folder: its own folder, named by the experiment's id.
        watch: called with a line of text now and then.
        hooks: the parts of another kind of run; None for training as it is.

    Raises:
        InputError: the data, the device or the folder cannot be used.
    """
    if records.state(folder) in ("finished", "diverged"):
        record = records.read(folder / "record.json")
        if "WANDB_SWEEP_ID" in os.environ:  # the server waits for this trial
            Tracker(experiment, folder).finish(record)
        return record
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise files.unwritable(folder, problem) from None
    plugins.learn(folder)
    for name in ("progress.json", STOPPED):  # of an earlier call
        (folder / name).unlink(missing_ok=True)
    try:
        prepared = Run(experiment, folder, watch, hooks)
    except InputError:
        with suppress(OSError):  # a folder that this call made and that holds nothing
            folder.rmdir()
        raise
    plugins.keep(folder, scientific(experiment).values())
    return prepared.record()


def follow() -> None:
    """Take the part of a rank other than 0, in its own process: its share of every batch. It writes nothing."""
    (experiment, folder, hooks), place = ranks.joined()
    run = Run(experiment, folder, lambda line: None, hooks, place)
    with suppress(DivergedError):  # rank 0 says so
        run.hooks.fit(run)


class Hooks:
    """The parts of a run that another kind of run does differently. As they stand, the experiment is trained.

    The processes of a run on several devices get copies, so hooks can be pickled.
    """

    def model(self, run: Run) -> Translator:
        """Return the model to begin with."""
        return initial_model(run.experiment, run.data)

    def fit(self, run: Run) -> None:
        """Bring the model to what is tested."""
        run.fit()

    def finish(self, run: Run, record: Record) -> Record:
        """Return the record to write, given that of a training."""
        return record

    def kept(self, run: Run) -> Kept | None:
        """Return what is known of the earlier calls that made a part of this run; None if this one begins it.

        Raises:
            InputError: it is damaged, or of another model.
        """
        return check_resumable(run.folder / CHECKPOINT, run.model)


class Run:
    """One run: its parts once they are prepared, and the record that it ends in.

    Preparing reads the data and builds the model; it writes nothing.

    Args:
        experiment: what to run.
        folder: its own folder.
        watch: called with a line of text now and then.
        hooks: the parts of another kind of run; None for training as it is.
        place: this process's place among those of the run; None for the first.

    Raises:
        InputError: the data or the device cannot be used, or the folder holds a checkpoint that cannot.
    """

    data: DataModule
    device: torch.device
    model: Translator
    task: Task
    """The model's training: its history, its diagnostics, and the weights that are tested."""
    progress: Progress

    def __init__(
        self,
        experiment: Experiment,
        folder: Path,
        watch: Any = print,
        hooks: Hooks | None = None,
        place: ranks.Ranks | None = None,
    ) -> None:
        self.started = time.perf_counter()
        self.experiment, self.folder, self.watch = experiment, folder, watch
        self.hooks, self.ranks = hooks or Hooks(), place or ranks.Ranks(experiment.trainer.devices)
        self.progress = Progress(folder / "progress.json", experiment.training.steps)
        self.interruption = Interruption()
        self.ranks.asked = lambda: self.interruption.signal
        self.device = device_for(experiment)
        self.threads = threads_for(experiment.model.width, experiment.trainer.threads, self.device.type != "cpu")
        if self.threads:
            torch.set_num_threads(self.threads)
        torch.set_flush_denormal(True)
        keep_memory()
        self.per_sentence: dict[str, str] = {}
        """SHA-256 of each file with one number a sentence."""
        self.provenance = provenance(self.device, self.ranks.count, experiment.training.precision)
        self.data = DataModule(experiment)
        self.cost = cost(experiment.model, sizes_of(self.data.train, len(self.data.vocabulary)))
        self.model = self.hooks.model(self)
        self.calls, self.provenance = continued(self.provenance, self.hooks.kept(self))
        self.task = Task(experiment, self.data, self.model)
        self.task.began, self.task.calls = self.started, [call.model_dump() for call in self.calls]
        self.task.report = self._report
        self.task.asked = lambda: self.interruption.signal is not None

    def record(self) -> Record:
        """Fit, evaluate, and write everything, the record last."""
        self.wandb = Tracker(self.experiment, self.folder, self.watch)
        record = None
        try:
            try:
                self.hooks.fit(self)
                evaluation = self._evaluate()
                record = self._finished(evaluation)
                if lacking := records.incomplete(record, ["valid", *self.data.corpus.tests]):
                    raise RuntimeError(f"the run is not whole: {lacking}")
            except DivergedError as problem:
                record = self._record("diverged", error=str(problem))
            files.write(self.folder / "record.json", records.dumps(record))
            record = records.read(self.folder / "record.json")
        except (SystemExit, KeyboardInterrupt) as ending:  # a signal: the run goes on later
            self.wandb.stop(getattr(ending, "code", None))
            raise
        finally:
            self.wandb.finish(record)
        (self.folder / CHECKPOINT).unlink(missing_ok=True)
        return record

    def fit(self) -> None:
        """Train, from the checkpoint where there is one, and take the weights that the recipe selects.

        Raises:
            DivergedError: a loss is no number.
        """
        with self.ranks.together((self.experiment, self.folder, self.hooks), self.threads):
            stopped = False
            with self.interruption:
                try:
                    self._train()
                except StoppedError:
                    stopped = True
            if self.ranks.rank == 0 and (stopped or self.interruption.signal):
                self.interruption.answer()
        if self.ranks.rank == 0:
            self.task.take_selected()

    def _train(self) -> None:
        recipe, checkpoint = self.experiment.training, self.folder / CHECKPOINT
        callbacks: list[pl.Callback] = [self.progress]
        if self.ranks.rank == 0:
            callbacks.append(Curves(self.folder / "training.jsonl", self.wandb))
        callbacks.append(Checkpoint(checkpoint))  # which may end the step for all after it
        self.trainer = trainer(recipe, self.device, self.ranks, callbacks, self.folder, self.interruption.install)
        resume = str(checkpoint) if checkpoint.exists() else None
        every = min(recipe.validate_every, recipe.steps)
        begins = f"continuing from {checkpoint.name}" if resume else "training"
        self.watch(f"{begins}: {recipe.steps:,} steps, a validation every {every:,}")
        try:
            self.trainer.fit(self.task, self.data, ckpt_path=resume, weights_only=True)
            if (self.task.history[-1]["step"] if self.task.history else 0) < recipe.steps:
                self.trainer.validate(self.task, self.data, verbose=False)
        except SystemExit as ending:  # Lightning's, from a KeyboardInterrupt
            if isinstance(ending.__context__, KeyboardInterrupt):
                raise ending.__context__ from None
            raise

    def _report(self, point: dict[str, Any]) -> None:
        """A validation: to the history, to W&B and to who watches."""
        lines = "".join(json.dumps(records.rounded(p), sort_keys=True) + "\n" for p in self.task.history)
        files.write(self.folder / "history.jsonl", lines)
        shown = attention_map(self.model, self.data.valid, self.data.vocabulary, None)
        if shown is not None:
            files.append(self.folder / MAPS, json.dumps({"step": point["step"], **shown}, ensure_ascii=False) + "\n")
        # Rounded as the files have it, so that a run made from them is the same.
        measured = records.rounded(brief(self.task.gradients))
        self.wandb.log(validation(records.rounded(point), measured, shown), point["step"])
        rate = self.task.tokens / max(self.task.train_seconds, 1e-9)
        ahead = self.experiment.training.steps - point["step"]
        left = f"{ahead * self.task.train_seconds / max(1, point['step']):.0f} s left" if ahead else "tested next"
        self.watch(
            f"step {point['step']}/{self.experiment.training.steps}  train loss {point['train_loss']:.3f}  "
            f"valid loss {point['valid_loss']:.3f}  BLEU {point['valid_bleu']:.2f}  "
            f"exact {point['valid_exact']:.1f}%  {rate:,.0f} tok/s  {left}"
        )

    def _evaluate(self) -> Evaluation:
        self.model.to(self.device)
        self.progress.write(self.progress.steps)
        self.watch(f"testing on {', '.join(['valid', *self.data.corpus.tests])}")
        return self.task.evaluate()

    def _finished(self, evaluation: Evaluation) -> Record:
        scores = [self._with_hypotheses(score, evaluation.hypotheses) for score in evaluation.scores]
        scores += onset(self.task.history, len(self.task.diagnosed))
        for split, lines in evaluation.hypotheses.items():
            files.write(self.folder / f"{split}.hyp.txt", _text(lines))
        for split, values in evaluation.nll.items():
            text = _text([f"{value:.7g}" for value in values])
            files.write(self.folder / f"{split}.nll.txt", text)
            self.per_sentence[f"{split}.nll.txt"] = hashlib.sha256(text.encode()).hexdigest()
        if evaluation.shown is not None:
            files.write(self.folder / "attention.json", json.dumps(evaluation.shown, ensure_ascii=False) + "\n")
        save_model(self.folder / "model.pt", self.experiment, self.data.vocabulary, self.data.lengths, self.model)
        return self._record("finished", scores=scores, speed=evaluation.sentences_per_second)

    def _with_hypotheses(self, score: Score, hypotheses: dict[str, list[str]]) -> Score:
        """A score computed from a file of hypotheses names the file and its checksum."""
        if score.split not in hypotheses or score.metric not in scoring.METRICS:
            return score
        digest = hashlib.sha256(_text(hypotheses[score.split]).encode()).hexdigest()
        return score.model_copy(update={"hypotheses": f"{score.split}.hyp.txt", "hypotheses_sha256": digest})

    def _record(
        self, status: Any, scores: list[Score] | None = None, speed: float | None = None, error: str | None = None
    ) -> Record:
        task = self.task
        record = Record(
            protocol=self.experiment.protocol,
            id=experiment_id(self.experiment),
            status=status,
            error=error,
            config=recorded(self.experiment),
            config_hash=config_hash(self.experiment),
            seed=self.experiment.seed,
            data=data_facts(self.data.corpus, self.data.vocabulary),
            model=ModelFacts(
                parameters=self.cost.parameters,
                parameters_attention=self.cost.parameters_attention,
                flops_per_token=self.cost.flops_per_token,
            ),
            resources=Resources(
                train_seconds=task.train_seconds,
                wall_seconds=task.earlier_seconds + time.perf_counter() - self.started,
                tokens_per_second=task.tokens / max(task.train_seconds, 1e-9),
                decode_sentences_per_second=speed,
                peak_memory_bytes=peak_memory(self.device),
            ),
            selection=Selection(rule=self.experiment.training.select, step=task.best["step"], value=task.best["value"]),
            scores=scores or [],
            diagnostics=for_record(task.diagnostics, task.initial, task.gradients),
            history=records.rounded([short(point) for point in task.history]),
            per_sentence=self.per_sentence,
            provenance=self.provenance,
            wandb=self.wandb.facts(),
        )
        return self.hooks.finish(self, record)


def _text(lines: list[str]) -> str:
    return "".join(line.replace("\n", " ") + "\n" for line in lines)
