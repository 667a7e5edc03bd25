"""One Experiment to one Record: build, fit (from a checkpoint, if one is there), evaluate, write.

The folder of a run holds, in the order in which they come to be: `training.jsonl` (one line every 20 steps),
`history.jsonl` and `maps.jsonl` (one line a validation), `checkpoint.ckpt` (to resume from),
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

import torch

from study import files
from study.config import Experiment, config_hash, experiment_id, plugins, recorded, scientific
from study.config.experiment import threads_for
from study.models import Translator
from study.models.cost import cost
from study.scores import scoring
from study.store import records
from study.store.records import CHECKPOINT, STOPPED, DataFacts, ModelFacts, Record, Resources, Selection
from study.tracking.tracker import Tracker
from study.training.batches import sizes_of
from study.training.checkpoint import resumable, save_model
from study.training.diagnostics import brief
from study.training.machine import continued, device_for, keep_memory, peak_memory, provenance
from study.training.ranks import Ranks
from study.training.task import DataModule, DivergedError, Task, initial_model
from study.training.trainer import Checkpoint, Interruption, Journal, StoppedError, trainer


def run(experiment: Experiment, folder: Path, watch: Any = print, hooks: Hooks | None = None) -> Record:
    """Train, test and record one experiment in `folder`. What is done already is not done again.

    Args:
        experiment: what to run.
        folder: its own folder, named by the experiment's id.
        watch: called with a line of text now and then.
        hooks: the parts of another kind of run; None for training as it is.

    Raises:
        InputError: the data, the device or the folder cannot be used, or the record that is there.
    """
    if records.state(folder) in records.DONE:
        record = records.read(folder / "record.json")
        if "WANDB_SWEEP_ID" in os.environ:  # the server waits for this trial
            Tracker(experiment, folder).finish(record)
        return record
    plugins.learn(folder)
    prepared = Run(experiment, folder, watch, hooks)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / STOPPED).unlink(missing_ok=True)  # of an earlier call
    plugins.keep(folder, scientific(experiment).values())
    return prepared.record()


def follow(place: Ranks, experiment: Experiment, folder: Path, hooks: Hooks) -> None:
    """Take the part of a rank other than 0, in its own process: its share of every batch. It writes nothing."""
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

    def __init__(
        self,
        experiment: Experiment,
        folder: Path,
        watch: Any = print,
        hooks: Hooks | None = None,
        place: Ranks | None = None,
    ) -> None:
        self.started = time.perf_counter()
        self.experiment, self.folder, self.watch = experiment, folder, watch
        self.hooks, self.ranks = hooks or Hooks(), place or Ranks(experiment.trainer.devices)
        self.interruption = Interruption()
        self.device = device_for(experiment)
        if threads := threads_for(experiment.model.width, experiment.trainer.threads, self.device.type != "cpu"):
            torch.set_num_threads(threads)
            if self.ranks.count > 1:
                os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # else Lightning shares out the cores
        torch.set_flush_denormal(True)
        keep_memory()
        made = provenance(self.device, self.ranks.count, experiment.training.precision)
        self.data = DataModule(experiment)
        self.cost = cost(experiment.model, sizes_of(self.data.train, len(self.data.vocabulary)))
        self.model: Translator = self.hooks.model(self)
        calls, self.provenance = continued(made, *resumable(folder / CHECKPOINT, self.model))
        self.task = Task(experiment, self.data, self.model)
        """The model's training: its history, its diagnostics, and the weights that are tested."""
        self.task.began, self.task.calls = self.started, [call.model_dump() for call in calls]
        self.task.asked = lambda: self.interruption.signal is not None

    def record(self) -> Record:
        """Fit, evaluate, and write everything, the record last."""
        self.wandb = Tracker(self.experiment, self.folder, self.watch)
        record = None
        try:
            try:
                self.hooks.fit(self)
                record = self._finished()
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
        part = (self.experiment, self.folder, self.hooks)
        with self.ranks.together(follow, part, lambda: self.interruption.signal):
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
        every = min(recipe.validate_every, recipe.steps)
        journal = [Journal(self.folder, recipe.steps, self.watch, self.wandb)] if self.ranks.rank == 0 else []
        callbacks = [self.interruption, *journal, Checkpoint(checkpoint, every)]
        own = trainer(recipe, self.device, self.ranks, callbacks, self.folder)
        resume = str(checkpoint) if checkpoint.exists() else None
        begins = f"continuing from {checkpoint.name}" if resume else "training"
        self.watch(f"{begins}: {recipe.steps:,} steps, a validation every {every:,}")
        try:
            own.fit(self.task, self.data, ckpt_path=resume, weights_only=True)
            if (self.task.history[-1]["step"] if self.task.history else 0) < recipe.steps:
                own.validate(self.task, self.data, verbose=False)
        except SystemExit as ending:  # Lightning's, from a KeyboardInterrupt
            if isinstance(ending.__context__, KeyboardInterrupt):
                raise ending.__context__ from None
            raise

    def _finished(self) -> Record:
        """Test, and write what comes of it: translations, NLL of each sentence, attention, the model."""
        self.model.to(self.device)
        self.watch(f"testing on {', '.join(['valid', *self.data.corpus.tests])}")
        found = self.task.evaluate()
        digests = {}
        texts = {f"{split}.hyp.txt": hypotheses for split, hypotheses in found.hypotheses.items()}
        texts |= {f"{split}.nll.txt": [f"{value:.7g}" for value in values] for split, values in found.nll.items()}
        for name, rows in texts.items():
            content = "".join(row.replace("\n", " ") + "\n" for row in rows)
            files.write(self.folder / name, content)
            digests[name] = hashlib.sha256(content.encode()).hexdigest()
        if found.shown is not None:
            files.write(self.folder / "attention.json", json.dumps(found.shown, ensure_ascii=False) + "\n")
        save_model(self.folder / "model.pt", self.experiment, self.data.vocabulary, self.data.lengths, self.model)
        scores = []
        for score in found.scores:
            name = f"{score.split}.hyp.txt"
            if name in digests and score.metric in scoring.TEXT_SCORES:
                score = score.model_copy(update={"hypotheses": name, "hypotheses_sha256": digests[name]})
            scores.append(score)
        return self._record(
            "finished",
            scores=scores,
            per_sentence={name: digest for name, digest in digests.items() if name.endswith(".nll.txt")},
            speed=found.sentences_per_second,
        )

    def _record(self, status: Any, speed: float | None = None, **more: Any) -> Record:
        """Return the record of a run; `more` are an error, or scores and the files of each sentence."""
        task, corpus = self.task, self.data.corpus
        record = Record(
            protocol=self.experiment.protocol,
            id=experiment_id(self.experiment),
            status=status,
            config=recorded(self.experiment),
            config_hash=config_hash(self.experiment),
            seed=self.experiment.seed,
            data=DataFacts(
                name=corpus.name,
                version=corpus.version,
                source=corpus.languages[0],
                target=corpus.languages[1],
                files=corpus.files,
                subwords=hashlib.sha256(self.data.vocabulary.state).hexdigest(),
            ),
            model=ModelFacts.model_validate(self.cost, from_attributes=True),
            resources=Resources(
                train_seconds=task.train_seconds,
                wall_seconds=task.earlier_seconds + time.perf_counter() - self.started,
                tokens_per_second=task.tokens / max(task.train_seconds, 1e-9),
                decode_sentences_per_second=speed,
                peak_memory_bytes=peak_memory(self.device),
            ),
            selection=Selection(rule=self.experiment.training.select, step=task.best["step"], value=task.best["value"]),
            diagnostics=brief({**task.diagnostics, "gradients": task.gradients} if task.diagnostics else {}),
            history=records.rounded(task.history),
            provenance=self.provenance,
            wandb=self.wandb.facts(),
            **more,
        )
        return self.hooks.finish(self, record)
