"""A pruning is an experiment: the run that it prunes is the same experiment without it, trained where it is missing.

Its record holds the scores of the pruned model like any other's, and beside them, by `subset`, those of the question.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from study.config import Experiment, account, experiment_id
from study.config.pruning import CUTTING, TRAINING, Pruning
from study.errors import InputError
from study.models import Translator, build
from study.models.cost import bare, cost_of
from study.pruning import answers
from study.pruning.answers import Answer, EvaluationSetup
from study.pruning.order import Ranking, gone, rank, shuffled
from study.pruning.surgery import Head, heads_of, mask, remove
from study.store import records
from study.store.records import CHECKPOINT, ModelFacts, Record
from study.training.batches import sizes_of
from study.training.checkpoint import cut, cut_to, load, resumable
from study.training.run import Hooks, Run
from study.training.run import run as train
from study.training.task import initial_model

Hold = Callable[[Path], AbstractContextManager[object]]


def run(
    experiment: Experiment, folder: Path, watch: Any = print, hold: Hold = nullcontext, base: Path | None = None
) -> Record:
    """Any experiment, pruned or not: trained, tested, recorded. What is done already is not done again.

    Args:
        experiment: what to run.
        folder: its own folder, named by the experiment's id.
        watch: called with a line of text now and then.
        hold: holds the folder of another run, the one to prune, against other processes.
        base: folder of the run to prune (default: beside `folder`, by its id; trained if it is missing).

    Raises:
        InputError: the data, the device or a folder cannot be used, or there is no model to prune.
    """
    pruning = experiment.pruning
    if pruning is None:
        return train(experiment, folder, watch)
    hooks: Hooks | None = None
    if records.state(folder) not in records.DONE:
        model = _base(experiment, base or folder.parent / experiment_id(_unpruned(experiment)), watch, hold)
        hooks = {"retrain": Retraining, "train_on": Continuation}.get(pruning.question, Removal)(model, pruning)
    return train(experiment, folder, watch, hooks)


def _unpruned(experiment: Experiment) -> Experiment:
    """Return the run to prune: the same experiment without its pruning, trained for `base_steps` where given."""
    steps = (experiment.pruning and experiment.pruning.base_steps) or experiment.training.steps
    training = experiment.training.model_copy(update={"steps": steps})
    return experiment.model_copy(update={"pruning": None, "training": training})


def _base(experiment: Experiment, folder: Path, watch: Any, hold: Hold) -> Path:
    """Return the file of the weights of the run to prune. It is no trial of the sweep that wants it pruned."""
    taken = {name: os.environ.pop(name) for name in account.OF_A_RUN if name in os.environ}
    try:
        with hold(folder):
            if records.state(folder) not in records.DONE:
                watch(f"first the run to prune, {folder.name}")
            record = train(_unpruned(experiment), folder, watch)
    finally:
        os.environ.update(taken)
    if record.status != "finished":
        raise InputError(f"{folder.name}: expected a run with a model, got one that {record.status}. Choose another.")
    return folder / "model.pt"


class Removal(Hooks):
    """Heads are taken from the model of another run, and what is left is tested. Nothing is trained but gates.

    Args:
        base: the trained model's file.
        pruning: which heads, and what is asked.
    """

    def __init__(self, base: Path, pruning: Pruning) -> None:
        self.base, self.pruning = base, pruning
        self.ranking = Ranking([], {})
        self.answer = Answer([], {})

    def model(self, run: Run) -> Translator:
        return self.trained(run).eval()

    def trained(self, run: Run) -> Translator:
        """Return the model to prune, on the CPU.

        Raises:
            InputError: the file is not that model.
        """
        model = build(run.experiment.model, len(run.data.vocabulary), run.experiment.seed, run.data.lengths)
        try:
            model.load_state_dict(load(self.base)["state"])
        except Exception:  # What a file that is absent or something else can raise has no end.
            wanted = experiment_id(_unpruned(run.experiment))
            raise InputError(
                f"{self.base}: expected the model of {wanted}, got another file or none. Remove its folder to train it "
                "again."
            ) from None
        return model

    def rank(self, run: Run, model: Translator) -> None:
        """Find the order in which heads go, where the question has one. A rank other than 0 has it with these hooks."""
        if self.pruning.question in CUTTING and not self.ranking.heads:
            run.watch(f"ranking heads by {self.pruning.order}")
            self.ranking = rank(model.to(run.device).eval(), run.experiment, run.data.train, run.data.valid)
            run.watch(f"first to go: {', '.join(map(str, self.ranking.heads[:3]))}")

    def fit(self, run: Run) -> None:
        """Answer the question on the whole model, then take the heads. Nothing is fitted."""
        run.model.to(run.device)
        run.task.best = {"step": 0, "value": None, "state": None}
        self.rank(run, run.model)
        split, among = run.data.corpus.tests[0], heads_of(run.model, self.pruning.site)
        setup = EvaluationSetup(run, split, run.data.examples(split))
        match self.pruning.question:
            case "curve":
                draws = [shuffled(among, run.experiment.seed, draw) for draw in range(self.pruning.draws or 0)]
                self.answer = answers.curve(setup, draws or [self.ranking.heads])
            case "each_head":
                self.answer = answers.each_head(setup, among)
            case "best_head":
                self.answer = answers.best_head(setup, among)
        remove(run.model, self.gone())

    def gone(self) -> list[Head]:
        """Return the heads that are removed."""
        return gone(self.ranking.heads, self.pruning.fraction or 0.0)

    def finish(self, run: Run, record: Record) -> Record:
        """Add the sizes of the remaining model, and the answer to the question."""
        model = bare(run.experiment.model, len(run.data.vocabulary), run.data.lengths)
        cut_to(model, cut(run.model))
        cost = cost_of(model, sizes_of(run.data.train, len(run.data.vocabulary)))
        found = {
            "order": [str(head) for head in self.ranking.heads],
            "importance": {str(head): value for head, value in self.ranking.importance.items()},
            "removed": [str(head) for head in self.gone()],
            **self.answer.details,
        }
        changed = {
            "model": ModelFacts.model_validate(cost, from_attributes=True),
            "scores": [*record.scores, *self.answer.scores],
            "diagnostics": {**record.diagnostics, "pruning": found},
        }
        if self.pruning.question not in TRAINING:  # the weights are those of the run that was pruned
            trained = records.read(self.base.parent / "record.json")
            changed |= {"history": trained.history, "selection": trained.selection}
        return record.model_copy(update=changed)


class Retraining(Removal):
    """The mask that was found on the trained model, put on the initial values, which are then trained as its were."""

    def model(self, run: Run) -> Translator:
        self.rank(run, self.trained(run))
        model = initial_model(run.experiment, run.data)
        remove(model, self.gone())
        return model

    def fit(self, run: Run) -> None:
        run.fit()


class Continuation(Removal):
    """The trained model, trained on while its heads go: the first at once, all before half of it (Voita et al. 2019).

    The order of removal is found before. Learning rate and Adam start again, as in any training. A validation selects
    only once all heads are gone.
    """

    masked = -1
    """Number of heads that are masked."""

    def model(self, run: Run) -> Translator:
        self.rank(run, self.trained(run))
        return self.trained(run).train()

    def fit(self, run: Run) -> None:
        run.task.before_step = partial(self.mask, run)
        step, _ = resumable(run.folder / CHECKPOINT, run.model)
        self.mask(run, max(0, step - 1))  # a validation may be all that is left to do
        run.fit()
        mask(run.model, ())
        remove(run.model, self.gone())

    def mask(self, run: Run, step: int) -> None:
        """Mask the heads that are gone by this update, counted from 0."""
        heads, steps = self.gone(), run.experiment.training.steps
        count = gone_by(step, steps, len(heads))
        if count == len(heads) and (step == 0 or gone_by(step - 1, steps, len(heads)) < count):
            run.task.best = {"step": 0, "value": None, "state": None}
        if count != self.masked:
            mask(run.model, heads[:count])
            self.masked = count


def gone_by(step: int, steps: int, heads: int) -> int:
    """Return how many of the heads to remove are gone at an update, counted from 0: all from the half of `steps` on."""
    return min(heads, 1 + 2 * step * heads // steps)
